"""Blocks: the table of content blocks, with sizes, hashes and the epochs they live in.

May not hold text.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from agent_kernel.frames.load import Load, estimate
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows


def build(load: Load) -> Columns:
    """Return one row a block, in file order."""
    load.records  # noqa: B018 - the chain must be known
    cleared = _cleared(load)
    ends = _last_epochs(load)
    first: dict[tuple[str, str], int] = {}

    def row(block: dict[str, Any]) -> dict[str, Any]:
        rec, sha = block["rec"], block["sha"]
        twin = None
        if sha and block["chars"]:
            seen = first.setdefault((rec.session, sha), rec.id)
            twin = seen if seen != rec.id else None
        left = rec.epoch + 1 if rec.epoch < ends[rec.session] and not rec.active else None
        return {
            "session_id": rec.session,
            "record_id": rec.id,
            "block": block["block"],
            "call_id": block["call_id"],
            "agent_id": block["agent"],
            "role": block["role"],
            "kind": block["kind"],
            "source": block["source"],
            "chars": block["chars"],
            "tokens": estimate(block["chars"] or 0),
            "tool_use_id": block["tool_use_id"],
            "sha": sha,
            "duplicate_of": twin,
            "epoch_in": rec.epoch,
            "epoch_out": left,
            "cleared_by": cleared.get((rec.session, block["tool_use_id"]))
            if block["kind"] == "tool_result"
            else None,
            "width": block["width"],
            "height": block["height"],
            "media_type": block["media"],
        }

    return of_rows("blocks", (row(block) for block in load.blocks))


def _cleared(load: Load) -> dict[tuple[str, Any], str]:
    """Return, by tool call, the first micro compaction that cleared its result."""
    found: dict[tuple[str, Any], str] = {}
    for name, session in load.assembled.sessions.items():
        for mark in session.marked("micro"):
            for one in mark.data.get("cleared", ()):
                found.setdefault((name, one), compaction_id(mark.rec, mark.data))
    return found


def compaction_id(rec: Any, data: dict[str, Any]) -> str:
    """Return the id of a compaction: what the log says, else the boundary's uuid or seq."""
    return str(data.get("id") or rec.uuid or f"c{rec.seq}")


def _last_epochs(load: Load) -> dict[str, int]:
    ends: dict[str, int] = defaultdict(int)
    for name, session in load.assembled.sessions.items():
        ends[name] = max((rec.epoch for rec in session.records), default=0)
    return ends
