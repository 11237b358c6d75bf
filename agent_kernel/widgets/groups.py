"""Groups: neighbouring finished calls as one row that unfolds.

May not hide a call that failed, waits or runs: those stand alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import agent_kernel.widgets.units as units
from agent_kernel.widgets.turnview import Item

LEAST = 4
"""Calls in a row before they become a group."""


def grouped(rows: Sequence[Item], running: bool) -> list[Item]:
    """Return rows with each run of LEAST or more finished calls as one group.

    Thinking between them joins the group. While a turn runs its last three rows stay out, so that
    nothing folds under a reader's eye before a step is over.
    """
    out: list[Item] = []
    run: list[Item] = []
    keep = len(rows) - 3 if running else len(rows)
    for at, row in enumerate(rows):
        quiet = row["kind"] == "thinking" and bool(run)
        if at < keep and (quiet or (row["kind"] == "call" and row.get("word") == "done")):
            run.append(row)
            continue
        out += _closed(run)
        run = []
        out.append(row)
    return out + _closed(run)


def _closed(run: list[Item]) -> list[Item]:
    tail: list[Item] = []
    while run and run[-1]["kind"] == "thinking":
        tail.insert(0, run.pop())
    calls = [row for row in run if row["kind"] == "call"]
    if len(calls) < LEAST:
        return [*run, *tail]
    known = [row["seconds"] for row in calls if row.get("seconds") is not None]
    group: Item = {
        "kind": "group",
        "key": f"g{calls[0]['key']}",
        "glyph": "ok",
        "word": "done",
        "name": f"{len(calls)} calls: {_names(calls)}",
        "seconds": sum(s for s in known if s is not None) if known else None,
        "ticking": False,
        "size": _tokens(calls),
        "open": False,
        "items": list(run),
    }
    return [group, *tail]


def _names(calls: list[Item]) -> str:
    counts: dict[str, int] = {}
    for row in calls:
        counts[row["name"]] = counts.get(row["name"], 0) + 1
    parts = [name if n == 1 else f"{n} {name}" for name, n in counts.items()]
    return ", ".join(parts[:6]) + (f", {len(parts) - 6} more kinds" if len(parts) > 6 else "")


def _tokens(calls: list[Item]) -> str:
    total, guessed = 0, False
    for row in calls:
        said = row["size"].removesuffix("s").removesuffix(" token")
        guessed = guessed or said.startswith("~")
        total += int(said.lstrip("~").replace(",", ""))
    return ("~" if guessed else "") + units.count(total, "token")
