"""Samples: one row an answer to a request that was sent again, side by side with its siblings.

May not count them among a session's calls: they belong to no turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_kernel.core.prices import rates
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows

_TOLD = ("action", "tool", "text", "model", "stop_reason", "seconds", "error")
_SPENT = {
    "input": "input",
    "output": "output",
    "cache_read": "read",
    "cache_write_5m": "write_5m",
    "cache_write_1h": "write_1h",
}


def build(load: Load) -> Columns:
    """Return one row a sample, by session, request and number."""
    rows = [
        _row(session.id, mark.data)
        for session in load.assembled.sessions.values()
        for mark in session.marked("sample")
    ]
    rows.sort(key=lambda row: (row["session_id"], row["request"] or 0, row["n"] or 0))
    return of_rows("samples", rows)


def _row(session: str, data: Mapping[str, Any]) -> dict[str, Any]:
    spent = {name: data.get(given) for name, given in _SPENT.items()}
    return {
        "session_id": session,
        "request": data.get("node"),
        "n": data.get("attempt"),
        "tools": data.get("block"),
        "input": data.get("given"),
        "input_tokens": spent["input"],
        "output_tokens": spent["output"],
        "cache_read": spent["cache_read"],
        "cost": None if data.get("error") else _dollars(str(data.get("model")), spent),
        **{name: data.get(name) for name in _TOLD},
    }


def _dollars(model: str, spent: Mapping[str, int | None]) -> float | None:
    tokens = {name: count or 0 for name, count in spent.items()}
    found = rates(model, None, sum(tokens.values()) - tokens["output"])
    return None if found is None else found.dollars(tokens)
