"""Paths: where they lead, what may not be written, and that a swap moves no byte outside."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agent_kernel.guard import Call, Context, evaluate, parse_rules
from agent_kernel.guard.paths import (
    ChangedDuringCheck,
    Problem,
    Target,
    open_target,
    protected_path,
    resolve,
    secret,
    within,
    write_target,
)

SWAPS = int(os.environ.get("AK_SWAPS", "10000"))


def target(text: str, folder: Path) -> Target:
    found = resolve(text, str(folder), [str(folder)])
    assert isinstance(found, Target), found
    return found


def read(text: str, rules: str, folder: Path) -> str:
    return evaluate(Call("read", text), parse_rules(rules), "ask", Context(cwd=str(folder))).verdict


@pytest.mark.parametrize(
    "text, verdict",
    [
        ("", "error"), ("a\x00b", "error"), ("a/" + "b" * 256, "error"), ("a/" * 2_100, "error"),
        ("a\nb", "ask"), ("a\tb", "ask"), ("a\u202eb", "ask"), ("a\u200bb", "ask"),
        ("~bob/x", "ask"), ("/proc/self/root/x", "ask"), ("/sys/x", "ask"), ("/x/../proc/1", "ask"),
        ("/dev/sda", "deny"), ("/dev/stdin", "deny"), ("/dev/fd/3", "deny"),
    ],
)  # fmt: skip
def test_a_path_is_stopped_before_it_is_looked_up(text: str, verdict: str, tmp_path: Path) -> None:
    found = resolve(text, str(tmp_path), [str(tmp_path)])
    assert isinstance(found, Problem)
    assert found.verdict == verdict


def test_inside_is_compared_part_by_part(tmp_path: Path) -> None:
    assert within("/srv/app/x", ["/srv/app"])
    assert within("/srv/app", ["/srv/app"])
    assert not within("/srv/app-evil/x", ["/srv/app"])
    assert target("a/../b//c/.", tmp_path).lexical == f"{tmp_path}/b/c"


def test_dots_after_a_link_are_followed_as_the_kernel_follows_them(tmp_path: Path) -> None:
    work, away = tmp_path / "work", tmp_path / "away/deep"
    work.mkdir()
    away.mkdir(parents=True)
    (work / "link").symlink_to(away)
    found = target("link/../secret", work)
    assert found.lexical == f"{work}/secret"
    assert found.real == f"{tmp_path}/away/secret"
    assert not found.inside
    assert read("link/../secret", "", work) == "ask"


def test_a_link_has_the_verdict_of_where_it_leads(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("x")
    (work / "out").symlink_to(tmp_path / "secret")
    (work / "inner").write_text("y")
    (work / "in").symlink_to(work / "inner")
    assert read("in", "", work) == "allow"
    assert read("out", "allow Read(**)", work) == "ask"
    assert read("out", f"deny Read(/{tmp_path}/secret)", work) == "deny"


def test_special_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read("pipe", "", tmp_path) == "deny"
    with pytest.raises(PermissionError):
        open_target(target("pipe", tmp_path))


def test_a_file_with_two_names_asks(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert read("b", "allow Read(**)", tmp_path) == "ask"


@pytest.mark.parametrize(
    "rule, path, denied",
    [
        (".env", ".env", True), (".env", "a/b/.env", True), (".env", "a/../.ENV", True),
        (".env", ".env.example", False), ("./.env", "a/.env", False),
        ("secrets", "secrets/a", True),
        ("secrets/**", "secrets/a/b", True), ("secrets/", "x/secrets/a", True),
        ("*.key", "a/b.key", True), ("a/*.key", "a/b/c.key", False), ("a/**/c", "a/c", True),
        ("caf\u00e9", "cafe\u0301", True), ("[ab].txt", "a.txt", True),
        ("[!a].txt", "a.txt", False),
        ("**/x", "a/b/x", True), ("src/?.py", "src/a.py", True), ("/top", "top", True),
    ],
)  # fmt: skip
def test_a_deny_pattern_reads_as_gitignore_does(
    rule: str, path: str, denied: bool, tmp_path: Path
) -> None:
    assert (read(path, f"deny Read({rule})", tmp_path) == "deny") is denied


def test_an_allow_pattern_without_a_slash_covers_one_folder(tmp_path: Path) -> None:
    def edit(path: str, rules: str) -> str:
        context = Context(cwd=str(tmp_path), home=str(tmp_path / "home"))
        return evaluate(Call("edit", path), parse_rules(rules), "ask", context).verdict

    assert edit("a.py", "allow Edit(*.py)") == "allow"
    assert edit("b/a.py", "allow Edit(*.py)") == "ask"
    assert edit("b/a.py", "allow Edit(**/*.py)") == "allow"
    assert edit("~/x", "allow Edit(~/x)") == "allow"
    assert edit(f"{tmp_path.parent}/x", f"allow Edit(/{tmp_path.parent}/x)") == "allow"
    assert edit(f"{tmp_path.parent}/x", "allow Edit") == "ask"


@pytest.mark.parametrize(
    "path",
    [
        *(".git/hooks/x", "sub/.git/config", ".GIT/config", ".gitmodules", ".vscode/tasks.json"),
        *(".envrc", "conftest.py", "a/b/conftest.py", "x.pth", ".npmrc", ".ssh/config", ".bashrc"),
        *(".github/workflows/ci.yml", ".ipython/profile_default/startup/0.py", ".jupyter/x.py"),
        *("kernels/a/kernel.json", ".config/agent_kernel/settings.json", ".agent_kernel/x"),
        *(".pre-commit-config.yaml", ".idea/x", ".cursor/rules", ".mcp.json", ".aws/config"),
    ],
)
def test_a_protected_path_asks_in_every_mode_and_under_every_rule(
    path: str, tmp_path: Path
) -> None:
    assert protected_path(f"{tmp_path}/{path}")
    context = Context(cwd=str(tmp_path))
    rules = parse_rules("allow Edit(**), Edit, Bash")
    for call in (Call("write", {"path": path}), Call("bash", f"tool > {path}")):
        assert evaluate(call, rules, "bypass", context).verdict == "ask"


def test_key_files_ask_to_be_read_and_their_examples_do_not() -> None:
    for name in (".env", ".env.local", "a.pem", "id_ed25519", ".netrc", "x/.aws/credentials"):
        assert secret(f"/w/{name}")
    for name in (".env.example", "environment.py", "pem.py", "idea.py", "credentials"):
        assert not secret(f"/w/{name}")


def test_what_was_judged_is_what_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_text("inside")
    judged = target("a/f", tmp_path)
    descriptor = open_target(judged)
    try:
        assert os.read(descriptor, 100) == b"inside"
    finally:
        os.close(descriptor)
    (tmp_path / "a/f").unlink()
    (tmp_path / "a/f").symlink_to("/etc/passwd")
    with pytest.raises(ChangedDuringCheck):
        open_target(judged)
    with pytest.raises(ChangedDuringCheck):
        write_target(judged, b"x")


def test_a_write_keeps_the_mode_and_makes_folders_when_asked(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o750)
    write_target(target("f", tmp_path), b"new")
    assert (tmp_path / "f").read_text() == "new"
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o750
    with pytest.raises(FileNotFoundError):
        write_target(target("x/y/g", tmp_path), b"new")
    write_target(target("x/y/g", tmp_path), b"new", parents=True)
    assert (tmp_path / "x/y/g").read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f", "x"]


def test_a_folder_swapped_for_a_link_never_moves_a_byte_outside(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / "src").mkdir(parents=True)
    outside.mkdir()
    stop = threading.Event()

    def swap() -> None:
        for _ in range(SWAPS):
            if stop.is_set():
                return
            (work / "src").rename(work / "kept")
            (work / "src").symlink_to(outside)
            (work / "src").unlink()
            (work / "kept").rename(work / "src")

    thread = threading.Thread(target=swap)
    thread.start()
    written = refused = 0
    try:
        while thread.is_alive():
            found = resolve("src/new.py", str(work), [str(work)])
            if not isinstance(found, Target) or not found.inside:
                refused += 1
                continue
            try:
                write_target(found, b"x = 1\n")
                written += 1
            except (ChangedDuringCheck, FileNotFoundError):
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert not list(outside.iterdir())
    assert written
    assert refused


@pytest.mark.parametrize(
    "text",
    [".git./config", ".git /hooks/x", "GIT~1/config", ".git::$INDEX_ALLOCATION/config", ".vimrc",
     ".bash_aliases", ".gdbinit", ".curlrc", "a/.yarnrc.yml", ".cargo/config.toml", ".hg/hgrc",
     ".devcontainer/devcontainer.json", "Conftest.py.", ".inputrc"],
)  # fmt: skip
def test_a_disguised_or_self_running_file_is_protected_under_every_rule(
    text: str, tmp_path: Path
) -> None:
    context = Context(cwd=str(tmp_path), home="/root")
    rules = parse_rules("allow Edit(**), Bash")
    for mode in ("ask", "accept-edits", "bypass"):
        assert evaluate(Call("Edit", {"path": text}), rules, mode, context).verdict == "ask"  # type: ignore[arg-type]
    assert evaluate(Call("Bash", f"tee '{text}'"), rules, "ask", context).verdict == "ask"


@pytest.mark.parametrize(
    "text", [".git-credentials", ".pgpass", "a/.pypirc", "x.P12", ".docker/config.json",
             ".kube/config", ".config/gcloud/credentials.db", ".ssh/id_x", ".gnupg/secring.gpg"],
)  # fmt: skip
def test_a_file_of_keys_asks_to_be_read(text: str, tmp_path: Path) -> None:
    context = Context(cwd=str(tmp_path), home="/root")
    assert evaluate(Call("Read", {"path": text}), parse_rules(""), "ask", context).verdict == "ask"
    assert evaluate(Call("Bash", f"cat {text}"), parse_rules("RO"), "ask", context).verdict == "ask"
