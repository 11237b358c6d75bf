"""The simulator and the bound: counted by hand, by brute force, and never below the least."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.lab.bound import bound
from agent_kernel.lab.policies import ALL, PEAK, grid
from agent_kernel.lab.simulate import MARK, Policy, calibrated, simulate, total
from agent_kernel.lab.spending import swaps, tuned
from agent_kernel.lab.trajectory import Rates, Step, Trajectory

RATES = Rates(input=5.0, output=25.0, write_5m=6.25, write_1h=10.0, read=0.5)
NONE = Policy("none")


def step(other: int, *results: int, cold: bool = False, output: int = 0) -> Step:
    """One request of a trajectory; what no policy reads is 0."""
    return Step(
        context=0, other=other, results=results, output=output, cold=cold, hour=0.0,
        boundary=False, model=0, since=0, at=0, recorded=0.0, read=0, written=0,
    )  # fmt: skip


def run(*steps: Step) -> Trajectory:
    return Trajectory("s", steps, (RATES,), 0)


def test_nothing_hidden_costs_what_was_written_and_read_again() -> None:
    made = run(step(100, cold=True, output=2), step(10, 50), step(5))
    cost = simulate(made, NONE)
    assert cost.contexts == [100, 160, 165]
    assert cost.usd == 100 * 6.25 + 2 * 25 + 100 * 0.5 + 60 * 6.25 + 160 * 0.5 + 5 * 6.25


def test_a_cold_cache_is_written_whole() -> None:
    made = run(step(100, cold=True), step(10, cold=True))
    assert simulate(made, NONE).usd == 100 * 6.25 + 110 * 6.25


def test_a_cleared_result_frees_its_tokens_and_breaks_the_prefix_there() -> None:
    made = run(step(100, cold=True), step(10, 1_000), step(10, 500))
    cost = simulate(made, Policy("mask", keep=1, batch=1))
    assert cost.contexts == [100, 1_110, 110 + MARK + 510]
    (edit,) = cost.edits
    assert (edit.request, edit.offset, edit.freed) == (2, 110, 1_000 - MARK)
    assert edit.rewrite == MARK  # what stood behind the cut and was cached before
    last = 110 * 0.5 + (MARK + 510) * 6.25
    assert cost.usd == 100 * 6.25 + 100 * 0.5 + 1_010 * 6.25 + last


def test_a_clearing_when_cold_rewrites_nothing_warm() -> None:
    made = run(step(100, cold=True), step(10, 1_000), step(10, 500, cold=True))
    (edit,) = simulate(made, Policy("cold", keep=1, cold_least=1)).edits
    assert (edit.cold, edit.rewrite, edit.usd) == (True, 0, 0.0)


def test_a_replacement_leaves_head_artefact_and_tail() -> None:
    made = run(step(100, cold=True), step(0, 600), step(0, 600), step(10))
    policy = Policy("ledger", replace_at=1_000, artefact=50, tail=700)
    assert simulate(made, policy).contexts == [100, 700, 750, 760]


def test_a_call_is_priced_and_counted() -> None:
    made = run(step(100, cold=True), step(0, 600), step(0, 600))
    bare = simulate(made, Policy("a", replace_at=1_000, artefact=50, tail=700))
    asked = simulate(made, Policy("b", replace_at=1_000, artefact=50, tail=700, call_output=10))
    assert asked.calls == 1
    assert asked.usd - bare.usd == 700 * 0.5 + 600 * 5.0 + 10 * 25.0


# ---- the bound ----------------------------------------------------------------------------------

STEPS = st.lists(
    st.builds(
        lambda other, results, cold: step(other, *results, cold=cold),
        st.integers(0, 400),
        st.lists(st.integers(0, 3_000), max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def forced(made: Trajectory, keep: int, when: tuple[bool, ...]) -> float:
    """What clearing at just these requests costs: by the simulator, told through `batch`."""
    from agent_kernel.lab.simulate import _State

    state, usd = _State(made), 0.0
    for number, one in enumerate(made.steps):
        state.grow(one)
        kept = state.length
        limit = state.limit(keep)
        if when[number] and limit > state.at and state.waiting(limit)[0]:
            kept, _ = state.clear(limit)
        read = 0 if one.cold else min(state.cached, kept)
        usd += read * RATES.read + (state.length - read) * RATES.write_5m
        state.cached = state.length
    return usd


@given(STEPS, st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_the_bound_is_the_least_of_all_choices(steps: list[Step], keep: int) -> None:
    made = run(*steps)
    every = product((False, True), repeat=len(steps))
    assert bound(made, keep).usd == pytest.approx(min(forced(made, keep, w) for w in every))


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_no_online_rule_of_the_family_costs_less_than_the_bound(steps: list[Step]) -> None:
    made = run(*steps)
    family = [p for p in ALL if p.keep is not None and p.replace_at is None]
    assert family
    for policy in family:
        assert policy.keep is not None
        assert simulate(made, policy).usd >= bound(made, policy.keep).usd - 1e-6


# ---- on sessions --------------------------------------------------------------------------------


def test_none_is_the_sum_of_what_was_recorded(made: list[Trajectory]) -> None:
    for one in made:
        grown = sum(s.other + sum(s.results) for s in one.steps)
        assert simulate(one, NONE).contexts[-1] == grown


def test_the_simulator_meets_recorded_dollars_within_a_tenth(made: list[Trajectory]) -> None:
    recorded = sum(one.recorded for one in made)
    assert sum(map(calibrated, made)) == pytest.approx(recorded, rel=0.1)


def test_an_online_rule_without_a_model_meets_its_goals(made: list[Trajectory]) -> None:
    none = sum(simulate(one, NONE).usd for one in made)
    least = sum(bound(one, 5, PEAK).usd for one in made)
    found = [total(p, [simulate(one, p) for one in made], none) for p in grid()]
    good = [t for t in found if t.usd <= 1.04 * least and t.peak_context <= PEAK and not t.calls]
    assert any(t.free_edits >= 0.75 for t in good)
    held = tuned(made, 0)
    assert held["policies"] > 100
    assert held["held_out_peak"] <= PEAK


def test_a_swap_of_ranks_is_where_the_costs_meet(made: list[Trajectory]) -> None:
    none = sum(simulate(one, NONE).usd for one in made)
    found = {p.name: total(p, [simulate(one, p) for one in made], none) for p in ALL}
    rows = swaps(list(found.values()))
    assert rows
    for row in rows:
        cheap, dear = found[row["cheaper"]], found[row["then"]]
        there = row["requests"]
        assert cheap.usd + there * cheap.extra == pytest.approx(
            dear.usd + there * dear.extra, rel=1e-2
        )
