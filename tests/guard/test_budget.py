"""Budgets: hard stops, shrinking requests, notices and the fifth equal call."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.guard.budget import (
    NOTEBOOK,
    TURN,
    Budget,
    Price,
    Scopes,
    Spent,
    Stop,
    check_call,
    check_request,
    must_ask,
    notices,
)

PRICE = Price(input=3.0, output=15.0)


def turn(budget: Budget, spent: Spent) -> Scopes:
    return {"turn": (budget, spent)}


def test_the_defaults_are_the_documented_ones() -> None:
    assert Budget(2_000_000, None, 1_800, 200, 50) == TURN
    assert Budget() == NOTEBOOK


def test_a_request_shrinks_to_what_is_left_and_stops_below_256() -> None:
    budget = Budget(tokens=10_000)
    assert check_request(turn(budget, Spent()), estimate=1_000, max_tokens=4_000) == 4_000
    spent = Spent(tokens=7_000)
    assert check_request(turn(budget, spent), estimate=1_000, max_tokens=4_000) == 2_000
    stop = check_request(turn(budget, Spent(tokens=8_800)), estimate=1_000, max_tokens=4_000)
    assert stop == Stop("tokens", 10_000, 8_800, "turn")
    assert stop.reason == "budget"
    assert stop.detail() == {"limit": "tokens", "allowed": 10_000, "used": 8_800, "scope": "turn"}
    assert check_request(turn(budget, Spent()), estimate=0, max_tokens=100) == 100


def test_dollars_shrink_a_request_by_the_price_of_output() -> None:
    budget = Budget(dollars=0.05)
    left = check_request(turn(budget, Spent()), estimate=10_000, max_tokens=9_000, price=PRICE)
    assert left == 1_333  # 0.05 - 0.03 dollars at 15 dollars a million
    spent = Spent(dollars=0.02)
    stop = check_request(turn(budget, spent), estimate=10_000, max_tokens=9_000, price=PRICE)
    assert stop == Stop("dollars", 0.05, 0.02, "turn")


def test_dollars_without_a_price_never_start() -> None:
    with pytest.raises(ValueError, match="price"):
        check_request(turn(Budget(dollars=1), Spent()), estimate=1, max_tokens=1_000)
    unknown = Spent(dollars=None)
    with pytest.raises(ValueError, match="price"):
        check_request(turn(Budget(dollars=1), unknown), estimate=1, max_tokens=1_000, price=PRICE)


def test_the_session_stops_a_turn_that_has_room() -> None:
    scopes: Scopes = {
        "turn": (TURN, Spent()),
        "notebook": (Budget(seconds=10), Spent(seconds=10)),
    }
    stop = Stop("seconds", 10, 10, "notebook")
    assert check_request(scopes, estimate=1, max_tokens=1_000) == stop
    assert check_call(scopes) == stop


def test_steps_stop_with_a_reason_of_their_own() -> None:
    stop = check_request(turn(TURN, Spent(steps=50)), estimate=1, max_tokens=1_000)
    assert isinstance(stop, Stop)
    assert stop.reason == "max_steps"


def test_a_call_is_stopped_by_its_own_limit() -> None:
    assert check_call(turn(TURN, Spent(tool_calls=199))) is None
    assert check_call(turn(TURN, Spent(tool_calls=200))) == Stop("tool_calls", 200, 200, "turn")
    assert check_call(turn(NOTEBOOK, Spent(tool_calls=10**6))) is None


def test_a_notice_comes_at_four_fifths() -> None:
    assert notices(TURN, Spent(tokens=1_599_999, steps=39)) == []
    assert notices(TURN, Spent(tokens=1_600_000, steps=40)) == ["tokens", "steps"]
    assert notices(Budget(dollars=1), Spent(dollars=None)) == []


def test_the_fifth_equal_call_asks() -> None:
    assert not must_ask(["a", "b", "a", "a"], "a")
    assert must_ask(["a", "b", "a", "a", "a"], "a")
    assert not must_ask([], "a")


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**5), st.integers(1, 10**5))
def test_more_spent_never_allows_more(limit: int, used: int, estimate: int, most: int) -> None:
    budget, spent = Budget(tokens=limit), Spent(tokens=used)
    now = check_request(turn(budget, spent), estimate=estimate, max_tokens=most)
    then = check_request(
        turn(budget, replace(spent, tokens=used + 1)), estimate=estimate, max_tokens=most
    )
    if isinstance(now, Stop):
        assert isinstance(then, Stop)
    elif not isinstance(then, Stop):
        assert then <= now <= max(most, 0)
        assert now + used + estimate <= limit
