"""Provenance: where one event of a log came from and what became of it, as blocks.

May not guess: what the log does not say is not shown.
"""

from __future__ import annotations

from agent_kernel.core.events import Event, FileChanged, FileObserved, SurfaceEvent, ToolCall
from agent_kernel.core.session import Session
from agent_kernel.widgets import said
from agent_kernel.widgets.doc import Block, Head, Pairs, code, text

_META = ("path", "url", "sha256", "taint", "truncated", "original_bytes", "blob", "by", "exit_code")


def provenance(session: Session, seq: int) -> list[Block]:
    """Return what is known of the event `seq`. Raises KeyError naming the log's range."""
    event = session.log.get(seq)
    rows = [("event", code(event.type)), ("says", text(said.words(event)))]
    rows.append(("place", text(f"turn.step {said.place(event)}, agent {event.agent}")))
    for source in event.sources:
        other = session.log.get(source)
        rows.append(("source", text(f"seq {source} {other.type}: {said.words(other)}")))
    call = _call(session, event)
    if call is not None:
        rows.append(("call", text(f"seq {call.seq} {said.words(call)}")))
    meta = getattr(event, "meta", None) or {}
    rows += [(name, text(meta[name])) for name in _META if meta.get(name) not in (None, "", False)]
    if call is not None:
        rows += [("file", text(line)) for line in _files(session, call)]
    rows.append(("now", text(_fate(session, event))))
    return [Head(text(f"Where seq {seq} came from")), Pairs(tuple(rows))]


def _call(session: Session, event: Event) -> ToolCall | None:
    wanted = getattr(event, "id", None) if event.type.startswith("tool/") else None
    if wanted is None:
        return None
    for other in session.events:
        if isinstance(other, ToolCall) and other.id == wanted and other.agent == event.agent:
            return other
    return None


def _files(session: Session, call: ToolCall) -> list[str]:
    out = [
        f"{e.path} {e.before or 'new'} → {e.after or 'removed'}"
        for e in session.events
        if isinstance(e, FileChanged) and e.tool_call == call.id
    ]
    path = call.input.get("path")
    for event in session.events:
        if isinstance(event, FileObserved) and event.seq > call.seq and event.path == path:
            return [*out, f"{event.path} sha256 {event.sha256}"]
    return out


def _fate(session: Session, event: Event) -> str:
    if not isinstance(event, SurfaceEvent):
        return "never sent: it is no part of the surface"
    surface = session.surface(event.agent)
    if event.seq in surface.seqs:
        return "on the surface: every next request holds it"
    for node in surface.nodes:
        if event.seq in node.sources:
            return f"hidden by seq {node.seq}, which stands for it"
    return "not on the surface any more"
