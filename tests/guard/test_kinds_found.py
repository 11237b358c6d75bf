"""Kinds found: commands of the tables' kinds that an attack on the guard tried, none a row.

Each list is one test that names every command it fails on; kinds_found.json says what is in them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.guard import Call, Context, evaluate, parse_rules
from agent_kernel.guard.rules import Rules
from tests.guard.places import build

FOUND = json.loads((Path(__file__).parent / "kinds_found.json").read_text())
BROAD = "deny Bash(touch:*), allow Bash"
COVERED = {  # what a person with these rules is not asked about
    "make": ["make", "make test", "make -j4 test", "make -k lint"],
    "tar": ["tar tf x.tar", "tar czf x.tgz src", "tar xzf x.tgz", "tar -xvf x.tar src/a.py"],
    "less": ["less README.md", "less -N README.md"],
    "uniq": ["uniq victim", "uniq -c victim"],
    "npm test": ["npm test", "npm test -- --watch", "npm test -- --grep x"],
    "npm run": ["npm run build", "npm run test -- --coverage"],
    "pytest": ["pytest", "pytest -x -q src", "pytest -k name --maxfail=1", "pytest src/a.py::test"],
    "cargo test": ["cargo test", "cargo test --release name", "cargo test -- --nocapture"],
    "gcc": ["gcc -c src/a.c", "gcc -O2 -Wall a.c", "gcc -Iinclude a.c"],
    "git config": ["git config --get user.name", "git config --list", "git config user.name"],
    "git clone": ["git clone https://example.com/a.git b"],
    "ruff check": ["ruff check .", "ruff check --fix src", "ruff check --select E src"],
    "sed": ["sed -n 1,5p victim", "sed 's/a/b/' victim", "sed 's|a|b|g' victim"],
    "jq": ["jq . package.json", "jq -r .name package.json"],
    "date": ["date", "date -u", "date +%F"],
    "psql": ["psql -l", "psql -c 'select 1'"],
    "sqlite3": ["sqlite3 x.db 'select 1'", "sqlite3 x.db .tables", "sqlite3 x.db .schema"],
    "zip": ["zip -r x.zip src", "zip x.zip victim"],
    "split": ["split -l 10 victim part"],
}
NOT_RUN = [  # words that only look like the denied program
    "git commit -m 'touch the docs'", "echo touch pwn", "grep -rn 'touch pwn' src",
    "man touch", "which touch", "rg touch", "git log --grep=touch",
    "ls touch", "printf '%s' 'touch pwn'", "cat touch",
]  # fmt: skip


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    work = build(tmp_path_factory.mktemp("found") / "work")
    (work / "src/link").symlink_to("/etc")
    (work / "link").symlink_to("/etc/passwd")
    (work / "-o").write_text("x")
    (work / "--output=pwn").write_text("x")
    return Context(cwd=str(work), home="/root")


def verdicts(commands: list[str], rules: Rules, context: Context) -> dict[str, str]:
    return {c: evaluate(Call("Bash", c), rules, "ask", context).verdict for c in commands}


def test_no_command_that_may_do_more_than_read_is_read_only(context: Context) -> None:
    found = verdicts(FOUND["RO"], parse_rules("RO"), context)
    assert not [command for command, verdict in found.items() if verdict == "allow"]


def test_no_flag_or_word_that_runs_or_leaves_is_granted_by_a_prefix(context: Context) -> None:
    allowed = []
    for head, commands in FOUND["by_rule"].items():
        found = verdicts(commands, parse_rules(f"allow Bash({head}:*)"), context)
        allowed += [command for command, verdict in found.items() if verdict == "allow"]
    assert not allowed


def test_a_denied_program_is_denied_behind_every_launcher(context: Context) -> None:
    found = verdicts(FOUND["denied"], parse_rules(BROAD), context)
    assert {c: v for c, v in found.items() if v != "deny"} == {}


def test_a_denied_program_behind_code_or_an_unknown_launcher_asks(context: Context) -> None:
    unknown = ["newwrap touch pwn", "newwrap -x 5 'touch pwn'", "a b c touch pwn"]
    unknown += ["newwrap \"to''uch pwn\"", "newwrap 'to\\uch pwn'"]
    found = verdicts([*FOUND["asked"], *unknown], parse_rules(BROAD), context)
    assert {c: v for c, v in found.items() if v == "allow"} == {}


def test_a_denied_word_that_is_no_program_does_not_ask(context: Context) -> None:
    found = verdicts(NOT_RUN, parse_rules(BROAD), context)
    assert {c: v for c, v in found.items() if v != "allow"} == {}


def test_what_a_prefix_is_meant_for_is_granted(context: Context) -> None:
    asked = {}
    for head, commands in COVERED.items():
        found = verdicts(commands, parse_rules(f"allow Bash({head}:*)"), context)
        asked |= {command: verdict for command, verdict in found.items() if verdict != "allow"}
    assert asked == {}


@pytest.mark.parametrize("mode", ["ask", "bypass"])
def test_a_change_of_gits_configuration_asks_in_every_mode(context: Context, mode: str) -> None:
    for text in ("alias.x '!evil'", "core.pager evil", "--global a.b c", "-e", "edit", "--add a b"):
        call = Call("Bash", f"git config {text}")
        rules = parse_rules("allow Bash, Bash(git config:*)")
        assert evaluate(call, rules, mode, context).verdict == "ask", text  # type: ignore[arg-type]
