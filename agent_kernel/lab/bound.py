"""Bound: the least any timing of clearing all but the newest k results could have cost.

May not see more than the trajectory; it bounds this one family of rules, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_kernel.lab.simulate import MARK
from agent_kernel.lab.trajectory import Trajectory


@dataclass(frozen=True)
class Bound:
    """The least cost of a session in dollars, and before which requests it clears."""

    session: str
    usd: float
    edits: tuple[int, ...]
    capped: bool  # False where no timing keeps the context under the cap


def bound(made: Trajectory, keep: int = 5, cap: int | None = None) -> Bound:
    """Return the exact minimum over all times of clearing, by dynamic programming, O(n²).

    State: (request i, cut c): results before step c are cleared. At i either c stays, or it moves
    to all but the newest `keep`. States over `cap` tokens go, unless none is left.
    """
    table = _Table(made, keep)
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    capped = True
    for at in range(len(made.steps)):
        limit = table.limits[at]
        found: dict[int, tuple[float, tuple[int, ...]]] = {}
        for cut, (usd, edits) in best.items():
            price = usd + table.price(at, cut, cut)
            _keep(found, cut, price, edits)
            if limit > cut and table.freed(cut, limit):
                _keep(found, limit, usd + table.price(at, cut, limit), (*edits, at))
        under = {c: v for c, v in found.items() if cap is None or table.length(at, c) <= cap}
        capped = capped and bool(under)
        best = under or found
    usd, edits = min(best.values(), key=lambda one: one[0])
    return Bound(made.session, usd, edits, capped)


def _keep(
    found: dict[int, tuple[float, tuple[int, ...]]], cut: int, usd: float, edits: tuple[int, ...]
) -> None:
    if cut not in found or usd < found[cut][0]:
        found[cut] = (usd, edits)


class _Table:
    """Sums over a trajectory, so that the length for any cut is one subtraction."""

    def __init__(self, made: Trajectory, keep: int) -> None:
        self.made = made
        self.full, self.bare = [0], [0]
        self.limits: list[int] = []
        counts = [len(step.results) for step in made.steps]
        for step in made.steps:
            self.full.append(self.full[-1] + step.other + sum(step.results))
            self.bare.append(self.bare[-1] + step.other + sum(min(r, MARK) for r in step.results))
        for at in range(len(counts)):
            left, limit = keep, at + 1
            while limit > 0 and left > 0:
                limit -= 1
                left -= counts[limit]
            self.limits.append(limit if left <= 0 else 0)

    def length(self, at: int, cut: int) -> int:
        """Return the tokens of request `at` when results before step `cut` are cleared."""
        return self.bare[cut] + self.full[at + 1] - self.full[cut]

    def freed(self, cut: int, limit: int) -> int:
        """Return what moving the cut to `limit` frees."""
        return (self.full[limit] - self.full[cut]) - (self.bare[limit] - self.bare[cut])

    def offset(self, cut: int, limit: int) -> int:
        """Return the tokens before the first result that is newly cleared."""
        at = next(
            (a for a in range(cut, limit) if max(self.made.steps[a].results, default=0) > MARK),
            limit,
        )
        before = self.bare[cut] + self.full[at] - self.full[cut]
        return before + (self.made.steps[at].other if at < limit else 0)

    def price(self, at: int, cut: int, limit: int) -> float:
        """Return the dollars of request `at` when the cut moves from `cut` to `limit` before it."""
        step = self.made.steps[at]
        rates = self.made.rates[step.model]
        whole = self.length(at, limit)
        read = 0
        if not step.cold and at:
            read = self.length(at - 1, cut)
            if limit > cut:
                read = min(read, self.offset(cut, limit))
        usd = read * rates.read + (whole - read) * rates.write(step.hour)
        return usd + step.output * rates.output
