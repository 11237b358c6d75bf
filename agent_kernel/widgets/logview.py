"""Logview: the events of a log as a table, the last ones unless told.

May not filter by meaning: the roof chooses the events.
"""

from __future__ import annotations

from collections.abc import Sequence

import agent_kernel.widgets.said as said
import agent_kernel.widgets.units as units
from agent_kernel.core.events import Event
from agent_kernel.widgets.doc import Block, Commands, Head, Table, code, number, text

SHOWN = 60


def view(events: Sequence[Event], *, path: str = "", limit: int = SHOWN) -> list[Block]:
    """Return the last `limit` events as a table; seconds count from the first one shown."""
    shown = events[-limit:]
    left = len(events) - len(shown)
    note = units.count(len(events), "event") + (f", the last {len(shown)} shown" if left else "")
    head = Head(text(f"Log {path}".strip()), note)
    if not shown:
        return [head, Commands(("%agent log",))]
    began = shown[0].time
    rows = [
        (
            number(event.seq),
            text(said.place(event)),
            text(event.agent),
            code(event.type),
            text(f"{max(0.0, event.time - began):.1f} s"),
            code(said.words(event)),
        )
        for event in shown
    ]
    columns = ("seq", "turn", "agent", "type", "after", "says")
    commands = ("%agent where SEQ", "%agent request T.S", "%agent frames events")
    return [head, Table(columns, rows), Commands(commands)]
