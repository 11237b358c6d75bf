"""Metrics: every derived number has a fixture computed by hand, and dollars are conserved."""

from __future__ import annotations

import random

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.frames import metrics
from agent_kernel.frames.lanes import lanes
from agent_kernel.frames.pricing import parts
from agent_kernel.testing import shapes
from agent_kernel.testing.script import Script, said, use


def load(path):
    return frames.load(path, readers=transcripts.ALL, cache=False)


def codes(path, **limits):
    return list(metrics.findings(load(path), **limits)["code"])


@pytest.mark.parametrize(
    "name,found",
    [
        ("silent-drop", ["silent_drop"]),
        ("thrash-of-prefixes", ["cache_prefix_change", "thrash"]),
        ("spiral-of-compactions", ["spiral", "net_negative", "pre_divergence"]),
        ("reinjected-duplicate", ["reinjected_duplicate"]),
        ("compaction-call-cold", ["cold_summary"]),
        ("one-response-over-four-lines", []),
    ],
)
def test_a_detector_fires_on_its_shape_alone(name, found, tmp_path):
    shapes.ALL[name](tmp_path)
    assert sorted(codes(tmp_path)) == sorted(found)


def test_thresholds_are_arguments(tmp_path):
    shapes.ALL["silent-drop"](tmp_path)
    assert codes(tmp_path, drop=0.5) == []


def test_a_result_costs_its_write_and_its_reads(tmp_path):
    shapes.ALL["carried-result"](tmp_path)
    row = metrics.carry(load(tmp_path)).iloc[0]
    assert row["tokens"] == 100  # 275 characters at 2.75
    assert row["calls"] == 2
    # It stands after system, prompt and call: all of it in the 200 tokens written by call 2.
    assert row["first_usd"] == pytest.approx(100 * 6.25e-6)
    assert row["later_usd"] == pytest.approx(100 * 0.5e-6)


@pytest.mark.parametrize("name", shapes.ALL)
def test_blocks_and_the_unexplained_rest_are_the_input_side_dollars(name, tmp_path):
    shapes.ALL[name](tmp_path)
    for lane in load(tmp_path).load.once(lanes):
        steps = [step for step in lane.steps if step.loose_usd is not None]
        carried = sum(item.first_usd + item.later_usd for item in lane.items)
        paid = sum(
            step.placed.call.usd_recorded
            - parts(step.placed.call)["output"]
            - parts(step.placed.call)["server"]
            for step in steps
        )
        assert carried + sum(step.loose_usd for step in steps) == pytest.approx(paid, abs=1e-9)


def test_dollars_are_conserved_over_random_sessions(tmp_path):
    for seed in range(30):
        pick = random.Random(seed)
        s = Script(f"session-{seed}")
        s.user("x" * pick.randrange(3000))
        for number in range(pick.randrange(1, 25)):
            buckets = tuple(pick.randrange(20_000) for _ in range(5))
            s.answer(number, [use("Read", number, file_path=f"/{number % 4}")], buckets)
            s.result(number, "y" * pick.randrange(9000))
            if pick.random() < 0.1:
                s.boundary()
                s.summary()
        s.answer(99, [said("end")], (1, 2, 3, 4, 5))
        path = s.write(tmp_path)
        (lane,) = load(path).load.once(lanes)
        carried = sum(item.first_usd + item.later_usd for item in lane.items)
        loose = sum(step.loose_usd for step in lane.steps)
        paid = sum(
            step.placed.call.usd_recorded - parts(step.placed.call)["output"] for step in lane.steps
        )
        assert carried + loose == pytest.approx(paid, abs=1e-9)


def test_totals_do_not_depend_on_the_order_of_files_or_lines(tmp_path):
    names = ["one-response-over-four-lines", "subagent-in-progress-and-file", "own-log"]
    for name in names:
        shapes.ALL[name](tmp_path / name)
    whole = [tmp_path / name for name in names]
    a = frames.load(whole, readers=transcripts.ALL, cache=False).totals()["total"]
    b = frames.load(whole[::-1], readers=transcripts.ALL, cache=False).totals()["total"]
    assert {**a, "usd": round(a["usd"], 12)} == {**b, "usd": round(b["usd"], 12)}


def test_rereads_stand_beside_their_control(tmp_path):
    shapes.ALL["read-again-after-a-compaction"](tmp_path)
    table = metrics.rereads(load(tmp_path))
    assert list(table["windows"]) == [1, 0]
    assert table["rereads_mean"][0] == 2.0
    assert table["edited_between_mean"][0] == 1.0


def test_a_fit_is_the_median_of_clean_steps(tmp_path):
    s = Script()
    s.user("go")
    read = 1000
    for number in range(40):
        s.answer(number, [use("Read", number, file_path="/a")], (0, 20, 0, 0, read))
        s.result(number, "x" * 6000)
        read += 2000
    s.write(tmp_path)
    row = metrics.fits(load(tmp_path)).iloc[0]
    assert row["n"] == 39
    assert row["chars_per_token"] == pytest.approx(3.0, abs=0.02)
    assert row["mdape"] < 0.01
