"""Re-reads: what is read again after a compaction, beside the same count where there was none.

May not give the first number without its control.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_kernel.frames.load import Load
from agent_kernel.frames.tools import READS

WINDOW = 20  # operations after a boundary
_CHANGES = ("edit", "write", "multiedit", "notebookedit", "str_replace", "apply_patch", "create")


@dataclass(slots=True)
class Window:
    """The operations around one place: `again` are distinct paths read before and again after."""

    session: str
    seq: int
    boundary: bool
    again: int
    edited: int
    tokens: int


@dataclass(slots=True)
class _Op:
    seq: int
    read: bool
    path: str
    tokens: int


def windows(load: Load) -> list[Window]:
    """Return one window a committed boundary and, per session, control windows without one.

    A control is taken at the middle of every stretch of 2 x WINDOW operations that holds no
    boundary, over the same span before and after as the session's boundaries have.
    """
    operations = _operations(load)
    out: list[Window] = []
    for session in load.assembled.sessions.values():
        marks = [mark for mark in session.marked("boundary") if mark.rec.agent == "main"]
        seqs = [mark.rec.seq or 0 for mark in marks]
        ops = operations.get(session.id, [])
        out += [_window(session.id, seq, ops, boundary=True) for seq in seqs]
        if seqs:
            out += [_window(session.id, seq, ops, boundary=False) for seq in _controls(ops, seqs)]
    return out


def _operations(load: Load) -> dict[str, list[_Op]]:
    found: dict[str, list[_Op]] = defaultdict(list)
    for row in load.rows("tools"):
        name = (row["name"] or "").lower()
        if row["path"] and row["agent_id"] == "main" and (name in READS or name in _CHANGES):
            seq = load.tool_seqs[row["session_id"], row["tool_use_id"]]
            op = _Op(seq, name in READS, row["path"], row["result_tokens"] or 0)
            found[row["session_id"]].append(op)
    for ops in found.values():
        ops.sort(key=lambda op: op.seq)
    return found


def _window(session: str, seq: int, ops: Sequence[_Op], *, boundary: bool) -> Window:
    before = [op for op in ops if op.seq < seq]
    after = [op for op in ops if op.seq > seq][:WINDOW]
    known = {op.path for op in before if op.read}
    again: dict[str, int] = {}
    edited: set[str] = set()
    touched: set[str] = set()
    for op in after:
        if not op.read:
            touched.add(op.path)
        elif op.path in known and op.path not in again:
            again[op.path] = op.tokens
            if op.path in touched or _changed_since_read(before, op.path):
                edited.add(op.path)
    return Window(session, seq, boundary, len(again), len(edited), sum(again.values()))


def _changed_since_read(before: Sequence[_Op], path: str) -> bool:
    last = next((op for op in reversed(before) if op.path == path), None)
    return last is not None and not last.read


def _controls(ops: Sequence[_Op], boundaries: Sequence[int]) -> list[int]:
    """Return the seqs of places as far as a window from any boundary."""
    places = []
    at = WINDOW
    while at + WINDOW <= len(ops):
        low, high = ops[at - WINDOW].seq, ops[at + WINDOW - 1].seq
        if not any(low <= seq <= high for seq in boundaries):
            places.append(ops[at].seq)
        at += WINDOW
    return places


def table(load: Load) -> list[dict[str, Any]]:
    """Return two rows, after a compaction and the control: windows, mean re-reads, edited apart."""
    rows = []
    found = load.once(windows)
    for boundary in (True, False):
        mine = [one for one in found if one.boundary is boundary]
        count = len(mine) or 1
        rows.append(
            {
                "where": "after a compaction" if boundary else "control, no compaction",
                "windows": len(mine),
                "rereads_mean": sum(one.again for one in mine) / count if mine else None,
                "edited_between_mean": sum(one.edited for one in mine) / count if mine else None,
                "tokens_mean": sum(one.tokens for one in mine) / count if mine else None,
            }
        )
    return rows
