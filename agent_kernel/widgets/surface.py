"""Surface: the events the model sees now, in order, with what each hides.

May not fold a log: the surface is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import agent_kernel.widgets.said as said
import agent_kernel.widgets.units as units
from agent_kernel.core.events import SurfaceEvent
from agent_kernel.core.usage import event_tokens
from agent_kernel.widgets.doc import Block, Commands, Head, Table, code, number, text
from agent_kernel.widgets.turnview import Line

SHOWN = 200


def view(
    nodes: Sequence[SurfaceEvent],
    *,
    generation: int = 0,
    hidden_by: Callable[[int], Sequence[int]] | None = None,
    pinned: frozenset[int] = frozenset(),
    at: int | None = None,
) -> list[Block]:
    """Return the table of the surface; `hidden_by` gives the seqs an event took the place of.

    More than 200 events show the first and the last hundred. `at` is the seq it is the surface of.
    """
    total = units.count(sum(event_tokens(node) for node in nodes), "token")
    when = f" at seq {at}" if at is not None else ""
    note = f"{units.count(len(nodes), 'event')}, ~{total}, generation {generation}"
    head = Head(text(f"What the model sees{when}"), note)
    if not nodes:
        return [head, Commands(("%agent log",))]
    shown = list(nodes)
    gap: list[tuple[Line, ...]] = []
    if len(shown) > SHOWN:
        left = len(shown) - SHOWN
        gap = [(text("…"), *([text("")] * 4), text(f"{left} more events"), text(""))]
        shown = [*shown[: SHOWN // 2], *shown[-SHOWN // 2 :]]
    rows = [_row(node, hidden_by, pinned) for node in shown]
    rows = [*rows[: SHOWN // 2], *gap, *rows[SHOWN // 2 :]]
    columns = ("seq", "turn", "source", "agent", "tokens", "says", "hides")
    return [head, Table(columns, rows), Commands(("%agent where SEQ", "%agent context"))]


def _row(
    node: SurfaceEvent, hidden_by: Callable[[int], Sequence[int]] | None, pinned: frozenset[int]
) -> tuple[Line, ...]:
    gone = list(hidden_by(node.seq)) if hidden_by is not None else []
    if not gone and node.replaces is not None:
        gone = [node.replaces.first, node.replaces.last]
    hides = f"{min(gone)}-{max(gone)}" if gone else ""
    words = " ".join(part for part in (hides, "pinned" if node.seq in pinned else "") if part)
    return (
        number(node.seq),
        text(said.place(node)),
        text(said.kind(node)),
        text(node.agent),
        number(event_tokens(node)),
        code(said.words(node)),
        text(words),
    )
