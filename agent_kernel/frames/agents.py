"""Agents: the table of sub-agents, what each used itself and with all that it started.

May not open a path a transcript names.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from agent_kernel.frames.assemble import Mark, Session
from agent_kernel.frames.ledger import BUCKETS
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows
from agent_kernel.frames.turns import SUMS, total

_TOKENS = tuple("output_recorded" if name == "output" else name for name in BUCKETS)
Rows = list[dict[str, Any]]
Key = tuple[str, str]


def build(load: Load) -> Columns:
    """Return one row an agent that is not main.

    Own tokens of main and of these rows add up to the session's; the inclusive ones of the agents
    that a tool call started (`parent_tool_use`) are what that call cost.
    """
    calls: dict[Key, Rows] = defaultdict(list)
    for row in load.rows("calls"):
        calls[row["session_id"], row["agent_id"]].append(row)
    places, told = _places(load), labels(load)
    rows: Rows = []
    for session in load.assembled.sessions.values():
        mine = [
            _row(session, agent, calls.get((session.id, agent), []), places, told)
            for agent in _agents(session, calls)
        ]
        _add_below(mine)
        rows += mine
    return of_rows("subagents", rows)


def _places(load: Load) -> dict[Key, set[bool]]:
    """Return, by session and agent, whether its calls stand in progress records or in a file."""
    found: dict[Key, set[bool]] = defaultdict(set)
    part = load.store.part("usages")
    for file, offset, agent, nested in zip(
        part["file"], part["offset"], part["agent"], part["nested"], strict=True
    ):
        rec = load.assembled.places.get((file, offset))
        if rec is not None and agent:
            found[rec.session, agent].add(bool(nested))
    return found


def _agents(session: Session, calls: Mapping[Key, Rows]) -> Iterable[str]:
    named = {rec.agent: None for rec in session.records if rec.agent != "main"}
    named |= {agent: None for name, agent in calls if name == session.id and agent != "main"}
    named |= {str(m.data["agent"]): None for m in session.marked("spawn") if m.data.get("agent")}
    return named


def labels(load: Load) -> dict[Key, str]:
    """Return what calls say they are for, by session and call: some starts do not repeat it."""
    found: dict[Key, str] = {}
    for row in load.rows("tools"):
        given = row["input"] or ""
        told = json.loads(given).get("description") if '"description"' in given else None
        if isinstance(told, str) and told:
            found[row["session_id"], row["tool_use_id"]] = told
    return found


def _row(
    session: Session,
    agent: str,
    calls: Rows,
    places: Mapping[Key, set[bool]],
    labels: Mapping[Key, str],
) -> dict[str, Any]:
    spawn = [m for m in session.marked("spawn") if m.data.get("agent") == agent]
    told = spawn[-1].data if spawn else {}
    times = [rec.time for rec in session.records if rec.agent == agent and rec.time is not None]
    times += [call[name] for call in calls for name in ("time_first", "time_last") if call[name]]
    nested = places.get((session.id, agent), set())
    found = {frozenset({True}): "progress", frozenset({False}): "file"}
    above = spawn[-1].rec.agent if spawn else "main"
    return {
        "session_id": session.id,
        "agent_id": agent,
        "parent_tool_use": told.get("tool_use_id"),
        "parent_agent": above if above != agent else "main",
        "kind": told.get("kind") or (calls[0]["agent_kind"] if calls else "subagent"),
        "label": told.get("label") or labels.get((session.id, str(told.get("tool_use_id")))),
        "depth": told.get("depth") or 1,
        "started": min(times, default=None),
        "ended": max(times, default=None),
        "status": _status(session, agent, spawn),
        "calls": len(calls),
        **{name: total(call[name] for call in calls) for name in SUMS},
        "tokens": sum(call[name] or 0 for call in calls for name in _TOKENS),
        "context_peak": max((call["context"] for call in calls), default=None),
        "found_in": found.get(frozenset(nested), "both") if nested else None,
    }


def _status(session: Session, agent: str, spawn: list[Mark]) -> Any:
    """Return how an agent ended: by its notice or its end in our log, else what its start says."""
    ends = [m for m in session.marked("notice", "task_end") if m.data.get("id") == agent]
    if ends:
        return ends[-1].data.get("status")
    if not spawn:
        return None
    ours = spawn[-1].rec.type == "task/created"
    return spawn[-1].data.get("status") or ("running" if ours else None)


def _add_below(rows: Rows) -> None:
    """Add each agent's own use to itself and to every agent above it."""
    by_name = {row["agent_id"]: row for row in rows}
    for row in rows:
        row["tokens_inclusive"], row["usd_inclusive"] = 0, None
    for row in rows:
        above: dict[str, Any] | None = row
        seen: set[str] = set()  # a log may go in a circle
        while above is not None and above["agent_id"] not in seen:
            seen.add(above["agent_id"])
            above["tokens_inclusive"] += row["tokens"]
            if row["usd_recorded"] is not None:
                above["usd_inclusive"] = (above["usd_inclusive"] or 0.0) + row["usd_recorded"]
            above = by_name.get(above["parent_agent"])
