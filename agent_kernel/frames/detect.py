"""Detect: what goes wrong in sessions, where, and what it costs.

May not fire without evidence: every finding names the rows it stands on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from agent_kernel.frames.compactions import rows_of
from agent_kernel.frames.load import Load

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds of the detectors."""

    drop: float = 0.20  # silent_drop: context falls by more
    divergence: float = 0.25  # pre_divergence: the harness's count is off by more
    spiral: int = 5  # calls between boundaries, fewer
    thrash: int = 2  # prefix_change in a row
    refills: int = 3  # boundaries within `refill_turns` turns
    refill_turns: int = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: what, in which session, where, dollars (None when unknown), evidence ids."""

    code: str
    session_id: str
    where: str
    usd: float | None
    evidence: tuple[str, ...]


def findings(load: Load, limits: Limits | None = None) -> list[Finding]:
    """Return the findings of a load, dearest first."""
    given = limits or Limits()
    calls = _main_calls(load)
    boundaries: dict[str, list[Row]] = defaultdict(list)
    for row in load.once(rows_of):
        if row["kind"] != "micro" and row["status"] == "committed":
            boundaries[row["session_id"]].append(row)
    found: list[Finding] = []
    for session in load.assembled.sessions:
        mine, compactions = calls.get(session, []), boundaries.get(session, [])
        found += _silent_drops(session, mine, given)
        found += _thrash(session, mine, compactions, given)
        found += _compactions(session, compactions, given)
        found += _rewrites(session, mine)
    found += _reinjected(load)
    return sorted(found, key=lambda one: -(one.usd or 0.0))


def _main_calls(load: Load) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in load.rows("calls"):
        if row["agent_kind"] == "main" and not row["rewound"] and row["context"]:
            found[row["session_id"]].append(row)
    return found


def _silent_drops(session: str, calls: list[Row], limits: Limits) -> Iterator[Finding]:
    for a, b in pairwise(calls):
        switched = a["model"] != b["model"] or a["epoch"] != b["epoch"]
        if not switched and b["context"] < a["context"] * (1 - limits.drop):
            place = f"context {a['context']} -> {b['context']} without a boundary"
            yield Finding("silent_drop", session, place, b["rewrite_usd"], (b["call_id"],))


def _thrash(
    session: str, calls: list[Row], compactions: list[Row], limits: Limits
) -> Iterator[Finding]:
    run: list[Row] = []
    for call in [*calls, None]:
        if call is not None and call["cache_event"] == "prefix_change":
            run.append(call)
            continue
        if len(run) >= limits.thrash:
            usd = sum(one["rewrite_usd"] or 0.0 for one in run)
            ids = tuple(one["call_id"] for one in run)
            yield Finding("thrash", session, f"{len(run)} prefix changes in a row", usd, ids)
        run = []
    turns = {row["compaction_id"]: _turn(row, calls) for row in compactions}
    for first, last in zip(compactions, compactions[limits.refills - 1 :], strict=False):
        a, b = turns[first["compaction_id"]], turns[last["compaction_id"]]
        if a is not None and b is not None and b - a < limits.refill_turns:
            ids = (first["compaction_id"], last["compaction_id"])
            where = f"{limits.refills} refills within turns {a} to {b}"
            yield Finding("thrash", session, where, None, ids)


def _turn(row: Row, calls: list[Row]) -> int | None:
    later = [call["turn"] for call in calls if call["epoch"] >= row["epoch"]]
    return later[0] if later else None


def _compactions(session: str, rows: list[Row], limits: Limits) -> Iterator[Finding]:
    for number, row in enumerate(rows):
        ids, pre, post = (row["compaction_id"],), row["pre_wire"], row["post_wire"]
        usd = None if row["call_usd"] is None else row["call_usd"] + (row["rewrite_usd"] or 0.0)
        if number + 1 < len(rows) and row["requests_after"] < limits.spiral:
            where = f"{row['requests_after']} calls until the next compaction"
            yield Finding("spiral", session, where, usd, ids)
        if pre is not None and post is not None and post > pre:
            yield Finding("net_negative", session, f"context {pre} -> {post}", usd, ids)
        meta = row["pre_meta"]
        if meta is not None and pre and abs(meta / pre - 1) > limits.divergence:
            where = f"the harness counted {meta}, the wire {pre}"
            yield Finding("pre_divergence", session, where, None, ids)
        if row["call_cache"] == "cold":
            yield Finding("cold_summary", session, "the summary call read no cache", usd, ids)


def _rewrites(session: str, calls: list[Row]) -> Iterator[Finding]:
    """Caches that ran out while a person was away, and prefixes that changed, over 20K tokens."""
    texts = {"expired": "pauses beyond the cache's life", "prefix_change": "changed prefixes"}
    for event, text in texts.items():
        dear = [c for c in calls if c["cache_event"] == event and c["rewritten"] > 20_000]
        if dear:
            usd = sum(one["rewrite_usd"] or 0.0 for one in dear)
            ids = tuple(one["call_id"] for one in dear)
            yield Finding(f"cache_{event}", session, f"{len(dear)} {text}", usd, ids)


def _reinjected(load: Load) -> Iterator[Finding]:
    """The same attachment text attached again in the same epoch."""
    seen: set[tuple[str, str, int]] = set()
    for block in load.rows("blocks"):
        if block["kind"] != "attachment" or not block["sha"] or not block["chars"]:
            continue
        key = (block["session_id"], block["sha"], block["epoch_in"])
        if key in seen:
            where = f"{block['tokens']} tokens attached again"
            record = (str(block["record_id"]),)
            yield Finding("reinjected_duplicate", block["session_id"], where, None, record)
        seen.add(key)


def table(load: Load, **limits: Any) -> list[Row]:
    """Return the findings as rows; thresholds are keyword arguments."""
    return [asdict(one) for one in findings(load, Limits(**limits))]
