"""Ranking: how likely each fact of a history is to be needed again.

May not look at anything but where and by whom a fact was said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent_kernel.compaction.facts import Fact

# Measured untuned (compaction.md §5.1).
KIND = {"path": 3.0, "identifier": 1.0, "hash": 0.8, "url": 0.5, "number": 0.25}
ROLE = {
    "user": 4.0,
    "input": 3.0,
    "assistant": 1.5,
    "summary": 1.5,
    "result": 0.35,
    "thinking": 0.0,
}
FLOOR, LIFE = 0.15, 60.0  # of a mention's weight: what never decays, and blocks until 1/e


def untuned(fact: Fact, end: int) -> float:
    """Return the score of one fact; `end` is the number of the history's last block."""
    total = sum(ROLE[m.role] * (FLOOR + math.exp((m.block - end) / LIFE)) for m in fact.places)
    return KIND[fact.kind] * total / math.sqrt(max(len(fact.value), 6))


def ranks(facts: Sequence[Fact], end: int) -> list[float]:
    """Return one score a fact; higher is listed first."""
    return [untuned(fact, end) for fact in facts]
