"""Bootstrap: intervals for pooled rates, by drawing whole sessions.

May not treat boundaries of one session as independent.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RESAMPLES, SEED = 1_000, 0


@dataclass(frozen=True, slots=True)
class Rate:
    """A pooled rate with its 95 % interval; `hits` of `n`, in so many sessions."""

    hits: float
    n: float
    sessions: int
    low: float | None
    high: float | None

    @property
    def value(self) -> float | None:
        """Return hits / n, None when n is 0."""
        return self.hits / self.n if self.n else None

    def wire(self) -> dict[str, float | int | None]:
        """Return the rate as JSON, rounded to four places."""
        return {
            "value": _round(self.value),
            "low": _round(self.low),
            "high": _round(self.high),
            "n": _round(self.n),
            "sessions": self.sessions,
        }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def pooled(
    rows: Iterable[tuple[str, float, float]], resamples: int = RESAMPLES, seed: int = SEED
) -> Rate:
    """Return the pooled rate of rows (session, hits, n): sum of hits / sum of n."""
    by_session: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for session, hits, n in rows:
        by_session[session][0] += hits
        by_session[session][1] += n
    groups = [tuple(by_session[name]) for name in sorted(by_session) if by_session[name][1]]
    hits, whole = sum(g[0] for g in groups), sum(g[1] for g in groups)
    low, high = _interval(groups, resamples, seed)
    return Rate(hits, whole, len(groups), low, high)


def _interval(
    groups: Sequence[tuple[float, ...]], resamples: int, seed: int
) -> tuple[float | None, float | None]:
    if len(groups) < 2 or not resamples:
        return None, None
    chance = random.Random(seed)
    found = []
    for _ in range(resamples):
        drawn = chance.choices(groups, k=len(groups))
        whole = sum(g[1] for g in drawn)
        if whole:
            found.append(sum(g[0] for g in drawn) / whole)
    found.sort()
    return found[int(0.025 * len(found))], found[min(len(found) - 1, int(0.975 * len(found)))]


def mean(rows: Iterable[tuple[str, float]], resamples: int = RESAMPLES, seed: int = SEED) -> Rate:
    """Return the mean of values by session, as a rate of value / 1."""
    return pooled(((session, value, 1.0) for session, value in rows), resamples, seed)


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which `share` of the values lie, None when there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
