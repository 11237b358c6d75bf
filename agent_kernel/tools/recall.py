"""Recall: which events of a log are asked for, and the text each of them is.

May not show what a compaction's marker stands for in other words: the text is the event's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_kernel.core.events import (
    TYPES,
    AssistantMessage,
    Attachment,
    Event,
    SurfaceEvent,
    ToolCall,
    ToolResultEvent,
)
from agent_kernel.core.messages import Block, Image, Raw, Text, ToolResult, ToolUse
from agent_kernel.core.session import Session

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_ENVELOPE = ("type", "seq", "time", "turn", "step", "agent", "sources", "cell", "ignorable")


@dataclass(frozen=True)
class Wanted:
    """What is asked for: every dimension that is not None must fit (H3)."""

    turn: int | None = None
    step: int | None = None
    seqs: tuple[int, int] | None = None
    tool_use_id: str | None = None
    path: str | None = None
    hidden: frozenset[int] | None = None
    kind: str | None = None
    kind_seqs: frozenset[int] | None = None
    contains: str | None = None


def span(text: str) -> tuple[int, int]:
    """Return first and last seq of `"412"` or `"388-389"`. Raises ValueError on anything else."""
    found = _RANGE.fullmatch(text.strip())
    if found is None or int(found[1]) > int(found[2] or found[1]):
        raise ValueError(f"seq {text!r} is neither a number nor a range like '388-389'")
    return int(found[1]), int(found[2] or found[1])


# ---------------------------------------------------------------- text of an event
def _block_text(block: Block) -> str:
    match block:
        case Text(text):
            return text
        case ToolUse(_, name, value):
            return f"{name} {json.dumps(value, ensure_ascii=False)}"
        case ToolResult(_, content, _):
            return "\n".join(map(_block_text, content))
        case Image(media_type, data):
            return f"[{media_type}, {len(data) * 3 // 4:,} bytes]"
        case Raw(data):
            return json.dumps(data, ensure_ascii=False)
    return block.thinking


def text_of_event(session: Session, event: Event) -> str:
    """Return an event's own text: the blob's where its result was cut, JSON without blocks."""
    is_result = isinstance(event, ToolResultEvent) and event.replaces is None
    meta = getattr(event, "meta", {}) if is_result else {}
    if meta.get("blob"):
        try:
            return session.blobs.get(meta["blob"]).decode("utf-8", "replace")
        except KeyError as error:
            return f"[{error.args[0]}]\n{_surface_text(event)}"
    if isinstance(event, SurfaceEvent):
        return _surface_text(event)
    said = {key: value for key, value in event.wire().items() if key not in _ENVELOPE}
    return json.dumps(said, ensure_ascii=False)


def _surface_text(event: Event) -> str:
    content: Sequence[Block] = getattr(event, "content", ())
    return "\n".join(map(_block_text, content))


# ---------------------------------------------------------------- the events of a log
class Book:
    """A session's events, with the call behind a result and the path it is about."""

    def __init__(self, session: Session, agent: str) -> None:
        self.session = session
        self.agent = agent
        self.calls = {e.id: e for e in session.events if isinstance(e, ToolCall)}

    def path(self, event: Event) -> str | None:
        """Return the file an event is about: of its result, or of the call it answers."""
        meta = getattr(event, "meta", None) or {}
        if isinstance(meta.get("path"), str):
            return str(meta["path"])
        if isinstance(event, Attachment) and event.kind in ("file", "memory", "skill"):
            return event.label
        call = self.calls.get(getattr(event, "id", ""))
        value = call.input.get("path") if call is not None else None
        return value if isinstance(value, str) else None

    def head(self, event: Event) -> str:
        """Return the line that names an event: seq, turn, step, type, tool and path."""
        parts = [f"seq {event.seq}"]
        if event.turn is not None:
            parts.append(
                f"turn {event.turn}" + (f" step {event.step}" if event.step is not None else "")
            )
        words = [event.type]
        call = self.calls.get(getattr(event, "id", ""))
        if call is not None:
            words.append(call.name)
        if path := self.path(event):
            words.append(path)
        if getattr(event, "meta", {}).get("recalled"):
            words.append("(a recalled copy)")
        return " · ".join((*parts, " ".join(words)))

    def candidates(self, wanted: Wanted) -> Iterator[Event]:
        """Yield the events that may be meant: what the agent saw, or any that is named."""
        exact = wanted.seqs is not None or wanted.hidden is not None
        for event in self.session.events:
            if not exact and event.agent != self.agent:
                continue
            if exact or wanted.kind is not None or isinstance(event, SurfaceEvent):
                yield event

    def fits(self, event: Event, wanted: Wanted) -> bool:
        """Tell whether every dimension fits."""
        simple = (
            (wanted.turn, event.turn),
            (wanted.step, event.step),
            (wanted.kind, event.type if wanted.kind_seqs is None else wanted.kind),
        )
        if any(want is not None and want != has for want, has in simple):
            return False
        if wanted.seqs is not None and not wanted.seqs[0] <= event.seq <= wanted.seqs[1]:
            return False
        for seqs in (wanted.hidden, wanted.kind_seqs):
            if seqs is not None and event.seq not in seqs:
                return False
        if wanted.tool_use_id is not None and not self._of_call(event, wanted.tool_use_id):
            return False
        if wanted.path is not None and self.path(event) != wanted.path:
            return False
        return wanted.contains is None or wanted.contains in text_of_event(self.session, event)

    @staticmethod
    def _of_call(event: Event, ident: str) -> bool:
        if isinstance(event, AssistantMessage):
            return any(isinstance(b, ToolUse) and b.id == ident for b in event.content)
        return isinstance(event, (ToolCall, ToolResultEvent)) and event.id == ident


def hidden_by(session: Session, compaction_id: str, transitive: bool) -> frozenset[int]:
    """Return the seqs a compaction hid; `transitive` opens what it hid of earlier ones (H4).

    Raises KeyError when no compaction has that id.
    """
    by_seq = {event.seq: event for event in session.events}
    ours = [e for e in session.events if getattr(e, "compaction_id", None) == compaction_id]
    if not ours:
        raise KeyError(compaction_id)
    found = {seq for event in ours for seq in _hidden(session, event, by_seq)}
    todo = list(found) if transitive else []
    while todo:
        inner = _hidden(session, by_seq[todo.pop()], by_seq) - found
        found |= inner
        todo += inner
    return frozenset(found)


def _hidden(session: Session, event: Event, by_seq: dict[int, Event]) -> set[int]:
    """The seqs whose place a surface event took; after an undo those it cites."""
    if not isinstance(event, SurfaceEvent) or event.replaces is None:
        return set()
    cited = {seq for seq in event.sources if isinstance(by_seq.get(seq), SurfaceEvent)}
    return set(session.surface(event.agent).hidden_by(event.seq)) or cited


def known_kinds() -> list[str]:
    """Return the event types a `kind` may name."""
    return sorted(TYPES)
