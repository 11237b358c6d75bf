"""Breaks: the breakpoints of a session, and whether the loop stops before its next action.

May not stop anything: the loop asks before each action.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.core.actions import Action, Call, Compact, RunBatch
from agent_kernel.core.agent import Agent
from agent_kernel.core.compaction import context_tokens
from agent_kernel.core.events import AssistantMessage, BreakpointSet, ToolResultEvent, TurnStart
from agent_kernel.core.messages import ToolUse
from agent_kernel.core.query import next_action
from agent_kernel.core.session import Session
from agent_kernel.core.state import State
from agent_kernel.core.usage import cost

KINDS = ("request", "tool", "tool:NAME", "compaction", "tokens>N", "cost>X", "error")
_SPEC = re.compile(
    r"request|compaction|error|tool(?::(?P<name>[\w.-]+))?"
    r"|tokens>(?P<tokens>\d+)(?P<unit>[kM]?)|cost>(?P<cost>\d+(?:\.\d+)?)"
)


def spec_of(text: str) -> str:
    """Return a breakpoint as it is kept. Raises ValueError naming the kinds there are."""
    found = _SPEC.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ValueError(f"{text!r} is no breakpoint; there are {', '.join(KINDS)}")
    if found["tokens"]:
        return f"tokens>{int(found['tokens']) * {'': 1, 'k': 1_000, 'M': 1_000_000}[found['unit']]}"
    return found.group()


def set_in(session: Session) -> list[str]:
    """Return the breakpoints of a session, in the order they were set."""
    found: dict[str, None] = {}
    for event in session.events:
        if isinstance(event, BreakpointSet):
            found.pop(event.spec, None)
            if event.on:
                found[event.spec] = None
    return list(found)


def hit(session: Session, specs: Sequence[str], action: Action, agent: str = "main") -> str:
    """Return the breakpoint that stops the loop before `action`, "" when none does.

    A pure function of the log: `tokens` is the context's estimate, `cost` the turn's dollars so
    far, `error` stops before the request after a batch in which a call failed.
    """
    return next((spec for spec in specs if _holds(session, spec, action, agent)), "")


def _holds(session: Session, spec: str, action: Action, agent: str) -> bool:
    state = session.state(agent)
    kind, _, rest = spec.replace(">", ":").partition(":")
    match kind:
        case "request":
            return isinstance(action, Call)
        case "compaction":
            return isinstance(action, Compact)
        case "tool":
            return isinstance(action, RunBatch) and _new(state, action, rest)
        case "error":
            return isinstance(action, Call) and _failed(session, agent)
        case "tokens":
            return isinstance(action, Call) and context_tokens(session, agent) > int(rest)
    return isinstance(action, Call) and (_dollars(state) or 0.0) > float(rest)


def _new(state: State, action: RunBatch, name: str) -> bool:
    """Tell whether calls of the tool begin here: once each, not again after their approval."""
    uses = state.answer.content if state.answer is not None else ()
    mine = {u.id for u in uses if isinstance(u, ToolUse) and u.id in action.ids}
    named = {u.id for u in uses if isinstance(u, ToolUse) and name in ("", u.name)}
    known = {i for i, c in state.calls.items() if c.ask is not None or c.decision is not None}
    return bool((mine & named) - known)


def _failed(session: Session, agent: str) -> bool:
    for event in reversed(session.events):
        if event.agent != agent:
            continue
        if isinstance(event, AssistantMessage | TurnStart):
            return False
        if isinstance(event, ToolResultEvent) and event.is_error:
            return True
    return False


def _dollars(state: State) -> float | None:
    """Return what the open turn cost by its last model's price, None when that is unknown."""
    if state.header is None:
        return None
    return cost(state.header.model, state.turn_usage)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The breakpoint that stopped a turn, and the action it stands before."""

    spec: str
    action: Action


async def stop(session: Session, agent: Agent, specs: Sequence[str]) -> Stopped | None:
    """Return what stops the agent's open turn here, None when it goes on.

    What was appended until then is on the disk.
    """
    if not session.state(agent.id).turn_open:
        return None
    await agent.refresh(session)
    action = next_action(session, agent)
    spec = hit(session, specs, action, agent.id)
    if not spec:
        return None
    await session.log.commit()
    return Stopped(spec, action)
