"""Import: the permissions of Claude Code settings, printed rule by rule and written on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.cli import main
from agent_kernel.guard import Call, Context, evaluate, parse_rules
from agent_kernel.guard.claude import import_claude, to_settings
from agent_kernel.guard.settings import read_sources, settle
from tests.guard.places import argument, build, rows

EVERY_FORM = {
    "allow": ["Bash", "Bash(*)", "Bash(npm run build)", "Bash(npm run test:*)", "Bash(git log *)",
              "Bash(bash:*)", "Bash(curl:*)", "Bash(ls > x)", "Bash(rm $x)", "Bash(env:*)",
              "Read", "Read(src/**)", "Read(~/x)", "Edit(//abs/*)", "WebFetch(domain:a.example)",
              "mcp__srv", "mcp__srv__read", "Task", "NoSuchTool", "Bash(python -c:*)", 7],
    "deny": ["Bash(rm:*)", "Read(.env)", "Edit(.git/**)", "WebFetch"],
    "ask": ["Bash(git push:*)", "Read(*.pem)"],
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    block = {**EVERY_FORM, "defaultMode": "acceptEdits", "additionalDirectories": ["/x"]}
    path.write_text(json.dumps({"permissions": block, "model": "opus"}))
    return path


def test_every_form_of_a_rule_gives_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert main(["guard", "import", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(map(len, EVERY_FORM.values())) + 2
    outcomes = ("-> kept", "-> narrowed", "-> refused")
    assert all(any(outcome in line for outcome in outcomes) for line in lines)
    assert not (home / ".config").exists(), "nothing is written unasked"


def test_nothing_imported_allows_a_command_that_bypasses(tmp_path: Path) -> None:
    place = build(tmp_path / "work")
    settings = {"permissions": {"allow": [r for r in EVERY_FORM["allow"] if r not in _WHOLE]}}
    rules = parse_rules(to_settings(import_claude(settings))["permissions"])
    context = Context(cwd=str(place))
    table = [r for r in rows("perm_bash_bypass") if r["expected"] in ("ask", "deny")]
    allowed = [
        r["id"]
        for r in table
        if evaluate(Call("Bash", argument(r)), rules, "ask", context).verdict == "allow"
        and evaluate(Call("Bash", argument(r)), parse_rules("RO"), "ask", context).verdict
        != "allow"
    ]
    assert allowed == []


_WHOLE = ("Bash", "Bash(*)")


def test_write_adds_each_rule_once_and_keeps_what_is_there(
    file: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    own = home / ".config/agent_kernel/settings.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"model": "m", "permissions": {"deny": ["Bash(dd:*)"]}}))
    for _ in range(2):
        assert main(["guard", "import", str(file), "--write"]) == 0
    assert "0 rules added" in capsys.readouterr().err
    data = json.loads(own.read_text())
    assert data["model"] == "m"
    assert data["permissions"]["deny"][0] == "Bash(dd:*)"
    assert "Bash(rm:*)" in data["permissions"]["deny"]
    assert "Bash(bash:*)" not in data["permissions"]["allow"]
    assert len(set(data["permissions"]["allow"])) == len(data["permissions"]["allow"])
    found = settle(read_sources(str(file.parent), home=str(home)))
    assert found.mode == "accept-edits"
    assert not found.rules.refused


@pytest.mark.parametrize("text", ["{", "[]", '{"permissions": []}', '{"permissions": {"deny": 3}}'])
def test_a_file_of_another_form_is_one_line_and_writes_nothing(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    assert main(["guard", "import", str(path), "--write"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("agent-kernel guard import: ")
    assert not (home / ".config/agent_kernel").exists()


def test_a_file_that_is_not_there_is_named_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["guard", "import", str(tmp_path / "none.json")]) == 2
    err = capsys.readouterr().err
    assert err.endswith("none.json': No such file or directory\n")
    assert "Errno" not in err
