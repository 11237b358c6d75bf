"""Kinds: more commands of the kinds of the case tables, none of them a row of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.guard import Call, Context, evaluate, parse_rules
from tests.guard.places import build

KINDS = json.loads((Path(__file__).parent / "kinds.json").read_text())
READ_ONLY: list[str] = KINDS["read_only"]
NOT_COVERED: dict[str, list[str]] = KINDS["not_covered"]  # by the one-line rules
TOUCHES: list[str] = KINDS["touches"]  # each runs `touch`
NAMES_ENV: list[str] = KINDS["names_env"]  # each reads .env


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("kinds") / "work")


def verdict(command: str, rules: str, folder: Path) -> str:
    context = Context(cwd=str(folder))
    return evaluate(Call("Bash", command), parse_rules(rules), "ask", context).verdict


@pytest.mark.parametrize("command", READ_ONLY)
def test_a_command_that_only_reads_is_allowed(command: str, place: Path) -> None:
    assert verdict(command, "RO", place) == "allow"


@pytest.mark.parametrize(
    "rules,command", [(rules, command) for rules, many in NOT_COVERED.items() for command in many]
)
def test_a_command_beyond_its_rule_is_not_allowed(rules: str, command: str, place: Path) -> None:
    assert verdict(command, rules, place) in ("ask", "deny")


@pytest.mark.parametrize("command", TOUCHES)
def test_a_denied_command_is_seen_in_any_form(command: str, place: Path) -> None:
    assert verdict(command, "deny Bash(touch:*), allow Bash", place) in (
        ("deny", "ask") if "|" in command and command.endswith(("sh", "-s")) else ("deny",)
    )


@pytest.mark.parametrize("command", NAMES_ENV)
def test_a_denied_file_is_seen_in_any_form(command: str, place: Path) -> None:
    (place / ".env").write_text("x")
    if not (place / "link").is_symlink():
        (place / "link").symlink_to(".env")
    assert verdict(command, "deny Read(.env), allow Bash", place) == "deny"


@pytest.mark.parametrize("command", ["grep -r x .", "grep -rn x", "rg -uu x", "rg --hidden x"])
def test_a_recursive_reader_asks_where_a_read_rule_keeps_a_file(command: str, place: Path) -> None:
    (place / ".env").write_text("x")
    assert verdict(command, "deny Read(.env)", place) == "ask"
    assert verdict(command, "deny Read(.other)", place) == "allow"
