"""Case tables of permissions: one test a row, named by its id."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent_kernel.guard import Call, Context, Mode, Verdict, evaluate, parse_rules
from agent_kernel.guard.settings import (
    Source,
    fingerprint,
    read_sources,
    settle,
    trust,
    trusted_paths,
)
from tests.conftest import SHARED
from tests.guard.places import (
    CASES,
    argument,
    bubblewrap,
    build,
    exists,
    git,
    rows,
    run_confined,
    shown,
)

BYPASS = rows("perm_bash_bypass")
READ_ONLY = rows("perm_bash_readonly")
PATHS = rows("perm_paths_web_config")
ROWS = [row for row in PATHS if row["tool"] in ("Edit", "Read", "Bash", "WebFetch")]
SENTENCES = {row["id"]: row for row in PATHS if row not in ROWS}
NOT_PASSED: dict[str, str] = {}  # a row we do not pass stands here with its reason

PASSES = {
    "allow": ("allow",),
    "ask": ("ask", "deny"),
    "deny": ("deny",),
    "allow-by-rule": ("allow", "ask"),
    "error": ("error",),
    "report": ("report",),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("cases") / "work")


def ids(table: list[dict[str, str]]) -> list[str]:
    return [row["id"] for row in table]


def judge(row: dict[str, str], text: str, context: Context, mode: Mode = "ask") -> Verdict:
    rules = parse_rules(row["rule"])
    return evaluate(Call(row.get("tool", "Bash"), text), rules, mode, context)


@pytest.mark.parametrize("row", BYPASS, ids=ids(BYPASS))
def test_bypass_row_gets_its_verdict(row: dict[str, str], place: Path) -> None:
    found = judge(row, argument(row), Context(cwd=str(place)))
    assert found.verdict in PASSES[row["expected"]], found


DANGERS = [row for row in BYPASS if row["effect_shown"] == "yes" and row["canary"] != "0"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if bubblewrap() is None:
        pytest.skip("bubblewrap does not work here")
    return build(tmp_path_factory.mktemp("danger") / "work")


@pytest.mark.parametrize("row", DANGERS, ids=ids(DANGERS))
def test_bypass_row_is_a_real_danger(row: dict[str, str], original: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(original, folder, symlinks=True)
    inode = (folder / "victim").stat().st_ino
    run_confined(argument(row), folder)
    assert shown(row["canary"], folder, inode)


@pytest.mark.parametrize("row", READ_ONLY, ids=ids(READ_ONLY))
def test_read_only_row_is_allowed(row: dict[str, str], place: Path) -> None:
    found = judge(row, argument(row), Context(cwd=str(place)))
    assert found.verdict == "allow", found


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_path_or_web_row_gets_its_verdict(row: dict[str, str], tmp_path: Path) -> None:
    app = tmp_path / "srv/app"
    for folder in ("src/sub", "sub/.git", ".git/hooks"):
        (app / folder).mkdir(parents=True, exist_ok=True)
    text, _, prepared = argument(row).partition("   [")
    row = {key: value.replace("/srv/app", str(app)) for key, value in row.items()}
    text = text.replace("/srv/app", str(app))
    context = Context(cwd=str(app), home=str(tmp_path / "home"))
    if prepared.startswith("-> "):
        (app / text).symlink_to(prepared[3:-1])
    elif prepared.startswith("hard link"):
        (tmp_path / "outside").write_text("root")
        (app / text).hardlink_to(tmp_path / "outside")
    elif " while src is swapped" in text:
        text = text.partition(" ")[0]
        (app / "src/sub").rmdir()
        (app / "src").rmdir()
        (app / "src").symlink_to("/etc")  # the swap, seen at the check: paths tests race it
    elif " of the running session" in text:
        text = text.partition(" ")[0]
        context = replace(context, notebook=str(app / text))
    found = judge(row, text, context)
    assert found.verdict in PASSES[row["expected"]], found


def test_a_tool_name_is_matched_whole() -> None:
    rules = parse_rules("allow mcp__srv__read")
    assert evaluate(Call("mcp__srv__read", {}), rules).verdict == "allow"
    assert evaluate(Call("mcp__srv__read_all", {}), rules).verdict == "ask"


def test_a_changed_tool_description_asks_again() -> None:
    before = fingerprint("mcp__srv__read", {"type": "object"}, "Reads a file.")
    after = fingerprint("mcp__srv__read", {"type": "object"}, "Reads a file and sends it.")
    assert before != after
    changed = Context(changed=frozenset({"mcp__srv__read"}))
    rules = parse_rules("allow mcp__srv__read")
    assert evaluate(Call("mcp__srv__read", {}), rules, "ask", changed).verdict == "ask"


def test_no_server_of_a_fresh_clone_starts_before_trust(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "./evil"}}}')
    found = settle(read_sources(str(tmp_path), home=str(tmp_path / "home")))
    assert "mcpServers" not in found.others
    assert any("mcpServers" in line for line in found.inert)


def test_a_project_may_not_redirect_the_key_before_trust(tmp_path: Path) -> None:
    source = Source("project", {"base_url": "https://evil.invalid"}, str(tmp_path / "s.json"))
    assert "base_url" not in settle([source]).others
    assert settle([source], frozenset({source.path})).others["base_url"]


def test_hooks_and_allow_rules_of_a_project_wait_for_trust_in_that_very_content(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work/.agent_kernel"
    folder.mkdir(parents=True)
    file = folder / "settings.json"
    file.write_text(
        '{"permissions": {"allow": ["Bash(make:*)"], "deny": ["Bash(rm:*)"], "mode": "bypass"},'
        ' "hooks": {"Stop": []}}'
    )
    root, user = str(tmp_path / "work"), str(tmp_path / "user.json")
    before = settle(read_sources(root, user))
    assert not before.rules.allow
    assert before.rules.deny
    assert before.mode == "ask"
    assert "hooks" not in before.others
    trust(root, user)
    sources = read_sources(root, user)
    after = settle(sources, trusted_paths(root, sources[-1].data))
    assert after.rules.allow
    assert "hooks" in after.others
    assert after.mode == "ask", "bypass is never taken from a project"
    file.write_text(file.read_text().replace("make", "cake"))
    assert not trusted_paths(root, sources[-1].data)


def test_plan_mode_writes_nothing() -> None:
    rules = parse_rules("allow Edit(**), Bash, Python")
    for call in (Call("edit", {"path": "src/a.py"}), Call("bash", {"command": "touch x"})):
        assert evaluate(call, rules, "plan").verdict == "deny"
    assert evaluate(Call("python", {"code": "1"}), rules, "plan").verdict == "deny"


def test_a_deny_rule_holds_in_bypass() -> None:
    rules = parse_rules("deny Bash(rm:*)")
    assert evaluate(Call("bash", "rm -rf /"), rules, "bypass").verdict == "deny"


def test_an_ask_without_a_person_is_a_deny_naming_the_rule() -> None:
    found = evaluate(Call("bash", "npm test"), parse_rules(""), "ask", Context(headless=True))
    assert found.verdict == "deny"
    assert "Bash(npm test)" in found.reason


def test_a_session_grant_passes_the_same_flag_checks(place: Path) -> None:
    rules = parse_rules("allow Bash(git log:*)")
    context = Context(cwd=str(place))
    assert evaluate(Call("bash", "git log -3"), rules, "ask", context).verdict == "allow"
    assert evaluate(Call("bash", "git log --output=x"), rules, "ask", context).verdict == "ask"


ELSEWHERE = {  # rows that are sentences, by the tests that act them out
    "perm_paths_web_config-047": "tests/guard/test_cases_permissions.py::"
    "test_a_tool_name_is_matched_whole",
    "perm_paths_web_config-048": "tests/guard/test_cases_permissions.py::"
    "test_a_changed_tool_description_asks_again",
    "perm_paths_web_config-049": "tests/guard/test_cases_permissions.py::"
    "test_no_server_of_a_fresh_clone_starts_before_trust",
    "perm_paths_web_config-050": "tests/guard/test_cases_permissions.py::"
    "test_a_project_may_not_redirect_the_key_before_trust",
    "perm_paths_web_config-051": "tests/guard/test_cases_permissions.py::"
    "test_hooks_and_allow_rules_of_a_project_wait_for_trust_in_that_very_content",
    "perm_paths_web_config-052": "tests/guard/test_cases_permissions.py::"
    "test_plan_mode_writes_nothing",
    "perm_paths_web_config-053": "tests/guard/test_cases_permissions.py::"
    "test_a_deny_rule_holds_in_bypass",
    "perm_paths_web_config-054": "tests/guard/test_cases_permissions.py::"
    "test_an_ask_without_a_person_is_a_deny_naming_the_rule",
    "perm_paths_web_config-055": "tests/guard/test_cases_permissions.py::"
    "test_a_session_grant_passes_the_same_flag_checks",
}


def test_every_sentence_row_has_its_test() -> None:
    assert set(ELSEWHERE) == set(SENTENCES)
    assert [test for test in ELSEWHERE.values() if not exists(test)] == []


def test_no_row_is_left_out() -> None:
    assert not NOT_PASSED


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the tables' source is not here")
def test_tables_equal_their_source() -> None:
    for file in sorted(CASES.glob("perm_*.csv")):
        assert file.read_bytes() == (SHARED / "cases" / file.name).read_bytes()


def test_git_is_not_read_only_where_the_repository_configures_a_program(tmp_path: Path) -> None:
    work = build(tmp_path / "work")
    context = Context(cwd=str(work))
    assert evaluate(Call("bash", "git status"), parse_rules(""), "ask", context).verdict == "allow"
    git(work, "config", "core.fsmonitor", "./evil")
    found = evaluate(Call("bash", "git status"), parse_rules(""), "ask", context)
    assert found.verdict == "ask"
    assert "core.fsmonitor" in found.reason
