"""The report: every part there, the same bytes again, errors in one line, no text of a session."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_kernel import cli
from agent_kernel.cli.lab import report, tables
from agent_kernel.core.events import ToolResultEvent
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.transaction import Plan
from agent_kernel.core.usage import event_tokens
from agent_kernel.lab.given import Given
from agent_kernel.lab.histories import History
from agent_kernel.lab.ladder import replay
from agent_kernel.lab.policies import ALL
from agent_kernel.lab.trajectory import Trajectory


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, object]:
    return report(folder, resamples=100)


def test_a_second_run_gives_the_same_bytes(
    folder: Path, found: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lab", str(folder), "--json", "--bootstrap", "100"]) == 0
    out, err = capsys.readouterr()
    assert out == json.dumps(found, indent=1) + "\n"
    assert "s wall" in err
    assert "MB peak memory" in err


def test_the_report_holds_every_part(found: dict[str, dict[str, object]]) -> None:
    parts = {"version", "inputs", "calibration", "metrics", "policies", "bound", "skipped"}
    assert parts <= set(found)
    assert found["inputs"]["boundaries"]
    assert found["calibration"]["calibrated"] is True
    assert {"recall", "behaviour", "economy", "cuts", "reachable"} <= set(found["metrics"])
    assert [row["policy"] for row in found["policies"]] == [p.name for p in ALL]  # type: ignore[index]
    assert found["policies"][0]["share"]["value"] == 1.0  # type: ignore[index]


def test_needed_names_a_ledger_lacks_can_be_recalled(
    found: dict[str, dict[str, dict[str, float]]],
) -> None:
    reach = found["metrics"]["reachable"]
    assert reach["n"] > 0
    assert reach["value"] == 1.0


def test_rankings_stand_in_the_order_they_should(found: dict[str, dict[str, object]]) -> None:
    rows = {r["artefact"]: r["recall"]["value"] for r in found["metrics"]["recall"]}  # type: ignore[attr-defined]
    assert rows["ledger 500"] > rows["random 500"]
    assert rows["ledger 2000"] > rows["ledger 250"]
    assert rows["summary + ledger 500"] >= rows["ledger 500"]


def test_no_text_of_a_session_is_in_the_report(found: object) -> None:
    said = json.dumps(found)
    assert "/home/dev/project" not in said
    assert "Never change the public names" not in said


def test_people_read_tables(folder: Path) -> None:
    text = tables(folder, resamples=50, policies=ALL[:3])
    assert "Simulator: $" in text
    assert "recorded summary" in text
    assert "clairvoyant bound" in text


@pytest.mark.parametrize(
    "words,said",
    [(["no/such/place"], "no/such/place"), (["{folder}", "--policies", "nix"], "no policy 'nix'")],
)
def test_bad_input_is_one_line(
    words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(folder=folder) for word in words]
    assert cli.main(["lab", *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_the_real_layers_leave_every_list_valid(
    told: list[History], made: list[Trajectory], rooms: Given
) -> None:
    """At the size of the texts themselves, and a window so small that every layer has work."""
    small = ModelProfile("small", window=8_000, max_output=500, thinking="adaptive")
    steps = []
    for one in made[0].steps:
        sizes = [(e, event_tokens(e)) for e in told[0].events[one.since : one.at]]
        results = tuple(size for e, size in sizes if isinstance(e, ToolResultEvent))
        whole = sum(size for _, size in sizes)
        steps.append(replace(one, results=results, other=whole - sum(results)))
    seen: list[Plan] = []
    sized = replace(made[0], steps=tuple(steps))
    out = replay(told[0], sized, rooms.strategies, profile=small, after=seen.append)
    assert out.checked == len(seen) > 2
    assert out.violations == 0
    assert max(out.cost.contexts) <= small.window
    assert sum(out.by_layer.values()) >= len(seen)
    assert out.by_layer.get("auto")
