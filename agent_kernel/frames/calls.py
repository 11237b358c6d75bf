"""Calls: the table of API calls with context, cache events and dollars.

May not count a call twice, nor let an estimate into recorded dollars.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agent_kernel.frames.ledger import Call
from agent_kernel.frames.load import Load, Placed
from agent_kernel.frames.pricing import parts
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows

HIT_SLACK, HIT_SHARE = 2_000, 0.05
TTL_5M, TTL_1H = 5 * 60_000, 60 * 60_000


@dataclass(slots=True)
class Cache:
    """What a call did to the prompt cache; `rewritten` in tokens, `usd` more than a read costs."""

    event: str
    rewritten: int = 0
    usd: float | None = 0.0
    delta: int | None = None


def build(load: Load) -> Columns:
    """Return one row a call, by session and order."""
    steps = _steps(load.calls)
    cache = caches(load)
    return of_rows(
        "calls", (_row(one, steps[one.call.key], cache[one.call.key]) for one in load.calls)
    )


def _steps(calls: Iterable[Placed]) -> dict[str, int]:
    """Number the calls of an agent within a turn, from 1; what a log states wins."""
    numbers: dict[tuple[Any, ...], int] = defaultdict(int)
    steps: dict[str, int] = {}
    for one in calls:
        key = (one.session, one.agent, one.rec.turn)
        numbers[key] += 1
        said = one.call.row["step"]
        steps[one.call.key] = numbers[key] if said is None else said
    return steps


def caches(load: Load) -> dict[str, Cache]:
    """Return what every call did to the cache, by call key; each agent of a session apart."""
    found: dict[str, Cache] = {}
    last: dict[tuple[str, str, str], Placed] = {}
    for one in sorted(load.calls, key=_when):
        key = (one.session, one.agent, "side" if one.kind in ("acompact", "compaction") else "")
        before = last.get(key)
        found[one.call.key] = _event(load, before, one)
        if one.call.context:
            last[key] = one
    return found


def _when(one: Placed) -> tuple[Any, ...]:
    return (one.session, one.agent, one.rec.seq or 0, one.call.time_first or 0)


def _event(load: Load, before: Placed | None, after: Placed) -> Cache:
    if before is None:
        return Cache("cold")
    a, b = before.call, after.call
    expected = a.cache_read + a.cache_write_5m + a.cache_write_1h
    # what was expected and not read was written again, if it was still there at all
    rewritten = min(max(0, expected - b.cache_read), b.cache_write_5m + b.cache_write_1h)
    usd = _rewrite_usd(load, b, rewritten)
    return Cache(_name(before, after, expected), rewritten, usd, b.context - a.context)


def _name(before: Placed, after: Placed, expected: int) -> str:
    a, b = before.call, after.call
    if before.rec.epoch != after.rec.epoch:
        return "compaction"
    if a.row["model"] != b.row["model"]:
        return "model_switch"
    if b.cache_read >= expected - max(HIT_SLACK, HIT_SHARE * expected):
        return "hit"
    if a.time_first is not None and b.time_first is not None:
        ttl = TTL_1H if a.cache_write_1h else TTL_5M
        if b.time_first - a.time_first > ttl:
            return "expired"
    return "prefix_change"


def _rewrite_usd(load: Load, call: Call, tokens: int) -> float | None:
    if not tokens:
        return 0.0
    if call.price_id is None:
        return None
    rates = load.priced.book.rates_of(call.price_id)
    write = rates.cache_write_1h if call.cache_write_1h else rates.cache_write_5m
    if write is None or rates.cache_read is None:
        return None
    return tokens * (write - rates.cache_read) / 1e6


def _row(one: Placed, step: int, cache: Cache) -> dict[str, Any]:
    call, row = one.call, one.call.row
    return {
        "session_id": one.session,
        "call_id": call.key,
        "request_id": row["request_id"],
        "agent_id": one.agent,
        "agent_kind": one.kind,
        "turn": one.rec.turn,
        "step": step,
        "epoch": one.rec.epoch,
        "model": row["model"],
        "provider": row["provider"],
        "time_first": call.time_first,
        "time_last": call.time_last,
        "ttft": row["ttft"],
        "seconds": row["seconds"],
        "lines": call.lines,
        "files": len(call.files),
        "nested": call.nested,
        "write_split": call.split,
        "context": call.context,
        "delta": cache.delta,
        "stop_reason": call.stop,
        "status": row["status"],
        "rewound": one.rec.chain == "rewound",
        "web_searches": call.searches,
        "speed": row["speed"],
        "service_tier": row["tier"],
        "geo": row["geo"],
        "cache_event": cache.event,
        "rewritten": cache.rewritten,
        "rewrite_usd": cache.usd,
        "record_id": one.rec.id,
        **_tokens(call),
        **_dollars(call),
    }


def _tokens(call: Call) -> dict[str, Any]:
    return {
        "input": call.input,
        "output_recorded": call.output,
        "output_est": call.output_est,
        "output_low": call.output_low,
        "output_high": call.output_high,
        "output_quality": call.quality,
        "thinking_tokens": call.thinking,
        "cache_write_5m": call.cache_write_5m,
        "cache_write_1h": call.cache_write_1h,
        "cache_read": call.cache_read,
    }


def _dollars(call: Call) -> dict[str, Any]:
    return {
        "price_id": call.price_id,
        **{f"usd_{name}": value for name, value in parts(call).items()},
        "usd_recorded": call.usd_recorded,
        "usd_best": call.usd_best,
        "usd_source": call.row["usd"],
    }
