"""Rules: what loads, what it covers, and that narrowing rules only narrow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.guard import Call, Context, Mode, evaluate, parse_rules
from agent_kernel.guard.calls import MODES, SEVERITY
from agent_kernel.guard.claude import import_claude, to_settings
from agent_kernel.guard.rules import Refused, Rule, parse_rule
from agent_kernel.guard.settings import Source, settle
from tests.guard.places import argument, build, git, rows

NOWHERE = "/no/such/work"


def bash(command: str, rules: str, mode: Mode = "ask", cwd: str = NOWHERE) -> str:
    call = Call("bash", {"command": command})
    return evaluate(call, parse_rules(rules), mode, Context(cwd=cwd)).verdict


@pytest.mark.parametrize(
    "text",
    [
        *("Bash(ls > x)", "Bash(echo $HOME:*)", "Bash(a && b)", "Bash(`a`)", "Bash(* --version)"),
        *(
            "Bash(bash:*)",
            "Bash(sh -c:*)",
            "Bash(python:*)",
            "Bash(python3.12 -c:*)",
            "Bash(env:*)",
        ),
        *(
            "Bash(env A=1:*)",
            "Bash(timeout 60:*)",
            "Bash(nohup sudo -u bob:*)",
            "Bash(xargs -n 1:*)",
        ),
        *("Bash(eval:*)", "Bash(export:*)", "Bash(set:*)", "Bash(source:*)", "Bash(mapfile *)"),
        *("Bash(A=1 ls:*)", "Bash(:*)", "not a rule(", "Edit(!x)", "WebFetch(github.com)"),
        *("mcp__srv__tool(x)", "Bash(find . -exec:*)", "Bash(node -e:*)", "Bash(l* -a:*)"),
    ],
)
def test_an_allow_rule_that_cannot_be_meant_is_refused_with_a_sentence(text: str) -> None:
    found = parse_rule(text, "allow")
    assert isinstance(found, Refused)
    assert len(found.why) > 10


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Bash",
            "Bash(*)",
            "Bash(npm run build)",
            "Bash(npm run test:*)",
            "Bash(python check.py:*)",
        ),
        *("Bash(timeout 60 pytest:*)", "Bash(bash -c 'ls')", "Bash(export A)", "Bash([:*)"),
        *("Bash(curl https://a.example/x:*)", "bash(ls:*)", "Read(//etc/hosts)", "Edit(~/x/**)"),
        *("WebFetch(domain:*.a.example)", "mcp__srv", "mcp__srv__read", "Python", "Agent(explore)"),
        *("Bash(python -m pytest:*)", "Bash(uv run:*)", "SomethingNew"),
    ],
)
def test_a_plain_allow_rule_loads(text: str) -> None:
    assert isinstance(parse_rule(text, "allow"), Rule)


def test_an_unknown_tool_loads_with_a_warning() -> None:
    assert parse_rules("allow SomethingNew").warnings


@pytest.mark.parametrize(
    "command, rules, expected",
    [
        ("npm run build", "allow Bash(npm run build)", "allow"),
        ("npm run build x", "allow Bash(npm run build)", "ask"),
        ("npm 'run' build", "allow Bash(npm run build)", "allow"),
        ("npm run test", "allow Bash(npm run test:*)", "allow"),
        ("npm run test -- --watch", "allow Bash(npm run test *)", "allow"),
        ("npm run testevil", "allow Bash(npm run test:*)", "ask"),
        ("/usr/bin/npm run test", "allow Bash(npm run test:*)", "ask"),
        ("cp a src/b", "allow Bash(cp:*)", "allow"),
        ("cp a /srv/b", "allow Bash(cp:*)", "ask"),
        ("cp a .git/hooks/x", "allow Bash(cp:*)", "ask"),
        ("mkdir -p a/b", "allow Bash(mkdir:*)", "allow"),
        ("tool -xopwn", "allow Bash(tool:*)", "ask"),
        ("tool -o pwn", "allow Bash(tool:*)", "ask"),
        ("tool --out=pwn", "allow Bash(tool:*)", "ask"),
        ("tool -o pwn", "allow Bash(tool -o:*)", "allow"),
        ("go test -count=1", "allow Bash(go test:*)", "allow"),
        ("curl https://a.example/x", "allow Bash(curl https://a.example/x:*)", "allow"),
        ("curl https://a.example/x -L", "allow Bash(curl https://a.example/x:*)", "ask"),
        ("git fetch origin", "allow Bash(git fetch:*)", "allow"),
        ("git fetch ext::sh", "allow Bash(git fetch:*)", "ask"),
        ("git submodule foreach ls", "allow Bash(git submodule:*)", "ask"),
        ("git rebase -x 'rm a' main", "allow Bash(git rebase:*)", "ask"),
        ("timeout 60 pytest -x", "allow Bash(timeout 60 pytest:*)", "allow"),
        ("timeout 60 find . -delete", "allow Bash(timeout 60 find:*)", "ask"),
        ("sed -n 's/a/b/gp' x", "allow Bash(sed:*)", "allow"),
        ("sed -n 's/a/b/w x' y", "allow Bash(sed:*)", "ask"),
        ("sed -ni p x", "allow Bash(sed:*)", "ask"),
        ("tool ../../x", "allow Bash(tool:*)", "ask"),
        ("tool --dir=/etc", "allow Bash(tool:*)", "ask"),
        ("cat src/x.py", "allow Bash(cat src/*)", "allow"),
        ("tool a b main", "allow Bash(tool * main)", "ask"),
        ("tool a main", "allow Bash(tool * main)", "allow"),
        ("for i in a; do b; done", "allow Bash", "allow"),
        ("for i in a; do b; done", "allow Bash; deny Bash(c:*)", "ask"),
        ("python x.py", "allow Bash", "allow"),
        ("python x.py", "allow Bash; deny Read(.env)", "ask"),
        ("make", "allow Bash; ask Edit(x)", "ask"),
        ("$x a", "allow Bash", "ask"),
        ("tool > /srv/x", "allow Bash", "ask"),
        ("tool > x", "allow Bash", "allow"),
        ("cd /srv; tool > x", "allow Bash", "ask"),
        ("tool > .envrc", "allow Bash", "ask"),
        ("git -C x push", "allow Bash; deny Bash(git push:*)", "deny"),
        ("RM x", "allow Bash; deny Bash(rm:*)", "deny"),
        ("x=rm; $x y", "allow Bash; deny Bash(rm:*)", "deny"),
        ("cat a/.env", "allow Bash; deny Read(.env)", "deny"),
        ("tool --file=.env", "allow Bash; deny Read(.env)", "deny"),
        ("tool @.env", "allow Bash; deny Read(.env)", "deny"),
        ("cp x secrets/y", "allow Bash; deny Edit(secrets/**)", "deny"),
        ("cat secrets/y", "allow Bash; deny Edit(secrets/**)", "allow"),
        ("npm test", "allow Bash; ask Bash(npm *)", "ask"),
        ("ls; touch x", "allow Bash(ls:*)", "ask"),
        ("cd src && ls ../..", "", "ask"),
    ],
)
def test_a_rule_covers_what_it_says_and_no_more(command: str, rules: str, expected: str) -> None:
    assert bash(command, rules) == expected


def test_operands_after_cd_are_seen_from_there(tmp_path: Path) -> None:
    (tmp_path / "src/deep").mkdir(parents=True)
    cwd = str(tmp_path)
    assert bash("cd src && ls deep", "", cwd=cwd) == "allow"
    assert bash("cd src/deep && cat ../x", "", cwd=cwd) == "allow"
    assert bash("cd src/deep && cat ../../../x", "", cwd=cwd) == "ask"
    assert bash("cd missing; cat ../x", "", cwd=cwd) == "ask"
    assert bash("ls && cd src", "", cwd=cwd) == "ask"
    assert bash("cd .. && ls", "", cwd=cwd) == "ask"
    assert bash("cd src && git status", "", cwd=cwd) == "ask"


def test_a_pattern_is_judged_by_what_it_matches(tmp_path: Path) -> None:
    cwd = str(tmp_path)
    (tmp_path / "a.py").write_text("")
    assert bash("cat *.py", "", cwd=cwd) == "allow"
    (tmp_path / "b.py").symlink_to("/etc/passwd")
    assert bash("cat *.py", "", cwd=cwd) == "ask"
    (tmp_path / "-f").write_text("")
    assert bash("tail *", "", cwd=cwd) == "ask"


def test_a_program_of_the_workspace_is_not_the_one_in_the_table(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ls").write_text("#!/bin/sh\n")
    (tmp_path / "bin/ls").chmod(0o755)
    context = Context(cwd=str(tmp_path), path=f"{tmp_path}/bin:/usr/bin")
    assert evaluate(Call("bash", "ls"), parse_rules(""), "ask", context).verdict == "ask"
    assert evaluate(Call("bash", "pwd"), parse_rules(""), "ask", context).verdict == "allow"


@pytest.mark.parametrize(
    "tool, given, verdicts",
    [
        ("read", {"path": "a"}, ("allow", "allow", "allow", "allow")),
        ("grep", {"pattern": "x"}, ("allow", "allow", "allow", "allow")),
        ("glob", {"pattern": "/srv/**"}, ("ask", "ask", "ask", "allow")),
        ("read", {"path": "/srv/a"}, ("ask", "ask", "ask", "allow")),
        ("write", {"path": "a"}, ("deny", "ask", "allow", "allow")),
        ("edit", {"path": "/srv/a"}, ("deny", "ask", "ask", "ask")),
        ("notebook", {"action": "read", "path": "a.ipynb"}, ("allow",) * 4),
        ("notebook", {"action": "edit", "path": "a.ipynb"}, ("deny", "ask", "allow", "allow")),
        ("bash", {"command": "ls"}, ("allow",) * 4),
        ("bash", {"command": "make x"}, ("deny", "ask", "ask", "allow")),
        ("python", {"code": "1"}, ("deny", "ask", "ask", "allow")),
        ("agent", {"label": "a"}, ("deny", "ask", "ask", "allow")),
        ("mcp__srv__read", {}, ("deny", "ask", "ask", "allow")),
        ("web_fetch", {"url": "https://a.example.com/"}, ("ask", "ask", "ask", "allow")),
        ("web_search", {"queries": ["a"]}, ("ask", "ask", "ask", "allow")),
        ("todo", {"items": []}, ("allow",) * 4),
        ("rows", {"table": "t"}, ("deny", "ask", "ask", "allow")),
    ],
)
def test_each_mode_decides_by_its_table(
    tool: str, given: dict[str, object], verdicts: tuple[str, ...]
) -> None:
    context = Context(cwd=NOWHERE)
    found = tuple(evaluate(Call(tool, given), parse_rules(""), m, context).verdict for m in MODES)
    assert found == verdicts


def test_a_tool_that_declares_to_read_only_is_allowed() -> None:
    call = Call("rows", {"table": "t"}, read_only=True)
    assert evaluate(call, parse_rules(""), "plan").verdict == "allow"
    assert evaluate(call, parse_rules("deny rows"), "plan").verdict == "deny"


def test_taint_budget_and_repeats_narrow_every_mode() -> None:
    call = Call("bash", "git fetch origin")
    rules = parse_rules("allow Bash")
    assert evaluate(call, rules, "bypass", Context(cwd=NOWHERE)).verdict == "allow"
    tainted = Context(cwd=NOWHERE, tainted=True)
    assert evaluate(call, rules, "bypass", tainted).stage == "taint"
    spent = Context(cwd=NOWHERE, over_budget="200 of 200 tool calls are used")
    assert evaluate(Call("read", "a"), rules, "bypass", spent).stage == "budget"
    again = Context(cwd=NOWHERE, repeats=5)
    assert evaluate(Call("read", "a"), rules, "bypass", again).verdict == "ask"


def test_the_sessions_own_record_is_out_of_reach(tmp_path: Path) -> None:
    log = tmp_path / "s.agent.jsonl"
    context = Context(cwd=str(tmp_path), denied=(str(log),), blobs=(str(tmp_path / "blobs"),))
    rules = parse_rules("allow Bash, Read(**), Edit(**)")
    for call in (Call("read", str(log)), Call("write", "s.agent.jsonl"),
                 Call("bash", "cat s.agent.jsonl"), Call("bash", "tool > s.agent.jsonl"),
                 Call("write", "blobs/x"), Call("bash", "tool > blobs/x")):  # fmt: skip
        assert evaluate(call, rules, "bypass", context).verdict == "deny", call
    assert evaluate(Call("read", "blobs/x"), rules, "ask", context).verdict == "allow"


def test_unreadable_text_is_not_allowed_in_any_mode() -> None:
    for mode in MODES:
        call = Call("bash", "ls \u202e; pwd")
        verdict = evaluate(call, parse_rules("allow Bash"), mode, Context(cwd=NOWHERE)).verdict
        assert verdict in ("ask", "deny")


COMMANDS = [argument(row) for row in rows("perm_bash_bypass") if len(argument(row)) < 300] + [
    argument(row) for row in rows("perm_bash_readonly")
]
ALLOWS = st.sampled_from(
    ["Bash", "Bash(ls:*)", "Bash(git log:*)", "Bash(touch:*)", "Read(**)", "Edit(**)", "Python"]
)
NARROWS = st.one_of(
    st.sampled_from(
        ["Bash", "Bash(touch:*)", "Bash(git *)", "Bash(rm:*)", "Bash(*pwn*)", "Read(.env)",
         "Edit(src/**)", "Read", "Edit(**)", "Bash(ls > x)", "WebFetch", "mcp__srv"]
    ),
    st.sampled_from([command.split()[0] for command in COMMANDS if command.split()]).map(
        lambda head: f"Bash({head.replace('(', '').replace(')', '')}:*)"
    ),
)  # fmt: skip
CALLS = st.one_of(
    st.sampled_from(COMMANDS).map(lambda command: Call("bash", command)),
    st.sampled_from(["a", "src/a.py", ".env", "../x", ".git/config"]).map(
        lambda path: Call("edit", {"path": path})
    ),
    st.sampled_from(["a", ".env", "/etc/x"]).map(lambda path: Call("read", {"path": path})),
    st.just(Call("mcp__srv__x", {})),
    st.just(Call("web_fetch", {"url": "https://example.com/"})),
)


@settings(max_examples=400)
@given(CALLS, st.lists(ALLOWS), st.lists(NARROWS, min_size=1), st.booleans(),
       st.sampled_from(MODES))  # fmt: skip
def test_adding_deny_or_ask_rules_never_widens_a_verdict(
    call: Call, allow: list[str], more: list[str], deny: bool, mode: Mode
) -> None:
    context = Context(cwd=NOWHERE)
    before = evaluate(call, parse_rules({"allow": allow}), mode, context)
    effect = "deny" if deny else "ask"
    after = evaluate(call, parse_rules({"allow": allow, effect: more}), mode, context)
    assert SEVERITY[after.verdict] >= SEVERITY[before.verdict]


CLAUDE = {
    "permissions": {
        "deny": ["Read(./.env)", "Bash(curl:*)"],
        "ask": ["Bash(git push:*)"],
        "allow": [
            *("Bash(npm run lint)", "Bash(npm run test:*)", "Bash(python:*)", "Bash(env:*)"),
            *("Bash(git diff > x)", "Bash", "Edit(src/**)", "Write(docs/**)", "Read(~/.zshrc)"),
            *("WebFetch(domain:example.com)", "WebSearch", "mcp__github__get_issue", "Task(x)"),
            *("Bash(git * main)", "Bash(curl https://a.example/:*)", "Edit(*.py)", "New"),
        ],
        "defaultMode": "acceptEdits",
        "additionalDirectories": ["../docs"],
    }
}


def test_an_import_gives_one_line_a_rule() -> None:
    found = import_claude(CLAUDE)
    block = CLAUDE["permissions"]
    assert len(found) == sum(len(block[key]) for key in ("deny", "ask", "allow")) + 2
    outcomes = {item.text: item.outcome for item in found}
    assert outcomes["Bash(npm run lint)"] == "kept"
    assert outcomes["Bash(python:*)"] == "refused"
    assert outcomes["Bash(env:*)"] == "refused"
    assert outcomes["Bash(git diff > x)"] == "refused"
    assert outcomes["Bash(git * main)"] == "narrowed"
    assert outcomes["acceptEdits"] == "kept"
    assert outcomes["additionalDirectories"] == "refused"
    assert all(item.note for item in found if item.outcome != "kept")
    assert all(str(item) for item in found)
    kept = settle([Source("user", to_settings(found))])
    assert kept.mode == "accept-edits"
    assert len(kept.rules.allow) == sum(
        i.outcome != "refused" for i in found if i.effect == "allow"
    )


def test_nothing_imported_allows_a_bypass_row(tmp_path: Path) -> None:
    for row in rows("perm_bash_bypass"):
        if row["expected"] == "allow-by-rule":
            continue
        rules = parse_rules(row["rule"])
        block = {
            effect: [rule.text for rule in getattr(rules, effect)]
            + [refused.text for refused in rules.refused if effect == "allow"]
            for effect in ("deny", "ask", "allow")
        }
        imported = to_settings(import_claude({"permissions": block}))
        loaded = parse_rules(json.loads(json.dumps(imported))["permissions"])
        found = evaluate(Call("Bash", argument(row)), loaded, "ask", Context(cwd=str(tmp_path)))
        assert found.verdict != "allow", row["id"]


def test_offers_load_and_would_allow_the_call() -> None:
    for command in ("npm run build", "tool 'a b' \"c;d\"", "go vet ./..."):
        call = Call("bash", command)
        found = evaluate(call, parse_rules(""), "ask", Context(cwd=NOWHERE))
        assert found.offers
        for offer in found.offers:
            allowed = evaluate(call, parse_rules({"allow": [offer]}), "ask", Context(cwd=NOWHERE))
            assert allowed.verdict == "allow", (offer, allowed)
    for opaque in ("echo $x", "rm -rf build", "git push"):
        call = Call("bash", opaque)
        assert not evaluate(call, parse_rules(""), "ask", Context(cwd=NOWHERE)).offers


def test_a_reader_that_follows_links_does_not_leave_the_workspace(tmp_path: Path) -> None:
    cwd = str(tmp_path / "work")
    (tmp_path / "work/src").mkdir(parents=True)
    for command in ("grep -R x .", "rg -L x", "diff -r src src"):
        assert bash(command, "", cwd=cwd) == "allow"
    (tmp_path / "work/src/away").symlink_to(tmp_path)
    for command in ("grep -R x .", "grep --dereference-recursive x", "rg -L x", "diff -r src src"):
        assert bash(command, "", cwd=cwd) == "ask"
    assert bash("grep -r x .", "", cwd=cwd) == "allow"


@pytest.mark.parametrize(
    "key",
    [
        *("core.pager", "core.sshCommand", "core.hooksPath", "alias.log", "diff.x.textconv"),
        *("diff.external", "filter.x.clean", "gpg.program", "credential.helper", "include.path"),
        *("remote.origin.uploadpack", "remote.origin.promisor", "pager.log", "core.worktree"),
    ],
)
def test_git_asks_where_the_repository_configures_a_program(key: str, tmp_path: Path) -> None:
    work = build(tmp_path / "work")
    git(work, "config", key, "./evil")
    context = Context(cwd=str(work))
    assert evaluate(Call("bash", "git log -1"), parse_rules(""), "ask", context).verdict == "ask"
    trusted = Context(cwd=str(work), trusted=True)
    assert evaluate(Call("bash", "git log -1"), parse_rules(""), "ask", trusted).verdict == "allow"


def test_git_asks_in_a_submodule_a_bare_repository_or_below_the_root(tmp_path: Path) -> None:
    work = build(tmp_path / "work")

    def verdict(folder: Path) -> str:
        return bash("git status", "", cwd=str(folder))

    assert verdict(work) == "allow"
    assert verdict(work / "src") == "ask"
    bare = tmp_path / "bare"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    assert verdict(bare) == "ask"
    hook = work / ".git/hooks/post-index-change"
    hook.write_text("#!/bin/sh\n")
    assert verdict(work) == "ask"
    hook.unlink()
    git(work, "add", "sub")
    assert verdict(work) == "ask", "a submodule's configuration would be obeyed"
    tree = tmp_path / "tree"
    git(work, "rm", "-q", "-f", "--cached", "sub")
    git(work, "worktree", "add", "-q", str(tree))
    assert verdict(tree) == "allow"
    git(work, "config", "core.fsmonitor", "./evil")
    assert verdict(tree) == "ask", "a work tree obeys the configuration of its repository"
