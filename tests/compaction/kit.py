"""Kit: sessions written event by event, small layers, and a model that is scripted.

May not fake the log, the surface, the transaction or a layer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_kernel.compaction import Auto, Budget, Collapse, Micro, Snip
from agent_kernel.compaction.summary import HEADINGS
from agent_kernel.core.agent import NO_LIMITS, Agent
from agent_kernel.core.compaction import View, WaterMarks, apply_edits
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    Event,
    StepEnd,
    StepStart,
    SurfaceEvent,
    ToolCall,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Block, Text, Thinking, ToolUse, Usage, blocks_of
from agent_kernel.core.model import ModelProfile, Request
from agent_kernel.core.session import Session
from agent_kernel.core.tool import tool
from agent_kernel.core.transaction import Run
from agent_kernel.providers.scripted import scripted

LAYERS = (
    Budget(over=600, head=200, tail=80),
    Snip(keep_units=2),
    Micro(keep=2, cold_floor=300),
    Collapse(min_unit=150, keep_units=2),
    Auto(),
)
BY_NAME = {layer.name: layer for layer in LAYERS}
SUMMARY = "\n".join(f"## {name}\nNone" for name in HEADINGS)

Call = tuple[str, dict[str, Any]]


def profile(thinking: str = "none", window: int = 200_000) -> ModelProfile:
    return ModelProfile("m", window=window, max_output=256, thinking=thinking)  # type: ignore[arg-type]


@dataclass
class Talk:
    """A session as it is spoken; `clock` is the time of the next event in seconds."""

    session: Session = field(default_factory=Session)
    clock: float = field(default_factory=time.time)
    ids: int = 0

    def add(self, *events: Event) -> tuple[Event, ...]:
        self.clock += 0.000_1
        return self.session.append(*(e.model_copy(update={"time": self.clock}) for e in events))

    def tick(self, seconds: float) -> None:
        self.clock += seconds

    def user(self, text: str) -> int:
        if self.session.state().turn_open:
            self.end()
        return self.add(TurnStart(text=text), UserMessage(content=text))[-1].seq

    def attach(self, text: str, kind: str = "context", label: str = "note", **meta: Any) -> int:
        made = Attachment(kind=kind, label=label, content=text, meta=meta)  # type: ignore[arg-type]
        return self.add(made)[-1].seq

    def ask(self, *calls: Call, text: str = "", thought: str = "") -> list[str]:
        """The model speaks and calls; return the ids of the calls."""
        ids = [f"toolu_{self.ids + at}" for at in range(len(calls))]
        self.ids += len(calls)
        uses = [ToolUse(i, name, value) for i, (name, value) in zip(ids, calls, strict=True)]
        said: list[Block] = [Thinking(thought, "sig")] if thought else []
        said += [Text(text)] if text else []
        message = AssistantMessage(content=(*said, *uses), model="m", usage=Usage())
        logged = [ToolCall(id=u.id, name=u.name, input=u.input, input_hash="0" * 32) for u in uses]
        self.add(StepStart(), message, *logged)
        return ids

    def result(self, ident: str, text: str, *, error: bool = False, **meta: Any) -> int:
        made = ToolResultEvent(id=ident, content=blocks_of(text), is_error=error, meta=meta)
        return self.add(made)[-1].seq

    def step(self, name: str, value: dict[str, Any], text: str, **more: Any) -> int:
        """One call and its result; return the result's seq."""
        thought, error = more.pop("thought", ""), more.pop("error", False)
        (ident,) = self.ask((name, value), text=more.pop("said", "so"), thought=thought)
        seq = self.result(ident, text, error=error, **more)
        self.add(StepEnd())
        return seq

    def answer(self, text: str, thought: str = "") -> int:
        said: list[Block] = [Thinking(thought, "sig")] if thought else []
        message = AssistantMessage(content=(*said, Text(text)), model="m", usage=Usage())
        return self.add(StepStart(), message, StepEnd())[1].seq

    def end(self) -> None:
        self.session.answer_open_calls("over")
        self.add(TurnEnd(reason="completed"))


def now(work: Coroutine[Any, Any, Any] | Awaitable[Any]) -> Any:
    """What a coroutine returns that waits for nothing, or for work in other threads."""
    import asyncio

    async def whole() -> Any:
        return await work

    return asyncio.run(whole())


def quick(work: Coroutine[Any, Any, Any]) -> Any:
    """As `now`, without a loop: for coroutines that only give way."""
    while True:
        try:
            waited = work.send(None)
        except StopIteration as done:
            return done.value
        assert waited is None, "it waited for something"


@tool(concurrent=True, read_only=True)
async def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}\n" * 20


@tool(concurrent=True, read_only=True)
async def web_fetch(url: str) -> str:
    """Fetch a page."""
    return url


def copied(session: Session, path: Path, **more: Any) -> Session:
    """The same events in a file of their own."""
    made = Session.open(path, **more)
    made.log.append_all([e.model_copy(update={"seq": -1}) for e in session.events])
    return made


def model(*answers: Any, summary: Any = SUMMARY) -> Any:
    """A scripted model that writes `summary` when it is asked for one, else the next answer."""
    left = iter(answers)

    def said(request: Request) -> Any:
        last = request.messages[-1].content[-1]
        asked = isinstance(last, Text) and "about to be shortened" in last.text
        return summary if asked else next(left)

    return said


def agent(
    answers: Any = None,
    *,
    window: int = 200_000,
    thinking: str = "none",
    layers: Sequence[Any] = LAYERS,
    **more: Any,
) -> Agent:
    """An agent whose model says `answers`."""
    return Agent(
        provider=scripted(model() if answers is None else answers),
        model="m",
        strategies=layers,
        profile=profile(thinking, window),
        workspace=Path(),
        system=(),
        tools=(read, web_fetch),
        limits=NO_LIMITS,
        **more,
    )


def view_of(
    session: Session, trigger: str = "manual", *, window: int = 200_000, **more: Any
) -> View:
    run = Run(session, "main", profile(more.pop("thinking", "none"), window), (), trigger)  # type: ignore[arg-type]
    made = run.view()
    return View(**{**vars(made), "cold": False, **more})


def planned(layer: Any, view: View) -> View:
    """The view after one layer; the view itself when it plans nothing."""
    from agent_kernel.core.compaction import Desk

    edits = quick(layer.plan(view, Desk()))
    return apply_edits(view, edits) if edits else view


def marks(window: int = 200_000, **given: float) -> WaterMarks:
    return WaterMarks.of(profile(window=window), **given)


def ends(session: Session) -> list[CompactionEnd]:
    return [e for e in session.events if isinstance(e, CompactionEnd)]


def starts(session: Session) -> list[CompactionStart]:
    return [e for e in session.events if isinstance(e, CompactionStart)]


def summaries(session: Session) -> list[CompactionSummary]:
    return [e for e in session.events if isinstance(e, CompactionSummary)]


def bytes_of(session: Session) -> list[bytes]:
    return [m.bytes for m in session.surface().messages()]


def lines(session: Session) -> list[str]:
    return [json.dumps(e.wire()) for e in session.events]


def texts(nodes: Iterable[SurfaceEvent]) -> str:
    from agent_kernel.core.messages import text_of

    return "\n".join(text_of(node.blocks()) for node in nodes)


def long_talk(turns: int = 3, steps: int = 6, size: int = 900) -> Talk:
    """A person, steps that read, edit and run, an answer; `size` characters a result."""
    talk = Talk()
    for turn in range(turns):
        talk.user(
            f"task {turn}: please fix src/mod{turn}.py and never touch config{turn}.yaml at all"
        )
        for step in range(steps):
            path = f"src/pkg{turn}/file_{step}.py"
            body = f"def compute_value_{turn}_{step}(): pass\n" * (size // 34)
            talk.step("read", {"path": path}, body, path=path)
        talk.answer(f"done {turn}: " + "it was this and that. " * 90)
    return talk
