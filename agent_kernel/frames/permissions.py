"""Permissions: one row a tool call somebody or something decided about, and who or what it was.

May not guess a decision: a call that began without one has a row that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_kernel.frames.assemble import Session
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows

Rows = dict[tuple[str, str], dict[str, Any]]
_DECIDED = ("rule", "verdict", "by", "waited", "reason", "would_pass")


def build(load: Load) -> Columns:
    """Return one row a tool call that was asked about, decided, or began without a decision."""
    tools = {(row["session_id"], row["tool_use_id"]): row for row in load.rows("tools")}
    rows: Rows = {}
    for session in load.assembled.sessions.values():
        _session(rows, session)
    for key, tool in tools.items():
        if key not in rows and tool["error_kind"] == "denied":
            rows[key] = {"verdict": "deny", "asked": False, "time": tool["ended"]}
    return of_rows("permissions", (_row(key, row, tools.get(key, {})) for key, row in rows.items()))


def _session(rows: Rows, session: Session) -> None:
    mode = None
    for mark in session.marked("mode", "ask", "decision", "tool_start"):
        if mark.kind == "mode":
            mode = mark.data.get("mode")
            continue
        row = rows.setdefault((session.id, str(mark.data.get("id"))), {"asked": False})
        if mark.kind == "tool_start":
            row["began"] = mark.rec.time
            continue
        row |= {name: value for name, value in mark.data.items() if name in _DECIDED}
        row |= {"mode": mode, "time": mark.rec.time}
        row["asked"] = row["asked"] or mark.kind == "ask"


def _row(key: tuple[str, str], row: Mapping[str, Any], tool: Mapping[str, Any]) -> dict[str, Any]:
    about = {name: tool.get(name) for name in ("name", "turn", "step", "agent_id")}
    return {"session_id": key[0], "tool_use_id": key[1], **about, **row}
