"""Event: what every durable fact carries, and how it is written as a line.

May not read a file or keep state; the facts themselves are in loop_events and side_events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from agent_kernel.core.messages import Block, Json, Message, Role, Usage, blocks_of

if TYPE_CHECKING:
    Content = tuple[Block, ...]
    Tokens = Usage
else:
    Content = Annotated[
        tuple[Any, ...],
        BeforeValidator(blocks_of),
        PlainSerializer(lambda blocks: [b.wire() for b in blocks]),
    ]
    Tokens = Annotated[
        Any,
        BeforeValidator(lambda v: v if isinstance(v, Usage) else Usage.of(v)),
        PlainSerializer(lambda usage: usage.wire()),
    ]


class Replace(BaseModel):
    """A span of the surface, by the seqs of its first and last event, whose place an event
    takes."""

    model_config = ConfigDict(frozen=True)
    first: int
    last: int


class Event(BaseModel):
    """What every event carries; seq, time, turn and step are stamped by `Session.append`."""

    model_config = ConfigDict(frozen=True, extra="allow", arbitrary_types_allowed=True)
    type: str
    seq: int = -1
    time: float = 0.0
    turn: int | None = None
    step: int | None = None
    agent: str = "main"
    sources: tuple[int, ...] = ()
    cell: str | None = None
    ignorable: bool = False
    gates: ClassVar[bool] = False  # fdatasync before what comes after it may act (guard.md §11)

    def wire(self) -> Json:
        """Return the event as its log line writes it, without `h`."""
        out = self.model_dump()
        replaces = out.pop("replaces", None)
        if not self.ignorable:
            out.pop("ignorable")
        if self.cell is None:
            out.pop("cell")
        if isinstance(self, SurfaceEvent):
            surface: Any = "append"
            if replaces is not None:
                surface = {"op": "replace", "start": replaces["first"], "end": replaces["last"]}
            out = {**_envelope(out), "surface": surface, **_rest(out)}
        return out


_ENVELOPE = ("type", "seq", "time", "turn", "step", "agent", "sources", "cell")


def _envelope(out: Json) -> Json:
    return {key: out[key] for key in _ENVELOPE if key in out}


def _rest(out: Json) -> Json:
    return {key: value for key, value in out.items() if key not in _ENVELOPE}


class SurfaceEvent(Event):
    """An event the model sees: it joins the surface at its end, or takes the place of a span."""

    replaces: Replace | None = None
    speaker: ClassVar[Role] = "user"

    @property
    def role(self) -> Role:
        """Whose words the model takes them for."""
        return self.speaker

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks this event puts into its message."""
        raise TypeError(f"{type(self).__name__} says no blocks; define blocks()")

    def message(self) -> Message:
        """Return this event alone as a message."""
        return Message(self.role, self.blocks())

    @property
    def compaction_id(self) -> str | None:
        """The compaction this event waits for, or None when it takes effect at once."""
        meta = getattr(self, "meta", None) or {}
        found = meta.get("compaction_id")
        return found if isinstance(found, str) else None


class UnknownEvent(Event):
    """A type this reader does not know, kept field by field."""

    surface: Any = None
