"""Avoidable: costs a person could have saved, by cause, with the sessions and what to change.

May not add causes up: one dollar may have two causes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.frames.compactions import rows_of
from agent_kernel.frames.lanes import lanes
from agent_kernel.frames.load import Load

Row = dict[str, Any]
LARGE = 4_000  # tokens of one tool result; what is beyond could have stayed in the file
PAUSE = 20_000  # tokens written again that make a pause or a changed prefix worth naming


@dataclass(slots=True)
class Cost:
    """One cause: dollars, how often, the dollars by session, and what to change."""

    code: str
    cause: str
    change: str
    usd: float = 0.0
    count: int = 0
    sessions: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, session: str, usd: float) -> None:
        """Add one occurrence."""
        self.usd += usd
        self.count += 1
        self.sessions[session] += usd

    def dearest(self, count: int) -> list[tuple[str, float]]:
        """Return the sessions it cost most in, with their dollars."""
        return sorted(self.sessions.items(), key=lambda one: -one[1])[:count]

    def where(self, names: str) -> str:
        """Return how often and in how many sessions, in words; `names` are the dearest ones."""
        times = "once" if self.count == 1 else f"{self.count:,} times"
        if len(self.sessions) == 1:
            return f"{times}, in session {names}"
        return f"{times} in {len(self.sessions)} sessions, most in {names}"

    def row(self, sessions: int = 5) -> Row:
        """Return the cost as plain values, with its dearest sessions."""
        top = [{"session_id": name, "usd": usd} for name, usd in self.dearest(sessions)]
        return {
            "code": self.code,
            "usd": self.usd,
            "count": self.count,
            "cause": self.cause,
            "change": self.change,
            "sessions": top,
            "of_sessions": len(self.sessions),
        }


def costs(load: Load) -> list[Cost]:
    """Return the avoidable costs of a load, dearest first, without those that cost nothing."""
    found = [make(load) for make in _CAUSES]
    return sorted((cost for cost in found if cost.usd > 0), key=lambda cost: -cost.usd)


def _rewritten(event: str, cause: str, change: str) -> Callable[[Load], Cost]:
    def make(load: Load) -> Cost:
        cost = Cost(f"cache_{event}", cause, change)
        for row in load.rows("calls"):
            if row["cache_event"] == event and row["rewritten"] > PAUSE and row["rewrite_usd"]:
                cost.add(row["session_id"], row["rewrite_usd"])
        return cost

    return make


def _rewound(load: Load) -> Cost:
    cost = Cost(
        "rewound",
        "calls on branches that were rewound",
        "rewind early, or fork before a risky step instead of rewinding after it",
    )
    for row in load.rows("calls"):
        if row["rewound"] and row["usd_recorded"]:
            cost.add(row["session_id"], row["usd_recorded"])
    return cost


def _large_results(load: Load) -> Cost:
    cost = Cost(
        "large_results",
        f"tool results beyond {LARGE:,} tokens, carried by every later call",
        "read ranges instead of whole files, limit command output, compact after exploring",
    )
    for lane in load.once(lanes):
        for item in lane.items:
            if item.source == "tool_results" and item.tokens > LARGE and item.later_usd > 0:
                cost.add(lane.session, item.later_usd * (1 - LARGE / item.tokens))
    return cost


def _read_twice(load: Load) -> Cost:
    cost = Cost(
        "read_twice",
        "files read again unchanged while the first reading was still in the context",
        "tell the agent what it has read; keep one file per question",
    )
    changed: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str, str], Row] = {}
    for row in load.rows("tools"):
        if not row["path"]:
            continue
        place = (row["session_id"], row["path"])
        name = (row["name"] or "").lower()
        if name != "read":
            if "grep" not in name and "glob" not in name:
                changed[place] = changed.get(place, 0) + 1
            continue
        key = (*place, f"{row['agent_id']} {row['input']} {changed.get(place, 0)}")
        before = last.get(key)
        if before is not None and row["carry_usd"] and not before["dropped_by"]:
            cost.add(row["session_id"], row["carry_usd"])
        last[key] = row
    return cost


def _cold_summaries(load: Load) -> Cost:
    cost = Cost(
        "cold_summary",
        "compactions whose summary call found no cache",
        "compact before a pause, not after it",
    )
    for row in load.once(rows_of):
        if row["call_cache"] == "cold" and row["call_usd"]:
            cost.add(row["session_id"], row["call_usd"])
    return cost


_CAUSES: tuple[Callable[[Load], Cost], ...] = (
    _rewritten(
        "expired",
        "the prompt cache ran out while nobody answered, and the context was written again",
        "answer within the cache's life, use the 1-hour cache, or compact before leaving",
    ),
    _rewritten(
        "prefix_change",
        "something early in the request changed, and the context was written again",
        "keep tools, MCP servers, system text and memory files fixed during a session",
    ),
    _rewritten(
        "model_switch",
        "the model was switched in the middle of a session",
        "switch models between sessions, or hand a task to a sub-agent",
    ),
    _large_results,
    _read_twice,
    _rewound,
    _cold_summaries,
)


def lines(found: list[Cost], total: float | None, top: int = 3) -> list[str]:
    """Return the dearest causes as sentences: dollars, share, sessions, cause, what to change."""
    out = []
    for number, cost in enumerate(found[:top], 1):
        share = f" ({cost.usd / total:.0%} of the total)" if total else ""
        names = ", ".join(name[:8] for name, _ in cost.dearest(3))
        out.append(
            f"{number}. ${cost.usd:,.2f}{share}: {cost.cause}, {cost.where(names)}. "
            f"To change: {cost.change}."
        )
    return out
