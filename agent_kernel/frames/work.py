"""Work: the tables of files and tasks.

May not open a path a transcript names.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from agent_kernel.frames.agents import labels
from agent_kernel.frames.assemble import Session
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows
from agent_kernel.frames.tools import READS
from agent_kernel.frames.turns import total

WRITES = ("write", "write_file", "create")
EDITS = ("edit", "multiedit", "notebookedit", "str_replace", "apply_patch", "notebook")
Rows = list[dict[str, Any]]


def files(load: Load) -> Columns:
    """Return one row a path and session that tools read, wrote or edited."""
    groups: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in load.rows("tools"):
        if row["path"] and _operation(row):
            groups[row["session_id"], row["path"]].append(row)
    seqs = load.tool_seqs
    return of_rows("files", (_file(key, rows, seqs) for key, rows in groups.items()))


def _operation(row: dict[str, Any]) -> str | None:
    name = (row["name"] or "").lower()
    for kind, names in (("reads", READS), ("writes", WRITES), ("edits", EDITS)):
        if name in names:
            return kind
    return None


def _file(key: tuple[str, str], rows: Rows, seqs: dict[tuple[str, str], int]) -> dict[str, Any]:
    kinds = [_operation(row) for row in rows]
    places = [seqs[key[0], row["tool_use_id"]] for row in rows]
    changed = [i for i, kind in enumerate(kinds) if kind != "reads"]
    read = [row for row, kind in zip(rows, kinds, strict=True) if kind == "reads"]
    return {
        "session_id": key[0],
        "path": key[1],
        "reads": len(read),
        "writes": kinds.count("writes"),
        "edits": kinds.count("edits"),
        "read_tokens": total(row["result_tokens"] for row in read),
        "rereads": max(0, len(read) - 1),
        "first_seq": min(places),
        "last_seq": max(places),
        "edited_after_read": any("reads" in kinds[:i] for i in changed),
        "carry_usd": total(row["carry_usd"] for row in read),
    }


def tasks(load: Load) -> Columns:
    """Return one row a background task, with the notifications of its end."""
    rows, told = [], labels(load)
    for session in load.assembled.sessions.values():
        found: dict[str, dict[str, Any]] = {}
        read = _read_at(session)
        for mark in session.marked("task", "spawn", "notice", "task_end", "queue"):
            name = str(mark.data.get("id") or mark.data.get("agent") or "")
            if mark.kind == "queue":
                if name in found and mark.data.get("operation") == "enqueue":
                    found[name].setdefault("ended", mark.rec.time)
            elif name and (mark.kind != "spawn" or mark.data.get("background")):
                row = found.setdefault(name, {"task_id": name, "notices": 0})
                _task(row, mark, session, read.get(mark.rec.id, mark.rec.time))
        for row in found.values():
            row.setdefault("label", told.get((session.id, str(row.get("tool_use_id")))))
        rows += list(found.values())
    return of_rows("tasks", rows)


def _read_at(session: Session) -> dict[int, int]:
    """Return when the model could read each attachment: it carries the time it was queued at."""
    found: dict[int, int] = {}
    latest = 0
    for rec in session.main:
        latest = max(latest, rec.time or 0)
        if rec.type == "attachment" and latest:
            found[rec.id] = latest
    return found


def _task(row: dict[str, Any], mark: Any, session: Session, read: int | None) -> None:
    data, time = mark.data, mark.rec.time
    row["session_id"] = session.id
    row.setdefault("agent_id", mark.rec.agent)
    for name in ("label", "tool_use_id"):
        if data.get(name) is not None:
            row.setdefault(name, data[name])
    if mark.kind in ("task", "spawn"):
        row.setdefault("kind", data.get("kind") or "agent")
        row.setdefault("created", time)
        row.setdefault("started", time)
        row.setdefault("status", "running")
    if mark.kind in ("notice", "task_end"):
        row["status"] = data.get("status") or row.get("status")
        row["exit_code"] = data.get("exit_code", row.get("exit_code"))
    if mark.kind == "task_end":
        row["ended"] = time
    if mark.kind == "notice":
        row["notices"] += 1
        ended = row.setdefault("ended", time)
        if ended is not None and read is not None:
            row["notice_lag"] = max(0, read - ended) / 1000
