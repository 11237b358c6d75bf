"""Audit: every side effect has a decision before it, with who decided, by which rule, and why."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agent_kernel import cli, frames
from agent_kernel.core.events import PermissionMode, ToolCall, ToolStart
from agent_kernel.core.session import Session
from agent_kernel.testing import shapes
from tests.runs import agent, run

TURNS = [[[("look", 1), ("touch", 2), ("secret", 3)], []]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log in which a call was allowed, one asked about and one refused."""
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    session.append(PermissionMode(mode="accept-edits"))
    asyncio.run(run(session, agent(TURNS), 1))
    session.close()
    return path


def audit(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(["audit", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_row_a_decision_with_who_decided_and_whether_it_ran(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = audit(capsys, str(log), "--json")
    assert (status, err) == (0, "")
    rows = {row["name"]: row for row in json.loads(out)["decisions"]}
    assert set(rows) == {"look", "touch", "secret"}
    assert (rows["touch"]["verdict"], rows["touch"]["by"]) == ("allow", "person")
    assert rows["touch"]["asked"]
    assert rows["touch"]["began"] >= rows["touch"]["time"]
    assert (rows["secret"]["verdict"], rows["secret"]["began"]) == ("deny", None)
    assert rows["secret"]["reason"] == "not allowed here"
    assert {row["mode"] for row in rows.values()} == {"accept-edits"}


def test_a_side_effect_without_a_decision_is_found(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session.open(log)
    session.append(ToolCall(id="toolu_x", name="touch", input={}, input_hash="0"))
    session.append(ToolStart(id="toolu_x", input_hash="0"))
    session.close()
    status, out, err = audit(capsys, str(log))
    assert status == 1
    assert "NO DECISION" in out
    assert "toolu_x" in err


def test_what_would_pass_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main(["run", "-p", "run `touch x.txt`", "--json"])
    capsys.readouterr()
    status, out, _ = audit(capsys, "session.agent.jsonl")
    assert status == 0
    assert "deny by policy; never ran" in out
    assert "would pass with: allow Bash(touch x.txt)" in out
    row = frames.load(tmp_path, readers={}, cache=False).load.rows("permissions")[0]
    assert (row["name"], row["would_pass"]) == ("bash", "Bash(touch x.txt)")


def test_a_log_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(capsys, str(tmp_path / "no.jsonl"))[0] == 2
    (tmp_path / "odd.jsonl").write_text("{}\n")
    status, _, err = audit(capsys, str(tmp_path / "odd.jsonl"))
    assert (status, err.count("\n")) == (2, 1)


def test_a_log_that_keeps_no_decisions_is_not_said_to_hold_no_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes.ALL["parallel-results-as-siblings"](tmp_path)
    status, out, _ = audit(capsys, str(next(tmp_path.glob("**/*.jsonl"))))
    assert status == 0
    assert "records no permission decisions" in out
