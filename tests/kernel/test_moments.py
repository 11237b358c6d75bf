"""Moments: an interrupt at any moment of a busy turn leaves an idle kernel and a whole log."""

from __future__ import annotations

import pytest

from tests.long import interrupts

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


@pytest.mark.timeout(300)
def test_thirty_interrupts_at_random_moments_end_the_turn_and_break_no_log() -> None:
    counts = interrupts.run(seed=7, steps=30)
    print(counts)
    assert counts["steps"] == 30
    assert counts["violations"] == 0
