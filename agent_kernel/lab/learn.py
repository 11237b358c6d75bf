"""Learn: weights for the ledger's ranking, chosen on some sessions and measured on the others.

May not measure weights on a session they were chosen on, nor part a session from its copies.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_kernel.lab.given import Given
from agent_kernel.lab.recall import Case, Found, measure

FOLDS, SEED, TRIALS = 5, 0, 150
SPREAD: Mapping[str, float] = {  # of each weight's factor, as a standard deviation of its logarithm
    "path": 0.4, "hash": 0.5, "user": 0.5, "input": 0.3, "assistant": 0.5, "summary": 0.6,
    "result": 0.6, "floor": 0.7, "life": 0.6, "size": 0.35, "read": 0.5, "write": 0.5,
    "changed": 0.4,
}  # fmt: skip

Rank = Callable[[Sequence[Any], int], Sequence[float]]
Text = Callable[[Case, Rank], str]


@dataclass(frozen=True)
class Learnt:
    """What was chosen on all sessions, and what choices on four fifths found in the last fifth."""

    weights: Mapping[str, float]
    held_out: tuple[Found, ...]  # one a case, by the weights of the folds it was not in
    inside: float  # recall on the sessions the shipped weights were chosen on
    trials: int


def folds(groups: Sequence[str], count: int = FOLDS, seed: int = SEED) -> dict[str, int]:
    """Return the fold of each group, by a fixed shuffle."""
    names = sorted(set(groups))
    random.Random(seed).shuffle(names)
    return {name: at % count for at, name in enumerate(names)}


def drawn(start: Mapping[str, float], trials: int, seed: int = SEED) -> list[dict[str, float]]:
    """Return the starting weights, and `trials` - 1 draws around them."""
    chance = random.Random(seed)
    out = [dict(start)]
    while len(out) < trials:
        width = chance.choice((0.3, 0.6, 1.0))
        out.append(
            {
                name: value * math.exp(chance.gauss(0.0, width * SPREAD.get(name, 0.0)))
                for name, value in start.items()
            }
        )
    return out


def learn(
    cases: Sequence[Case],
    text: Text,
    ranking: Callable[[Mapping[str, float]], Rank],
    start: Mapping[str, float],
    given: Given,
    rare: set[tuple[str, str]],
    trials: int = TRIALS,
) -> Learnt:
    """Return weights chosen by recall, and what the same way of choosing finds held out."""
    every = drawn(start, trials)

    def under(weights: Mapping[str, float], at: Sequence[int]) -> dict[int, Found]:
        rank = ranking(weights)
        return {i: measure(cases[i], text(cases[i], rank), given, rare) for i in at}

    whole = list(range(len(cases)))
    found = [under(weights, whole) for weights in every]
    fold = folds([case.group for case in cases])
    kept: dict[int, Found] = {}
    for number in range(FOLDS):
        inside = [at for at in whole if fold[cases[at].group] != number]
        outside = [at for at in whole if fold[cases[at].group] == number]
        kept |= under(_middle(every, found, inside), outside)
    chosen = _middle(every, found, whole)
    made = under(chosen, whole)
    held = tuple(kept[at] for at in whole)
    wanted = sum(sum(one.wanted.values()) for one in made.values())
    return Learnt(chosen, held, _hits(made, whole) / max(1, wanted), trials)


def _middle(
    every: Sequence[Mapping[str, float]],
    found: Sequence[Mapping[int, Found]],
    inside: Sequence[int],
) -> dict[str, float]:
    """Return the geometric mean of the best tenth of the draws on the cases `inside`.

    One draw alone would be the luckiest; the start is among the draws.
    """
    order = sorted(range(len(every)), key=lambda at: (-_hits(found[at], inside), at))
    best = [every[at] for at in order[: max(1, len(every) // 10)]]
    return {
        name: math.exp(sum(math.log(one[name]) for one in best) / len(best)) if value else 0.0
        for name, value in every[0].items()
    }


def _hits(found: Mapping[int, Found], inside: Sequence[int]) -> float:
    return float(sum(sum(found[at].hits.values()) for at in inside))
