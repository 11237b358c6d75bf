"""The walk, bounded: the long run (tests/long/compaction.py) goes on from here."""

from __future__ import annotations

import pytest

from tests.compaction.walk import Walk

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_broken_by_a_random_walk(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(80):
        walk.step()
        assert walk.violations == []


def test_walks_reach_every_outcome() -> None:
    counts: dict[str, int] = {}
    for seed in SEEDS:
        walk = Walk(seed)
        for _ in range(80):
            walk.step()
        for name, count in walk.counts.items():
            counts[name] = counts.get(name, 0) + count
    assert set(counts) == {"asked", "committed", "failed", "skipped", "undone"}, counts
