"""Hooks: what a person wants run before and after acts; each running of one is in the log.

May not widen what is allowed: a hook denies, asks, adds text or gives another input or output.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_kernel.core.events import HookRun
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session

Moment = Literal[
    "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "PreCompact", "PostCompact"
]
GATES: frozenset[Moment] = frozenset({"PreToolUse", "UserPromptSubmit"})  # a broken one denies
STOPS = 3  # times a Stop hook may keep one turn going


@dataclass(frozen=True)
class HookSaid:
    """What a hook wants: a verdict with its reason, text for the model, another input or output.

    `error` says that it failed.
    """

    verdict: Literal["deny", "ask"] | None = None
    reason: str = ""
    text: str = ""
    input: Json | None = None
    output: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Hook:
    """One hook: at which moment, for which tools or triggers, and what is run with the facts.

    `run` may be a coroutine function; None from it = nothing to say. `timeout` in seconds.
    """

    moment: Moment
    name: str
    run: Callable[[Json], HookSaid | Awaitable[HookSaid | None] | None]
    matches: Callable[[str], bool] = lambda _subject: True
    timeout: float = 60.0


async def run_hooks(
    session: Session,
    agent: str,
    hooks: Sequence[Hook],
    moment: Moment,
    facts: Json,
    *,
    subject: str = "",
    id: str | None = None,
) -> HookSaid:
    """Run the hooks of a moment in order, log each, and return what they want together.

    The most severe verdict holds; a later hook sees the input and output an earlier one gave.
    """
    whole = HookSaid()
    for hook in hooks:
        if hook.moment != moment or not hook.matches(subject):
            continue
        began = time.monotonic()
        said = await _one(hook, facts)
        session.append(
            HookRun(
                hook=f"{moment}:{hook.name}",
                id=id,
                verdict=said.verdict,
                seconds=round(time.monotonic() - began, 3),
                error=said.error,
                text=said.text,
            ),
            agent=agent,
        )
        whole = _joined(whole, said)
        if said.input is not None:
            facts = {**facts, "tool_input": said.input}
        if said.output is not None:
            facts = {**facts, "tool_response": said.output}
    return whole


async def _one(hook: Hook, facts: Json) -> HookSaid:
    try:
        async with asyncio.timeout(hook.timeout):
            made = hook.run(facts)
            said = await made if inspect.isawaitable(made) else made
    except TimeoutError:
        error = f"it took over {hook.timeout:g} s"
    except Exception as failed:  # noqa: BLE001 - a person's own code: its failure is logged and told
        error = f"{type(failed).__name__}: {failed}"
    else:
        return said or HookSaid()
    reason = f"the hook {hook.name!r} failed: {error}"
    return HookSaid("deny" if hook.moment in GATES else None, reason, error=error)


def _joined(a: HookSaid, b: HookSaid) -> HookSaid:
    order = {"ask": 1, "deny": 2, None: 0}
    worst = b if order[b.verdict] > order[a.verdict] else a
    return HookSaid(
        worst.verdict,
        worst.reason,
        "\n".join(text for text in (a.text, b.text) if text),
        b.input if b.input is not None else a.input,
        b.output if b.output is not None else a.output,
        a.error or b.error,
    )
