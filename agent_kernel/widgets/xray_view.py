"""X-ray view: the static twin of the x-ray, as tables and folds.

May not look anything up: the state of xray.py holds all that is shown.
"""

from __future__ import annotations

import agent_kernel.widgets.context as context
import agent_kernel.widgets.units as units
from agent_kernel.widgets.doc import Block, Commands, Fold, Head, Para, Pre, Table, number, text
from agent_kernel.widgets.xray import Row, Xray


def view(xray: Xray) -> list[Block]:
    """Return the x-ray as tables: the requests in order, then the last one by source and block."""
    rows = xray["rows"]
    if not rows:
        return [Head(text("No request yet")), Commands(("%%agent --dry-run",))]
    title = Head(text("Context, request by request"), _marks(xray))
    out: list[Block] = [title]
    if xray["left_out"]:
        out.append(Para(text(f"{xray['left_out']:,} earlier requests are left out.")))
    columns = ("request", "tokens", "cached", "new", "before it")
    cells = [
        (
            text(row["label"]),
            number(row["total"]),
            text(share(row)),
            text(row["dollars"]),
            text(_before(row)),
        )
        for row in rows
    ]
    out.append(Table(columns, cells))
    return [*out, *_one(xray, xray["selected"])]


def _marks(xray: Xray) -> str:
    names = (("soft", xray["soft"]), ("hard", xray["hard"]), ("window", xray["window"]))
    return ", ".join(f"{name} {units.short(at)}" for name, at in names if at)


def share(row: Row) -> str:
    """Return the cached share of a request: `91 %`, cold when nothing was, a dash when unknown."""
    if row["cached"] is None:
        return "–"
    return units.percent(row["cached"], row["total"]) if row["cached"] else "cold"


def _before(row: Row) -> str:
    broken = row["broken"]
    said_ = f"byte {broken['byte']:,} changed, in {broken['where']}" if broken else ""
    return "; ".join(filter(None, (row["mark"], said_)))


def _one(xray: Xray, at: int) -> list[Block]:
    """Return one request by source, with what changed since the one before."""
    row, blocks = xray["rows"][at], xray["blocks"]
    parts = [
        context.Part(
            blocks[line[0]][0],
            blocks[line[0]][1],
            line[1],
            seq=blocks[line[0]][2],
            age=line[3] if line[3] >= 0 else None,
            cached=line[2] == line[1],
            layer=blocks[line[0]][4] if len(line) > 4 else "",
            values=["Data values", "yes, of this kernel"] in blocks[line[0]][3],
        )
        for line in row["blocks"]
    ]
    marks = {name: xray[name] for name in ("window", "soft", "hard")}
    label = "the next request" if row["next"] else f"request {row['label']}"
    out = context.view(parts, label=label, counted=row["counted"], **marks)
    broken = row["broken"]
    if broken is None:
        return out
    words = f"Byte {broken['byte']:,}, in {broken['where']}: {broken['cause']}."
    names = (xray["rows"][at - 1]["label"] if at else "before", row["label"])
    pieces = zip(names, (broken["before"], broken["after"]), strict=True)
    lines = "\n".join(f"{name:<8} …{head}▲{tail}…" for name, (head, tail) in pieces)
    why = Fold(text("What broke the cache"), (Para(text(words)), Pre([["t", lines]])), open=True)
    return [*out[:-1], why, out[-1]]
