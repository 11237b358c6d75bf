"""Pins: a person keeps an event out of every compaction, or drops one from what the model sees.

May not part a call from its result, and may not lose anything: a drop can be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionUndo,
    PinSet,
    Replace,
    SurfaceEvent,
    ToolResultEvent,
)
from agent_kernel.core.messages import ToolUse, blocks_of
from agent_kernel.core.session import Session

LABEL = "dropped"


class PinError(ValueError):
    """What cannot be pinned or dropped: names the seq and what to do; nothing was changed."""


def pin(session: Session, seq: int, on: bool = True, agent: str = "main") -> PinSet:
    """Keep the surface event `seq` out of every compaction, or no longer; return the logged fact.

    Raises PinError when it is not on the surface; what is pinned may be let go from anywhere.
    """
    if on or seq not in session.pins:
        _node(session, seq, agent)
    stored = session.append(PinSet(target=seq, on=on), agent=agent)[0]
    assert isinstance(stored, PinSet)
    return stored


def drop(session: Session, seq: int, agent: str = "main") -> SurfaceEvent:
    """Put one line in the place of the surface event `seq` and return the event that holds it.

    A result keeps its call and loses its text; an answer with calls goes together with their
    results. Raises PinError for what is pinned, still open, or attached again by itself.
    """
    node = _node(session, seq, agent)
    if isinstance(node, Attachment) and node.meta.get("section"):
        name = node.meta["section"]
        raise PinError(f"seq {seq} is the context {name!r}: it would be attached again at once")
    surface = session.surface(agent)
    span = [node] if isinstance(node, ToolResultEvent) else _whole(surface.nodes, node)
    if surface.open_calls and span[-1].seq == surface.nodes[-1].seq:
        raise PinError(f"seq {seq} has calls without a result; wait until they are answered")
    kept = [each.seq for each in span if each.seq in session.pins]
    if kept:
        raise PinError(f"seq {kept[0]} is pinned; `%agent pin {kept[0]} --off` first")
    stored = session.append(_line(span, node), agent=agent)[0]
    assert isinstance(stored, SurfaceEvent)
    return stored


def undrop(session: Session, seq: int, agent: str = "main") -> list[int]:
    """Put back what the drop at surface event `seq` hid, byte for byte; return the seqs put back.

    Raises PinError when `seq` is no drop that stands on the surface.
    """
    surface = session.surface(agent)
    node = _node(session, seq, agent)
    hidden = surface.hidden_by(seq)
    if not hidden or LABEL not in getattr(node, "meta", {}):
        raise PinError(f"seq {seq} is no drop; drops are labelled {LABEL!r} in %agent surface")
    undo = CompactionUndo(
        compaction_id=f"drop:{seq}",
        restores=({"node": seq, "hidden": hidden},),
        generation=surface.generation + 1,
    )
    session.append(undo, agent=agent)
    return hidden


def _node(session: Session, seq: int, agent: str) -> SurfaceEvent:
    found = next((node for node in session.surface(agent).nodes if node.seq == seq), None)
    if found is None:
        raise PinError(f"seq {seq} is not on the surface; %agent surface lists what is")
    return found


def _whole(nodes: Sequence[SurfaceEvent], node: SurfaceEvent) -> list[SurfaceEvent]:
    """Return a node with the results of its calls, and what stands between them."""
    at = next(n for n, each in enumerate(nodes) if each.seq == node.seq)
    calls = {b.id for b in node.blocks() if isinstance(b, ToolUse)}
    end = at
    for n in range(at + 1, len(nodes)):
        each = nodes[n]
        if isinstance(each, AssistantMessage) or not calls:
            break
        if isinstance(each, ToolResultEvent) and each.id in calls:
            end = n
    return list(nodes[at : end + 1])


def _line(span: Sequence[SurfaceEvent], node: SurfaceEvent) -> SurfaceEvent:
    seqs = [each.seq for each in span]
    named = f"seq {seqs[0]}" if len(seqs) == 1 else f"seq {seqs[0]} to {seqs[-1]}"
    content = blocks_of(f"[{named} was dropped by the person]")
    replaces, sources = Replace(first=seqs[0], last=seqs[-1]), tuple(seqs)
    meta = {LABEL: seqs}
    if isinstance(node, ToolResultEvent):
        change = {"content": content, "meta": {**node.meta, **meta}, "seq": -1, "time": 0.0}
        return node.model_copy(update={**change, "replaces": replaces, "sources": sources})
    return Attachment(
        kind="reminder", label=LABEL, content=content, meta=meta, replaces=replaces, sources=sources
    )
