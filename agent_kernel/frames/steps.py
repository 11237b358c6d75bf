"""Steps: the table of main-agent steps: what each carried, by source, and what nobody explains.

May not present an estimate as exact: `exact` says when the surface is known.
"""

from __future__ import annotations

from typing import Any

from agent_kernel.frames.assemble import LOGS
from agent_kernel.frames.lanes import lanes
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows


def build(load: Load) -> Columns:
    """Return one row a call of the main agent, by session and order."""
    calls = {row["call_id"]: row for row in load.rows("calls")}
    seconds = _tool_seconds(load)
    digests = _digests(load)
    rows: list[dict[str, Any]] = []
    for lane in load.once(lanes):
        if lane.agent != "main":
            continue
        exact = load.assembled.sessions[lane.session].harness in LOGS
        for step in lane.steps:
            key = step.placed.call.key
            call = calls[key]
            added = call["delta"]
            explained = step.explained
            loose = None if added is None or explained is None else added - explained
            rows.append(
                {
                    "session_id": lane.session,
                    "turn": call["turn"],
                    "step": call["step"],
                    "call_id": key,
                    "started": call["time_first"],
                    "model": call["seconds"],
                    "tool": seconds.get((lane.session, key)),
                    "context": call["context"],
                    "system": step.system,
                    **step.by_source,
                    "added": added,
                    "added_explained": explained,
                    "unexplained_tokens": loose,
                    "cache_event": call["cache_event"],
                    "digest": digests.get((lane.session, step.placed.rec.seq)),
                    "exact": exact,
                }
            )
    return of_rows("steps", rows)


def _tool_seconds(load: Load) -> dict[tuple[str, str], float]:
    """Return the longest tool call of each batch, in seconds, by (session, call)."""
    found: dict[tuple[str, str], float] = {}
    for row in load.rows("tools"):
        if row["batch"] and row["seconds"] is not None:
            key = (row["session_id"], row["batch"])
            found[key] = max(found.get(key, 0.0), row["seconds"])
    return found


def _digests(load: Load) -> dict[tuple[str, int | None], str]:
    """Return the digest of the request behind each answer, where the log records one."""
    found: dict[tuple[str, int | None], str] = {}
    for name, session in load.assembled.sessions.items():
        waiting: dict[str, str] = {}
        marks = {mark.rec.id: mark for mark in session.marked("request")}
        for rec in session.records:
            mark = marks.get(rec.id)
            if mark is not None and mark.data.get("purpose") == "turn":
                waiting[rec.agent] = str(mark.data.get("digest"))
            elif rec.type == "assistant/message" and rec.agent in waiting:
                found[name, rec.seq] = waiting.pop(rec.agent)
    return found
