"""Display: one turn under its cell: one display id, coalesced updates, a final static snapshot.

May not hold a fact: what it shows is folded anew from the log and from what only streams.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_kernel.core.events import Event, ToolResultEvent
from agent_kernel.core.messages import Json
from agent_kernel.core.model import Attempt, BlockDone, BlockStart, Delta, Done, StreamEvent
from agent_kernel.core.session import Session
from agent_kernel.core.usage import cost
from agent_kernel.guard.redact import Running
from agent_kernel.kernel.secrecy import Secrecy
from agent_kernel.kernel.turns import events_from, record
from agent_kernel.widgets.anywidgets import turn_widget
from agent_kernel.widgets.bundle import mime_bundle
from agent_kernel.widgets.fold import fold_turn
from agent_kernel.widgets.turnview import Ask, Asked, Live, Replayed, TurnView

EVERY = 0.09  # seconds between two updates at most: 11 a second
SELDOM = 1.0  # seconds between two whole bundles while nobody knows which of its mimes is seen
LOOK = 1.0  # seconds between two looks at what tasks write
TAIL_CHARS = 4_000
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
OnMessage = Callable[[Json], None]


class Publisher:
    """Where displays go: the front end of a kernel, or nowhere until the end in a terminal.

    It keeps the display publisher of its cell: while agent code runs, the shell's own is captured.
    """

    def __init__(self, shell: Any) -> None:
        kernel = getattr(shell, "kernel", None)
        self.rich = kernel is not None
        self.answers = bool(getattr(kernel, "_allow_stdin", False))  # else nbclient and its like
        self._publish = shell.display_pub.publish

    def show(self, data: Json, metadata: Json, display_id: str, *, update: bool) -> None:
        """Publish one bundle under `display_id`."""
        transient = {"display_id": display_id}
        self._publish(data=data, metadata=metadata, transient=transient, update=update)

    def show_once(self, data: Json, metadata: Json | None = None) -> None:
        """Publish one bundle of its own."""
        self._publish(data=data, metadata=metadata or {})


class TurnDisplay:
    """The live view of the turn whose first event has index `first` in the session's log.

    Its methods may be called from any thread, the coroutine `run` apart: a task of the runtime.
    """

    def __init__(
        self,
        publisher: Publisher,
        session: Session,
        first: int,
        *,
        window: int | None = None,
        on_message: OnMessage = lambda _message: None,
        sidecar: str | None = None,
        patience: float = 1.0,
        secrecy: Secrecy | None = None,
        asks: dict[str, Ask] | None = None,
        tails: Callable[[], dict[str, str]] = dict,
    ) -> None:
        self.id = f"agent-{secrets.token_hex(8)}"
        self.asks: dict[str, Ask] = {} if asks is None else asks
        self.own: list[Asked] = []  # the kernel's own questions
        self.moved = False  # to the background: the task panel asks and steers
        self._task_tails = tails
        self.before_look: Callable[[], None] = lambda: None
        self.rich_outputs: list[Json] = []
        self.alive = asyncio.Event()  # a front end answered
        self.stopped_by = ""
        self._publisher = publisher
        self._session = session
        self._first = first
        self._window = window
        self._sidecar = sidecar
        self._on_message = on_message
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dirty = asyncio.Event()
        self._widget: Any = None
        self._secrecy = secrecy or Secrecy({})
        self._texts: dict[str, str] = {"text": "", "thinking": "", "input": ""}
        self._running: dict[tuple[str, int | str], Running] = {}  # masks of what comes in pieces
        self._writing = ""
        self._tails: dict[str, str] = {}
        self._heard = time.time()
        self._patience = patience
        self._began = self._shown = 0.0

    # ---- what happens ----------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> None:
        """Take one event of the model's stream; on the runtime's loop."""
        self._heard = time.time()
        match event:
            case Attempt() | Done():
                self._texts = dict.fromkeys(self._texts, "")
                self._running = {key: one for key, one in self._running.items() if key[0] == "tail"}
                self._writing = ""
            case BlockStart(_index, kind, name, _id):
                self._writing = name if kind == "tool_use" else ""
            case Delta(block, kind, text):
                self._texts[kind] = self._texts.get(kind, "") + self._mask((kind, block), text)
            case BlockDone(block, _wire):
                for kind in self._texts:
                    if rest := self._running.pop((kind, block), None):
                        self._texts[kind] += rest.close()
        self._dirty.set()

    def on_progress(self, call_id: str, text: str) -> None:
        """Take a running call's output as it comes; on the runtime's loop."""
        self._heard = time.time()
        text = self._mask(("tail", call_id), text)
        self._tails[call_id] = (self._tails.get(call_id, "") + text)[-TAIL_CHARS:]
        self._dirty.set()

    def _mask(self, key: tuple[str, int | str], text: str) -> str:
        """Return the next piece of a text as it may be shown, its last word held back."""
        if key not in self._running:
            self._running[key] = self._secrecy.running()
        return self._running[key].feed(text)

    def on_event(self, event: Event) -> None:
        """Hear of one stored event; in the log's writer thread."""
        self._heard = time.time()
        if isinstance(event, ToolResultEvent):
            self._tails.pop(event.id, None)
            self._running.pop(("tail", event.id), None)
        self.touch()

    def touch(self) -> None:
        """Ask for an update, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._dirty.set)

    # ---- showing it ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the turn and update it until cancelled."""
        self._loop = asyncio.get_running_loop()
        self._began = self._shown = time.monotonic()
        self._open()
        while True:
            try:
                async with asyncio.timeout(LOOK if self.waiting or self.asks else None):
                    await self._dirty.wait()
            except TimeoutError:
                pass  # what tasks write, and what changes a file, is in no event
            self._dirty.clear()
            self.before_look()
            self._update()
            await asyncio.sleep(EVERY)

    def _open(self) -> None:
        view = self.view(live=True)
        data = mime_bundle(view)
        if self._publisher.answers:
            self._widget = turn_widget(view, self._hear)
            data[WIDGET_MIME] = self._widget_view()
        if self._publisher.rich:
            self._publisher.show(data, self._metadata(view), self.id, update=False)

    def _widget_view(self) -> Json:
        return {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}

    def _hear(self, message: Json) -> None:
        """Take a message of the widget; on the main thread."""
        if self._loop is None:
            return
        if message["type"] == "ping":
            self._loop.call_soon_threadsafe(self.alive.set)
        self._loop.call_soon_threadsafe(self._on_message, message)

    def _update(self) -> None:
        if not self._publisher.rich:
            return
        view = self.view(live=True)
        if self._widget is not None:
            self._widget.show(view)
        if self._widget is None:
            self._publisher.show(mime_bundle(view), self._metadata(view), self.id, update=True)
        elif self._unheard():
            data = {**mime_bundle(view), WIDGET_MIME: self._widget_view()}
            self._publisher.show(data, self._metadata(view), self.id, update=True)

    def _unheard(self) -> bool:
        """Tell whether no widget answered in time, so that the html twin may be what is seen.

        The widget stays in the bundle: a slow front end that shows it has not been given up.
        """
        now = time.monotonic()
        if self.alive.is_set() or now - self._began < self._patience or now - self._shown < SELDOM:
            return False
        self._shown = now
        return True

    def view(self, *, live: bool, replayed: Replayed | None = None) -> TurnView:
        """Return the turn as it stands; `live` False gives what a saved notebook shows."""
        now: Live | None = None
        if live:
            now = Live(
                now=time.time(),
                text=self._texts["text"],
                thinking=self._texts["thinking"],
                writing=self._writing,
                heard=self._heard,
                tails={**self._task_tails(), **self._tails},
                asks=dict(self.asks),
                waiting_tasks=self.waiting,
                stopped_by=self.stopped_by,
                questions=tuple(self.own),
            )
        events = events_from(self._session, self._first)
        view = fold_turn(events, now, price=price, window=self._window, replayed=replayed)
        return _moved(view) if self.moved and live else view

    @property
    def waiting(self) -> bool:
        """True while the turn only waits for its agents."""
        return waits_for_tasks(self._session, self._session.events[self._first].agent)

    def finish(self, *, replayed: Replayed | None = None, update: bool = True) -> TurnView:
        """Show the last, static state and, as outputs of their own, its figures; return it."""
        view = self.view(live=False, replayed=replayed)
        data = mime_bundle(view)
        if self._publisher.rich:
            metadata = self._metadata(view, replayed is not None)
            self._publisher.show(data, metadata, self.id, update=update)
        else:
            self._publisher.show_once({"text/plain": data["text/plain"]})
        for bundle in self.rich_outputs:
            self._publisher.show_once(bundle)
        if self._widget is not None:
            self._widget.close()
            self._widget = None
        return view

    def _metadata(self, _view: TurnView, replayed: bool = False) -> Json:
        made = record(self._session, self._first, replayed=replayed)
        return {"agent_kernel": {**made, "sidecar": self._sidecar}}


def waits_for_tasks(session: Session, agent: str = "main") -> bool:
    """Tell whether a turn has its answer and only background agents still run for it."""
    state = session.state(agent)
    answered = state.turn_open and state.answer is not None
    return answered and not state.calls and bool(session.running_tasks(agent, "agent"))


def _moved(view: TurnView) -> TurnView:
    """Return the view of a turn that runs in the background: the task panel asks and steers."""
    view["approvals"], view["questions"], view["queued"], view["steer"] = [], [], [], False
    view["tasks"] = []
    if view["head"] is not None:
        view["head"]["actions"] = [{"type": "stop", "label": "Stop", "send": {}}]
        view["head"]["note"] = "In the background; the task panel asks and steers."
    return view


def price(model: str, usage: Any) -> float | None:
    """Return a request's dollars, None when its price is unknown."""
    return cost(model, usage)


def kept_outputs(outputs: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Return what of Python's outputs stands under an answer: every figure, and the last table."""
    figures = [dict(o) for o in outputs if any(kind.startswith("image/") for kind in o)]
    tables = [dict(o) for o in outputs if "<table" in str(o.get("text/html", ""))]
    return [*figures, *tables[-1:]]
