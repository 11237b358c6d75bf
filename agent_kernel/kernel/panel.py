"""Panel: the task panel under a cell; it goes on changing until nothing runs, also after its cell.

May not hold a fact: rows are folded from the log, tails are read from the tasks' outputs.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    Event,
    InboxClaimed,
    InboxDropped,
    InboxQueued,
    TaskCreated,
    TaskFinished,
    TaskLost,
    TaskStatus,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolResultEvent,
    ToolStart,
    UserMessage,
)
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Task
from agent_kernel.kernel.display import WIDGET_MIME, Publisher
from agent_kernel.widgets import tasks as tasks_view
from agent_kernel.widgets.anywidgets import tasks_widget
from agent_kernel.widgets.bundle import of_blocks
from agent_kernel.widgets.turnview import Live, PanelView

if TYPE_CHECKING:
    from agent_kernel.kernel.workbench import Workbench

EVERY = 0.25  # seconds between two updates at most
LOOK = 1.0  # seconds between two looks at outputs that no event tells of
TAIL_BYTES = 4_000
OPEN_LINES = 40  # of a task whose output was asked for
_TASKS = (TaskCreated, TaskFinished, TaskLost, TaskStatus)
_CALLS = (ToolCall, ToolAsk, ToolDecision, ToolStart)
_WORDS = (InboxQueued, InboxClaimed, InboxDropped)


class Gathered:
    """The events of a session that a panel shows, read on from where the last look ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen = 0
        self._kept: list[Event] = []
        self._calls: dict[str, list[Event]] = {}

    def events(self) -> list[Event]:
        """Return them in log order; calls that have their result are left out."""
        events = self._session.events
        total = len(events)
        for index in range(self._seen, total):
            self._take(events[index])
        self._seen = total
        opened = [event for call in self._calls.values() for event in call]
        return sorted([*self._kept, *opened], key=lambda event: event.seq)

    def _take(self, event: Event) -> None:
        if isinstance(event, ToolResultEvent):
            self._calls.pop(event.id, None)
        elif isinstance(event, _CALLS):
            self._calls.setdefault(event.id, []).append(event)
        elif (
            isinstance(event, (*_TASKS, *_WORDS))
            or (isinstance(event, AssistantMessage) and event.agent != "main")
            or (isinstance(event, (UserMessage, Attachment)) and event.sources)
        ):
            self._kept.append(event)


def tail_of(task: Task, size: int = TAIL_BYTES) -> str:
    """Return the end of a task's output."""
    if task.output is not None:
        length = task.output.stat().st_size if task.output.exists() else 0
        data = task.read(max(0, length - size), size)[0]
    else:
        data = task.read(0, 1 << 20)[0][-size:]
    return data.decode("utf-8", "replace")


class TaskPanel:
    """One panel. Its methods are called on the runtime's loop, `hear` and `touch` from any thread.

    `context` is that of the cell it stands under, so that updates land there.
    """

    def __init__(self, bench: Workbench, publisher: Publisher, context: Context) -> None:
        self.id = f"agent-tasks-{secrets.token_hex(8)}"
        self._bench = bench
        self._session = bench.session
        self._publisher = publisher
        self._gathered = Gathered(self._session)
        self._dirty = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._widget: Any = None
        self._opened: set[str] = set()
        self._work = self._loop.create_task(self._run(), context=context)

    @property
    def live(self) -> bool:
        """True while it goes on changing."""
        return not self._work.done()

    async def close(self) -> None:
        """Show the last, static state and stop."""
        self._work.cancel()
        await asyncio.wait([self._work])

    def touch(self) -> None:
        """Ask for an update, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._dirty.set)

    def view(self, *, live: bool = True) -> PanelView:
        """Return the panel as it stands; `live` False gives what a saved notebook shows."""
        bench = self._bench
        now = None
        if live:
            bench.approver.look()
            now = Live(
                now=time.time(),
                tails=self._tails(),
                asks=dict(bench.approver.cards),
                questions=tuple(bench.approver.asker.own),
            )
        made = tasks_view.panel(self._gathered.events(), now, background=bench.moved)
        for row in made["tasks"]:
            if row["id"] in self._opened and live and (task := self._task(row["id"])):
                lines = bench.secrecy.text(tail_of(task, 4 * TAIL_BYTES)).rstrip().split("\n")
                row["tail"] = [tasks_view.shown(line) for line in lines[-OPEN_LINES:] if line]
        return made

    def _tails(self) -> dict[str, str]:
        return self._bench.tails()

    def _task(self, task_id: str) -> Task | None:
        return self._bench.tasks.all.get(task_id) if self._bench.tasks is not None else None

    async def _run(self) -> None:
        self._open()
        unhook = self._listen()
        try:
            while self._bench.busy() and self._bench.session is self._session:
                try:
                    async with asyncio.timeout(LOOK):
                        await self._dirty.wait()
                except TimeoutError:
                    pass
                self._dirty.clear()
                self._show(self.view(), update=True)
                await asyncio.sleep(EVERY)
        finally:
            unhook()
            self._finish()

    def _listen(self) -> Callable[[], None]:
        listeners = self._session.log.listeners

        def hear(_event: Event) -> None:
            self.touch()

        listeners.append(hear)
        return lambda: listeners.remove(hear)

    def _open(self) -> None:
        view = self.view()
        if self._publisher.answers:
            self._widget = tasks_widget(view, self._heard)
        self._show(view, update=False, whole=True)

    def _show(self, view: PanelView, *, update: bool, whole: bool = False) -> None:
        if not self._publisher.rich:
            return
        if self._widget is not None and not whole:
            self._widget.show(view)
            return
        data: Json = of_blocks(tasks_view.panel_document(view))
        if self._widget is not None:
            model = self._widget.model_id
            data[WIDGET_MIME] = {"version_major": 2, "version_minor": 0, "model_id": model}
        self._publisher.show(data, {}, self.id, update=update)

    def _finish(self) -> None:
        view = self.view(live=False)
        if self._widget is not None:
            self._widget.close()
            self._widget = None
        self._show(view, update=True)

    def _heard(self, message: Json) -> None:
        """Take a message of the widget; on the main thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, message)

    def _take(self, message: Json) -> None:
        if message["type"] == "output":
            self._opened ^= {str(message.get("task"))}
        else:
            self._bench.heard(message)
        self._dirty.set()
