"""Report: one self-contained page: what sessions cost, why counters differ, what to change.

May not show transcript text or a full path unless asked, nor load anything from the network.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

from agent_kernel.frames.avoidable import Cost, costs
from agent_kernel.frames.frames import Frames
from agent_kernel.frames.plots import PICTURES, png
from agent_kernel.frames.reconcile import count, with_switches
from agent_kernel.frames.totals import notes
from agent_kernel.guard.render import html

Row = dict[str, Any]
TOP_SESSIONS = 30
WORDY = 32  # characters beyond which a cell is text that wants room on a narrow screen
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:64rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
ol.lead{font-size:1.05rem;padding-left:1.4rem}ol.lead li{margin:.5rem 0}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;width:100%}
th,td{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tbody tr:nth-child(even){background:var(--soft)}
td:not(.n),th:not(.n){min-width:5.5rem;overflow-wrap:anywhere}td.w{min-width:13rem}
figure{margin:1rem 0;overflow-x:auto}figcaption{position:sticky;left:0}
img{display:block;width:100%;min-width:36rem;max-width:50rem;height:auto;background:#fff;
border-radius:4px}
figcaption,.note{font-size:.8rem;opacity:.8}code{font-size:.9em;word-break:break-all}
"""


def page(f: Frames, *, root: str = "", text: bool = False, by_owner: bool = False) -> str:
    """Return the page as HTML.

    `text` adds session titles and full paths; `by_owner` adds a table by the first folder below
    `root`. Pictures are left out without the extra plots.
    """
    found = costs(f.load)
    total = f.totals()
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width,initial-scale=1'>",
        f"<title>What the agents cost</title><style>{_STYLE}</style></head><body>",
        "<h1>What the agents cost</h1>",
        f"<ol class='lead'>{''.join(f'<li>{html(one)}</li>' for one in sentences(f, found))}</ol>",
        *(f"<p class='note'>{html(note)}</p>" for note in notes(total)),
        _models(total),
        *([_owners(f, root)] if by_owner else []),
        _rules(f),
        _figure(f, "waterfall"),
        _costs(found),
        _figure(f, "carry"),
        _sessions(f, text=text),
        *_pictures(f),
        _issues(f, text=text),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part)


def sentences(f: Frames, found: Sequence[Cost]) -> list[str]:
    """Return the five sentences the page opens with: spent, others, and three avoidable costs."""
    total = f.totals()["total"]
    usd = total["usd"] or 0.0
    sessions = len(f.load.assembled.sessions)
    inside = sum(total[name] for name in total if name in _INSIDE)
    first = (
        f"${usd:,.2f} was spent at list prices on {total['calls']:,} model calls in {sessions:,} "
        f"sessions: {inside:,} tokens were sent and {total['output']:,} came back as logged."
    )
    told = [first, _others(f, usd)]
    for cost in list(found)[:3]:
        share = f", {cost.usd / usd:.0%} of the total" if usd else ""
        names = ", ".join(name[:8] for name, _ in cost.dearest(3))
        told.append(
            f"${cost.usd:,.2f}{share}, could have been saved: {cost.cause} "
            f"({cost.where(names)}); {cost.change}."
        )
    while len(told) < 5:
        told.append("No further avoidable cost was found.")
    return told


_INSIDE = ("input", "cache_write_5m", "cache_write_1h", "cache_read")


def _others(f: Frames, usd: float) -> str:
    """Return what other counters would say of the same files, and why."""
    session = count(f.load, with_switches("session", nested=False))["usd"]
    first = count(
        f.load, with_switches("first", nested=False, lines="first", write_price="flat_5m")
    )
    every = count(f.load, with_switches("all", nested=False, lines="all"))["usd"]
    return (
        f"Counters that leave out sub-agents inside progress records say ${session:,.2f}, those "
        f"that also take a response's first line and price 1-hour cache writes as 5-minute ones "
        f"${first['usd']:,.2f}, and a plain sum of lines ${every:,.2f}; every response counted "
        f"once, with all of these, gives ${usd:,.2f}."
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]], numbers: set[int]) -> str:
    def cell(tag: str, at: int, value: Any) -> str:
        long = tag == "td" and len(str(value)) > WORDY
        mark = " class='n'" if at in numbers else " class='w'" if long else ""
        return f"<{tag}{mark}>{html(str(value))}</{tag}>"

    head = "".join(cell("th", at, value) for at, value in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(cell("td", at, value) for at, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='scroll'>{table}</div>"


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


def _models(total: Row) -> str:
    rows = [*total["models"], {**total["total"], "model": "total"}]
    heads = ("model", "calls", "input", "written", "read", "output", "$")
    cells = [
        (
            row["model"] or "(none)",
            f"{row['calls']:,}",
            f"{row['input']:,}",
            f"{row['cache_write_5m'] + row['cache_write_1h']:,}",
            f"{row['cache_read']:,}",
            f"{row['output']:,}",
            _usd(row["usd"]),
        )
        for row in rows
    ]
    return "<h2>By model</h2>" + _table(heads, cells, set(range(1, 7)))


def _owners(f: Frames, root: str) -> str:
    """Return the table by the first folder below the path the load was asked for."""
    owner_of = _owner(f, root)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in f.load.rows("sessions"):
        groups[owner_of(row)].append(row)
    rows = [
        (
            name,
            f"{len(held):,}",
            f"{sum(row['calls'] for row in held):,}",
            _usd(sum(row["usd_recorded"] or 0.0 for row in held)),
        )
        for name, held in groups.items()
    ]
    rows.sort(key=lambda row: -float(row[3].replace(",", "")))
    return "<h2>By owner</h2>" + _table(("owner", "sessions", "calls", "$"), rows, {1, 2, 3})


def _owner(f: Frames, root: str) -> Callable[[Row], str]:
    base = PurePath(root).parts

    def owner(row: Row) -> str:
        parts = PurePath(row["files"][0]).parts if row["files"] else ()
        below = parts[len(base) :] if parts[: len(base)] == base else parts
        return below[0] if len(below) > 1 else "(no folder)"

    return owner


def _rules(f: Frames) -> str:
    rows = [
        (
            row["rule"],
            row["equals"] or "",
            f"{row['calls']:,}",
            _usd(row["usd"]),
            "" if row["delta_usd"] is None else f"{row['delta_usd']:+,.2f}",
        )
        for row in f.load.rows("reconcile")
    ]
    heads = ("rule", "equals", "calls", "$", "difference")
    return "<h2>Why counters differ</h2>" + _table(heads, rows, {2, 3, 4})


def _costs(found: Sequence[Cost]) -> str:
    rows = [
        (
            cost.cause,
            cost.change,
            ", ".join(f"{name[:8]} ${usd:,.2f}" for name, usd in cost.dearest(3)),
            f"{cost.count:,}",
            _usd(cost.usd),
        )
        for cost in found
    ]
    heads = ("cause", "what to change", "most in", "times", "$")
    said = "<p class='note'>Causes overlap: they do not add up.</p>"
    return "<h2>What could have been saved</h2>" + _table(heads, rows, {3, 4}) + said


def _sessions(f: Frames, *, text: bool) -> str:
    rows = sorted(f.load.rows("sessions"), key=lambda row: -(row["usd_recorded"] or 0.0))
    heads = "session,$,best $,calls,turns,compactions,peak,project,harness".split(",")
    cells = []
    for row in rows[:TOP_SESSIONS]:
        where = str(row["cwd"] or "")
        cell = [row["session_id"][:8], _usd(row["usd_recorded"]), _usd(row["usd_best"])]
        cell += [f"{row[name]:,}" for name in ("calls", "turns", "compactions")]
        cell += [f"{row['context_peak'] or 0:,}", where if text else PurePath(where).name]
        cells.append([*cell, row["harness"], *([row["title"] or ""] if text else [])])
    if text:
        heads.append("title")
    more = f"<p class='note'>{min(len(rows), TOP_SESSIONS)} of {len(rows)} sessions.</p>"
    return "<h2>Dearest sessions</h2>" + _table(heads, cells, set(range(1, 7))) + more


def _pictures(f: Frames) -> list[str]:
    """Return the pictures of the dearest session and of the models."""
    rows = sorted(f.load.rows("sessions"), key=lambda row: -(row["usd_recorded"] or 0.0))
    if not rows or not rows[0]["calls"]:
        return []
    dearest = rows[0]["session_id"]
    return [_figure(f, "context", dearest), _figure(f, "cache", dearest), _figure(f, "compare")]


def _figure(f: Frames, name: str, *of: str) -> str:
    if find_spec("matplotlib") is None:
        return ""
    drawn = PICTURES[name](f, *of)
    data = base64.b64encode(png(drawn, 130)).decode("ascii")
    alt = html(str(vars(drawn)["alt"]))
    return (
        f"<figure><img alt='{alt}' src='data:image/png;base64,{data}'>"
        f"<figcaption>{alt}</figcaption></figure>"
    )


def _issues(f: Frames, *, text: bool) -> str:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in f.load.rows("issues"):
        groups[row["code"], row["severity"]].append(row)
    rows = [
        (code, severity, f"{len(held):,}", *([held[0]["message"]] if text else []))
        for (code, severity), held in groups.items()
    ]
    if not rows:
        return "<h2>Findings about the files</h2><p>none</p>"
    heads = ("code", "severity", "times", *(["first"] if text else []))
    return "<h2>Findings about the files</h2>" + _table(heads, rows, {2})
