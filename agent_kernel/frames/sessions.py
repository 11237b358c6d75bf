"""Sessions: the table of sessions, each the sum of its other tables.

May not count anything itself that another table counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from agent_kernel.core.prices import context_window
from agent_kernel.frames.assemble import Session
from agent_kernel.frames.compactions import rows_of
from agent_kernel.frames.load import Load
from agent_kernel.frames.output import bounds
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows
from agent_kernel.frames.totals import dollars_with
from agent_kernel.frames.turns import SUMS, total


def build(load: Load) -> Columns:
    """Return one row a session, by first appearance."""
    names = ("calls", "tools", "turns", "subagents")
    tables = {name: _grouped(load.rows(name)) for name in names}
    tables["compactions"] = _grouped(load.once(rows_of))
    issues = Counter(row["session_id"] for row in load.rows("issues"))
    low, high = _bounds(load)
    rows = []
    for session in load.assembled.sessions.values():
        mine = {name: found.get(session.id, []) for name, found in tables.items()}
        rows.append(
            {
                **_head(load, session),
                **_counts(mine),
                "issues": issues[session.id],
                "usd_low": low.get(session.id, 0.0),
                "usd_high": high.get(session.id, 0.0),
            }
        )
    return of_rows("sessions", rows)


def _grouped(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["session_id"]].append(row)
    return found


def _bounds(load: Load) -> tuple[dict[str, float], dict[str, float]]:
    low: dict[str, float] = defaultdict(float)
    high: dict[str, float] = defaultdict(float)
    for one in load.calls:
        least, most = bounds(one.call)
        low[one.session] += dollars_with(load.priced.book, one.call, least) or 0.0
        high[one.session] += dollars_with(load.priced.book, one.call, most) or 0.0
    return low, high


def _head(load: Load, session: Session) -> dict[str, Any]:
    records = session.records
    times = [rec.time for rec in records if rec.time is not None]
    versions = [rec.version for rec in records if rec.version]
    titles = [mark.data.get("title") for mark in session.marked("title")]
    forks = [mark.data.get("from") for mark in session.marked("fork")]
    files = {rec.file: None for rec in load.assembled.records if rec.session == session.id}
    return {
        "session_id": session.id,
        "harness": session.harness,
        "version_first": versions[0] if versions else None,
        "version_last": versions[-1] if versions else None,
        "cwd": next((rec.cwd for rec in records if rec.cwd), None),
        "branch": next((rec.branch for rec in records if rec.branch), None),
        "started": min(times, default=None),
        "ended": max(times, default=None),
        "title": next((title for title in reversed(titles) if title), None),
        "forked_from": next((one for one in forks if one), load.chains[session.id].forked_from),
        "files": [] if load.store.live else [load.store.files[file].path for file in files],
    }


def _counts(mine: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    calls, tools, turns = mine["calls"], mine["tools"], mine["turns"]
    main = [call for call in calls if call["agent_kind"] == "main"]
    peak = max(main, key=lambda call: call["context"], default=None)
    kinds = Counter(row["kind"] for row in mine["compactions"] if row["status"] == "committed")
    return {
        "turns": len(turns),
        "steps": len(main),
        "calls": len(calls),
        "tools": len(tools),
        "errors": sum(bool(tool["is_error"]) for tool in tools),
        "interrupts": sum(turn["end"] == "interrupted" for turn in turns),
        "compactions": sum(count for kind, count in kinds.items() if kind != "micro"),
        "micro": kinds["micro"],
        "subagents": len(mine["subagents"]),
        **{name: total(call[name] for call in calls) for name in SUMS},
        "usd_rewound": total(call["usd_recorded"] for call in calls if call["rewound"]),
        "context_peak": peak["context"] if peak else None,
        "window": context_window(peak["model"]) if peak and peak["model"] else None,
    }
