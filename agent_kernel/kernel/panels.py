"""Panels: the live x-ray, stepper, compaction card and request difference under a cell.

May not act by itself: a click is the text command it stands for, run as if it were typed.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_kernel.core.actions import Action
from agent_kernel.core.events import ToolCall
from agent_kernel.core.messages import Json, Usage
from agent_kernel.core.model import Request
from agent_kernel.core.session import Session
from agent_kernel.core.usage import cost, estimate
from agent_kernel.kernel.display import WIDGET_MIME, Publisher
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import panels, stepper
from agent_kernel.widgets.bundle import of_blocks
from agent_kernel.widgets.doc import Block

Line = Callable[[Json], str | None]
Again = Callable[[], Awaitable[Json | None]]
_WORD = re.compile(r"[\w.-]{1,64}")


def show(
    bench: Workbench,
    publisher: Publisher,
    name: str,
    state: Mapping[str, Any],
    blocks: Sequence[Block],
    line_of: Line = lambda _message: None,
    again: Again | None = None,
) -> None:
    """Publish a panel with its static twin; a front end without widgets gets the twin alone.

    `line_of` makes a click the command it stands for, None = nothing; `again` gives the state to
    show after it, None = the panel is over.
    """
    data: Json = of_blocks(blocks)
    if publisher.answers:
        click = _Click(bench, state, line_of, again)
        click.widget = panels.panel(name, state, click.heard)
        view = {"version_major": 2, "version_minor": 0, "model_id": click.widget.model_id}
        data[WIDGET_MIME] = view
    publisher.show_once(data)


class _Click:
    """What a panel's clicks do, in the context of the cell it stands under."""

    def __init__(
        self, bench: Workbench, state: Mapping[str, Any], line_of: Line, again: Again | None
    ) -> None:
        self.widget: Any = None
        self._bench, self._state, self._line_of, self._again = bench, dict(state), line_of, again
        self._cell = contextvars.copy_context()
        self._task: asyncio.Task[None] | None = None

    def heard(self, message: Json) -> None:
        """Take one message of the widget, on the main thread; one at a time, of this stop alone."""
        if message["type"] == "ping" or message.get("key") != self._state.get("key"):
            return
        if self._task is not None and not self._task.done():
            return
        line = self._line_of(message)
        if line is not None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(line), context=self._cell)

    async def _run(self, line: str) -> None:
        try:
            await self._bench.shell.agent_line(line)
        except Exception as error:  # noqa: BLE001 - a click has no cell that could fail with it
            print(self._bench.secrecy.text(f"%agent {line}: {error}"), file=sys.stderr)
        state = await self._again() if self._again is not None else None
        self._state = {**self._state, "done": True, "live": False} if state is None else state
        self.widget.show(self._state)


# ---- the stepper ------------------------------------------------------------------------------


def step_line(message: Json) -> str | None:
    """Return the command of a stepper's button; None for what it never sends."""
    kind, call, text = str(message["type"]), str(message.get("call") or ""), message.get("text")
    if kind in ("step", "continue", "stop"):
        return kind
    if not _WORD.fullmatch(call):
        return None
    if kind == "skip":
        return f"skip {call}"
    if kind in ("edit", "answer") and isinstance(text, str):
        return f"{kind} {call} {shlex.quote(text)}"
    return None


def stop(
    bench: Workbench,
    publisher: Publisher,
    action: Action,
    *,
    stopped_by: str = "",
    request: Request | None = None,
) -> None:
    """Show where the open turn stands: the next action, its exact call or request, the buttons."""
    session = bench.session
    calls: dict[str, ToolCall] = {s.call.id: s.call for s in session.state().open_calls}
    facts: Json = {"next_request": request, "stopped_by": stopped_by}
    if request is not None:
        facts |= _facts(session, request)
    state = stepper.state(action, calls, key=f"{session.id}:{session.log.next_seq}", **facts)
    show(bench, publisher, "stepper", state, stepper.view(action, calls, **facts), step_line)


def _facts(session: Session, request: Request) -> Json:
    """Return what of the next request is expected: cached tokens, the least and the most dollars.

    The least is all of the former request cached and one token of answer, the most nothing cached
    and the whole output limit.
    """
    size, now = estimate(len(request.body)), session.state()
    last = now.context.tokens_estimated if now.context is not None else 0
    warm = min(last or 0, size)
    least = cost(request.model, Usage(size - warm, 1, warm, 0, 0))
    most = cost(request.model, Usage(size, request.max_tokens, 0, 0, 0))
    price = (least, most) if least is not None and most is not None else None
    return {"cached": warm, "price": price}


# ---- the compaction ---------------------------------------------------------------------------


def compaction_line(message: Json) -> str | None:
    """Return the command of a compaction card's button."""
    name, text = str(message.get("id") or ""), message.get("text")
    if not _WORD.fullmatch(name):
        return None
    if message["type"] == "undo":
        return f"undo compaction {name}"
    if message["type"] == "recall" and isinstance(text, str) and text.strip():
        return f"recall {name} {shlex.quote(f'contains={text}')}"
    return None
