"""Region: which part of the surface a summary may replace, and what of it must not be lost.

May not cut where the Messages API forbids it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.compaction.markers import clipped
from agent_kernel.compaction.nodes import all_originals, is_stub, origin
from agent_kernel.core.compaction import View
from agent_kernel.core.events import Attachment, SurfaceEvent, UserMessage
from agent_kernel.core.messages import Block, ToolUse, text_of
from agent_kernel.core.usage import CHARS_PER_TOKEN, event_tokens

CARRIED_TOKENS = 2_000  # of one carried message
STABLE_TOKENS, STABLE_TOTAL = 5_000, 25_000  # of one skill or memory, and of all
STABLE = ("memory", "skill")


@dataclass(frozen=True)
class Region:
    """Positions [start, end) of a view, and the nodes there."""

    start: int
    end: int
    nodes: tuple[SurfaceEvent, ...]

    @property
    def tokens(self) -> int:
        """Return the estimated tokens of the region."""
        return sum(map(event_tokens, self.nodes))


def of_seqs(view: View, hidden: Sequence[int]) -> Region | None:
    """Return the region of exactly these seqs, None when they no longer stand side by side."""
    seqs = [one.seq for n in view.nodes for one in view.former.get(n.seq, (n,))]
    if not hidden or hidden[0] not in seqs:
        return None
    at = seqs.index(hidden[0])
    if tuple(seqs[at : at + len(hidden)]) != tuple(hidden):
        return None
    return _chosen(view, (hidden[0], hidden[-1]))


def choose(view: View) -> Region | None:
    """Return the region between head and tail, None when nothing legal would make progress.

    Tail: the largest legal suffix within the tail mark, else the smallest larger one that lets a
    tenth be freed, else the same inside a thinking loop where the model allows it.
    """
    if view.span is not None:
        return _chosen(view, view.span)
    start = head_end(view)
    for strict in (True, False) if not view.strict else (True,):
        end = _tail_start(view, start, strict=strict)
        if end is not None:
            return Region(start, end, view.nodes[start:end])
    return None


def _chosen(view: View, span: tuple[int, int]) -> Region | None:
    """Return the region of the seqs a person chose, in the view former layers left."""
    at = {one.seq: i for i, n in enumerate(view.nodes) for one in view.former.get(n.seq, (n,))}
    if span[0] not in at or span[1] not in at:
        return None
    start, end = at[span[0]], at[span[1]] + 1
    return Region(start, end, view.nodes[start:end]) if start < end else None


def head_end(view: View) -> int:
    """Return the position after the head: the first message and the stable text around it.

    A first message too long to stay is not in the head: it is carried, clipped.
    """
    legal = view.cuts(view.strict)
    end = 0
    for at, node in enumerate(view.nodes):
        if is_stub(node):
            break
        user = isinstance(node, UserMessage) and not any(
            isinstance(n, UserMessage) for n in view.nodes[:at]
        )
        if not (isinstance(node, Attachment) or (user and event_tokens(node) <= CARRIED_TOKENS)):
            break
        if at + 1 in legal:
            end = at + 1
    return end


def _tail_start(view: View, start: int, *, strict: bool) -> int | None:
    legal = sorted(p for p in view.cuts(strict) if start <= p < len(view.nodes))
    sizes, total = {}, 0
    for at in range(len(view.nodes) - 1, -1, -1):
        total += event_tokens(view.nodes[at])
        sizes[at] = total
    tail = view.marks.tail
    if view.trigger in ("manual", "overflow"):  # asked for, or our count is wrong: hide something
        tail = min(tail, total // 4)
    fitting = [p for p in legal if sizes[p] <= tail]
    if fitting:
        return fitting[0] if fitting[0] > start else None
    hidden = sizes.get(start, 0)
    useful = [p for p in legal if hidden - sizes[p] >= view.tokens // 10]
    return useful[-1] if useful else None


def carried(view: View, region: Region) -> list[str]:
    """Return the texts of the region that are never lost (C11), stable ones first.

    Hidden memory and skills; the session's first message; the present turn's; pinned items. Texts
    of context sections are not among them: they are attached again from their state.
    """
    events = all_originals(view, region.nodes)
    texts = _stable(events)
    people = [n.seq for n in view.log if isinstance(n, UserMessage) and n.agent == view.agent]
    wanted = {people[0], people[-1]} if people else set()
    for event in events:
        if event.seq in wanted or event.seq in view.pinned or origin(event) in view.pinned:
            name = "first" if people and event.seq == people[0] else "kept"
            texts.append(f"[{name}, seq {event.seq}]\n{_short(event, CARRIED_TOKENS)}")
    return texts


def _stable(events: Sequence[SurfaceEvent]) -> list[str]:
    """Return hidden memory and skills by label, the last of each; the oldest go when too many."""
    last: dict[tuple[str, str], SurfaceEvent] = {}
    for event in events:
        if isinstance(event, Attachment) and event.kind in STABLE and not event.meta.get("section"):
            last[event.kind, event.label] = event
    room, kept = int(STABLE_TOTAL * CHARS_PER_TOKEN), {}
    for key, event in sorted(last.items(), key=lambda item: -item[1].seq):
        text = f"[{key[0]} {key[1]}, seq {event.seq}]\n{_short(event, STABLE_TOKENS)}"
        if len(text) <= room:
            kept[key] = text
            room -= len(text)
    return [kept[key] for key in sorted(kept)]


def _short(event: SurfaceEvent, tokens: int) -> str:
    text = "\n".join(filter(None, (text_of(event.blocks()), *map(_called, event.blocks()))))
    limit = int(tokens * CHARS_PER_TOKEN)
    if len(text) <= limit:
        return text
    room = limit - 120  # the marker's own length
    return clipped(text, room * 3 // 4, room // 4, f"recall_history(seq={event.seq})")


def _called(block: Block) -> str:
    """Return what a call asks for: a plan that was approved is the input of one."""
    if not isinstance(block, ToolUse):
        return ""
    given = [f"{name}: {value}" for name, value in block.input.items()]
    return "\n".join([f"[{block.name}]", *given])
