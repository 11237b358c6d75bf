"""Turns: the table of what people, queues and notifications asked for, and what it took.

May not take a summary, a tool result or command output for a prompt.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from agent_kernel.frames.assemble import Mark, Rec, Session
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import (
    COMMAND,
    FAULT,
    INTERRUPT,
    MESSAGE,
    META,
    RESULT,
    SUMMARY,
    Columns,
)
from agent_kernel.frames.schema import of_rows

SUMS = (
    "input",
    "output_recorded",
    "cache_write_5m",
    "cache_write_1h",
    "cache_read",
    "usd_recorded",
    "usd_best",
)
Rows = dict[tuple[str, int | None], list[dict[str, Any]]]


def build(load: Load) -> Columns:
    """Return one row a turn, by session and number."""
    load.records  # noqa: B018 - the chain must be known
    calls, tools = _by_turn(load, "calls"), _by_turn(load, "tools")
    rows: list[dict[str, Any]] = []
    for session in load.assembled.sessions.values():
        spans: dict[int, list[Rec]] = defaultdict(list)
        for rec in session.records:
            if rec.turn is not None:
                spans[rec.turn].append(rec)
        marks = {mark.rec.turn: mark for mark in reversed(list(session.marked("prompt")))}
        before: int | None = None
        for turn in sorted(spans):
            key = (session.id, turn)
            row = _row(
                session, spans[turn], marks.get(turn), calls.get(key, []), tools.get(key, [])
            )
            if before is not None and row["started"] is not None:
                row["human_idle"] = max(0, row["started"] - before) / 1000
            before = row["ended"] or before
            rows.append(row)
    return of_rows("turns", rows)


def _by_turn(load: Load, table: str) -> Rows:
    found: Rows = defaultdict(list)
    for row in load.rows(table):
        found[row["session_id"], row["turn"]].append(row)
    return found


def _row(
    session: Session,
    records: list[Rec],
    mark: Mark | None,
    calls: list[dict[str, Any]],
    tools: list[dict[str, Any]],
) -> dict[str, Any]:
    main = [rec for rec in records if rec.agent == "main"]
    # what is queued after the last step is the next turn's
    own = (rec for rec in main if rec.type != "queue-operation")
    times = [rec.time for rec in own if rec.time is not None]
    opening = mark.rec if mark else records[0]
    started, ended = opening.time or min(times, default=None), max(times, default=None)
    asked = [call for call in calls if call["agent_id"] == "main"]
    return {
        "session_id": session.id,
        "turn": records[0].turn,
        "text_record": opening.id,
        "origin": mark.data.get("origin") if mark else None,
        "started": started,
        "ended": ended,
        "wall": (ended - started) / 1000 if ended is not None and started is not None else None,
        "model": _model_seconds(main, asked),
        "tool": _tool_seconds([tool for tool in tools if tool["agent_id"] == "main"]),
        "steps": len(asked),
        "calls": len(calls),
        "tools": len(tools),
        "errors": sum(bool(tool["is_error"]) for tool in tools),
        **{name: total(call[name] for call in calls) for name in SUMS},
        "end": _end(session, main, tools),
        "rewound": opening.chain == "rewound",
    }


def total(values: Any) -> Any:
    """Return the sum of what is known, None when nothing is known of a non-empty list."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if known or not listed else None


def _model_seconds(main: list[Rec], calls: list[dict[str, Any]]) -> float | None:
    """Return seconds from what was sent to the last line of each response; stated ones win."""
    said = [call["seconds"] for call in calls if call["seconds"] is not None]
    if said:
        return float(sum(said))
    waited, asked = 0.0, None
    for rec in main:
        if rec.time is None or not rec.flags & MESSAGE:
            continue
        if rec.message_id is None:
            asked = rec.time
        elif asked is not None:
            waited += max(0, rec.time - asked) / 1000
            asked = rec.time
    return waited if calls else None


def _tool_seconds(tools: list[dict[str, Any]]) -> float:
    """Return the seconds at least one tool ran."""
    spans = sorted(
        (tool["started"], tool["ended"])
        for tool in tools
        if tool["started"] is not None and tool["ended"] is not None
    )
    covered, until = 0, None
    for begin, end in spans:
        if until is None or begin > until:
            covered += max(0, end - begin)
            until = end
        elif end > until:
            covered += end - until
            until = end
    return covered / 1000


def _end(session: Session, main: list[Rec], tools: list[dict[str, Any]]) -> str:
    ids = {rec.id for rec in main}
    for mark in session.marked("turn_end"):
        if mark.rec.id in ids:
            return str(mark.data.get("reason"))
    spoken = [rec for rec in main if rec.flags & MESSAGE and not rec.flags & (SUMMARY | META)]
    if not spoken:
        return "open"
    last = spoken[-1]
    if last.flags & COMMAND and len(spoken) > 1 and all(rec.flags & COMMAND for rec in spoken):
        return "completed"  # a command the harness answered itself
    if any(rec.flags & INTERRUPT for rec in spoken[-2:]):
        return "interrupted"
    if last.flags & FAULT:
        return "error"
    if last.flags & RESULT or last.message_id is None:
        return "open"
    waits = any(not tool["answered"] for tool in tools if tool["agent_id"] == "main")
    return "open" if waits else "completed"
