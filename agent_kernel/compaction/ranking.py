"""Ranking: how likely each fact of a history is to be needed again, for the room it takes.

May not look at anything but where and by whom a fact was said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.compaction.facts import Fact
from agent_kernel.compaction.nodes import READ, WRITE


@dataclass(frozen=True)
class Weights:
    """The numbers of the ranking: by kind, by who said it, by age and by size.

    A mention `age` blocks before the end counts its role's weight x (floor + e^(-age / life)), an
    input of a reading or writing tool `read` or `write` times that; the sum is multiplied by the
    kind's weight, by `changed` for a file that was edited, and divided by size^`size`, where
    size = characters as listed.
    """

    path: float = 3.0
    identifier: float = 1.0
    hash: float = 0.8
    url: float = 0.5
    number: float = 0.25
    user: float = 4.0
    input: float = 3.0
    assistant: float = 1.5
    summary: float = 1.5
    result: float = 0.35
    thinking: float = 0.0
    floor: float = 0.15
    life: float = 60.0
    size: float = 0.5
    read: float = 1.0
    write: float = 1.0
    changed: float = 1.0
    listed: bool = True  # a path's size is that of its last two parts: what stands in the ledger


UNTUNED = Weights(listed=False)  # compaction.md §5.1
# Numbers and addresses say little without their place: they are recalled, not listed.
START = Weights(path=2.0, number=0.0, url=0.0, size=1.0)
# Set by hand; what lab/learn.py draws around them was not better held out (docs/compaction.md).
SHIPPED = START


def ranking(weights: Weights, facts: Sequence[Fact], end: int) -> list[float]:
    """Return one score a fact under some weights; `end` is the number of the last block."""
    kinds = {name: getattr(weights, name) for name in ("path", "identifier", "hash", "url")}
    kinds["number"] = weights.number
    return [kinds[fact.kind] * _said(weights, fact, end) / _size(weights, fact) for fact in facts]


def _said(weights: Weights, fact: Fact, end: int) -> float:
    total = 0.0
    for m in fact.places:
        one: float = getattr(weights, m.role) * (
            weights.floor + math.exp((m.block - end) / weights.life)
        )
        if m.tool in READ:
            one *= weights.read
        elif m.tool in WRITE:
            one *= weights.write
        total += one
    return total * weights.changed if fact.changed else total


def _size(weights: Weights, fact: Fact) -> float:
    shown = fact.value
    if weights.listed and fact.kind == "path":
        shown = "/".join(shown.split("/")[-2:])
    return float(max(len(shown), 6) ** weights.size)


def untuned(facts: Sequence[Fact], end: int) -> list[float]:
    """Return one score a fact by the weights nothing was learnt for."""
    return ranking(UNTUNED, facts, end)


def ranks(facts: Sequence[Fact], end: int) -> list[float]:
    """Return one score a fact; higher is listed first."""
    return ranking(SHIPPED, facts, end)
