"""Trajectory: how a session's context grew request by request, what each cost, what was cached.

May not decide what to hide: policies replay these steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_kernel.core.events import Attachment, SurfaceEvent, ToolResultEvent
from agent_kernel.core.usage import event_tokens
from agent_kernel.lab.given import Columns
from agent_kernel.lab.histories import Asked, History

HOUR, SHORT = 3_600.0, 300.0  # seconds a cached prefix lives, by how it was written


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars a token."""

    input: float
    output: float
    write_5m: float
    write_1h: float
    read: float

    def write(self, hour: float) -> float:
        """Return the price of a write of which the share `hour` is kept an hour."""
        return self.write_5m * (1 - hour) + self.write_1h * hour


DEFAULT = Rates(5e-6, 25e-6, 6.25e-6, 10e-6, 0.5e-6)


@dataclass(frozen=True, slots=True)
class Step:
    """One request: `other` tokens joined before it, then `results`, each one tool result.

    `context` and `output` as recorded; `cold` = what was cached before has expired; `hour` = the
    share of its writes kept an hour; `since` .. `at` are the positions of its new events.
    """

    context: int
    other: int
    results: tuple[int, ...]
    output: int
    cold: bool
    hour: float
    boundary: bool
    model: int
    since: int
    at: int
    recorded: float
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A session's steps, its rates by model number, and dollars as recorded."""

    session: str
    steps: tuple[Step, ...]
    rates: tuple[Rates, ...]
    prefix: int  # tokens of the system text and tools: what a replacement of history still reads

    @property
    def recorded(self) -> float:
        """Return the dollars the log's own token counts cost."""
        return sum(step.recorded for step in self.steps)


def price_table(prices: Columns) -> dict[str, Rates]:
    """Return the rates of a load by price id, in dollars a token."""
    out = {}
    columns = [
        prices[n]
        for n in ("price_id", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
    ]
    for name, *rates in zip(*columns, strict=True):
        given = [1e-6 * float(rate or 0.0) for rate in rates]
        out[str(name)] = Rates(*given)
    return out


def trajectory(
    history: History, table: Mapping[str, Rates], ttl: float | None = None
) -> Trajectory:
    """Return the trajectory of a session; `ttl` (seconds) overrides what the log says of writes."""
    asked = history.requests
    names = sorted({one.price_id for one in asked})
    rates = tuple(table.get(name, DEFAULT) for name in names)
    sizes = [event_tokens(event) for event in history.events]
    hour_share = _hour_share(asked)
    steps: list[Step] = []
    since = 0
    for number, one in enumerate(asked):
        before = asked[number - 1] if number else None
        at = max(since, one.at if one.at is not None else since)
        writes = one.write_5m + one.write_1h
        other, results = _grown(history.events, sizes, since, at, _recorded(one, before))
        steps.append(
            Step(
                context=one.context,
                other=other,
                results=results,
                output=one.output,
                cold=_cold(one, before, ttl),
                hour=one.write_1h / writes if writes else hour_share,
                boundary=before is not None and one.epoch != before.epoch,
                model=names.index(one.price_id),
                since=since,
                at=at,
                recorded=one.usd or 0.0,
                read=one.read,
                written=writes,
            )
        )
        since = at
    return Trajectory(history.session, tuple(steps), rates, _prefix(asked))


def _recorded(one: Asked, before: Asked | None) -> int | None:
    """Return by how much the context grew, None where only an estimate is known."""
    if before is None:
        return one.context
    grown = one.context - before.context
    return None if one.epoch != before.epoch or grown < 0 else grown


def _grown(
    events: Sequence[SurfaceEvent], sizes: Sequence[int], since: int, at: int, grown: int | None
) -> tuple[int, tuple[int, ...]]:
    """Return the tokens that joined between two answers: other ones, and each result's.

    What was recorded is shared out by estimated size. Across a compaction, and where the context
    fell, the estimate of what was said anew counts: a summary is not new.
    """
    results, other = [], 0
    for place in range(since, at):
        event = events[place]
        if isinstance(event, ToolResultEvent):
            results.append(sizes[place])
        elif not (isinstance(event, Attachment) and event.kind == "summary"):
            other += sizes[place]
    whole = other + sum(results)
    if grown is None:
        return other, tuple(results)
    if not whole:
        return grown, ()
    shared = tuple(round(size * grown / whole) for size in results)
    return grown - sum(shared), shared


def _hour_share(asked: Sequence[Asked]) -> float:
    whole = sum(a.write_5m + a.write_1h for a in asked)
    return sum(a.write_1h for a in asked) / whole if whole else 0.0


def _cold(one: Asked, before: Asked | None, ttl: float | None) -> bool:
    if before is None or one.model != before.model:
        return True
    life = ttl if ttl is not None else (HOUR if before.write_1h else SHORT)
    return one.time - before.time > life


def _prefix(asked: Sequence[Asked]) -> int:
    """Return the tokens of system text and tools: what other sessions had in the cache already."""
    seen = [one.read for one in asked if one.cache_event in ("cold", "expired", "compaction")]
    warm = sorted(read for read in seen if read)
    return warm[len(warm) // 2] if warm else 0
