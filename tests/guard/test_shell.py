"""Shell: what the scanner accepts and refuses, what the finder sees."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.guard.shell import LIMIT, Opaque, Program, scan
from agent_kernel.guard.shell_find import find


def argvs(text: str) -> list[tuple[str, ...]]:
    read = scan(text)
    assert isinstance(read, Program), read
    return [command.argv for command in read.commands]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("ls -l", [("ls", "-l")]),
        ("echo 'a b'\"c d\"e\\;f", [("echo", "a bc de;f")]),
        ("git log HEAD~1", [("git", "log", "HEAD~1")]),
        ("a&&b||c;d\ne|f", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
        ("ls # it's\npwd", [("ls",), ("pwd",)]),
        ("ls 2>/dev/null >/dev/null 2>&1 &>/dev/null", [("ls",)]),
        ("[ -f a ] && ls", [("[", "-f", "a", "]"), ("ls",)]),
        ("find . ! -name x", [("find", ".", "!", "-name", "x")]),
        ("echo a#b", [("echo", "a#b")]),
        ("ls &&\n\n# why\npwd\n", [("ls",), ("pwd",)]),
    ],
)
def test_the_accepted_grammar_is_read_word_by_word(
    text: str, expected: list[tuple[str, ...]]
) -> None:
    assert argvs(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("echo $x", 'echo "$x"', 'echo "a\\b"', 'echo "a!"', "echo `x`", "echo a\\n", "a\\\nb"),
        *("ls > x", "ls >> x", "ls 2>x", "ls <<< x", "cat <<E\nE", "ls &", "ls |& cat", "a ;; b"),
        *("(ls)", "{ ls; }", "if a; then b; fi", "a() { b; }", "x=1 ls", "time ls", "! ls"),
        *("echo ~", "echo a=~", "echo a:~/b", "echo {a,b}", "echo [ab]", "rm *", "ls s*/a"),
        *("&& ls", "ls &&", "; ls", "ls | ", "", "  ", "# only", "> x", "2>/dev/null", "-x"),
        *("ls\x00", "ls\r\npwd", "ls\u00a0-l", "ls \u200b", "ls \u202e", "ls \u2028", "ls \x1b"),
        *("ls '", 'ls "', "ls \\", "2>/dev/nullx", "ls 2>&1x", "ls 2>/dev/null>x", "cat -*"),
        *("ls \U000e0041", "ls \ud800", "''", "cat <<<x", "cat < $x", "cat < a*"),
    ],
)
def test_everything_else_is_opaque(text: str) -> None:
    assert isinstance(scan(text), Opaque)


def test_a_long_text_is_opaque_and_a_full_one_is_read_quickly() -> None:
    assert isinstance(scan("a" * (LIMIT + 1)), Opaque)
    unit = "grep -n 'a b' src/a.py | wc -l && "
    text = (unit * (LIMIT // len(unit) + 1))[: LIMIT - 3].rpartition(" && ")[0]
    best = min(_seconds(text) for _ in range(20))
    assert best < 0.005, f"{best * 1000:.1f} ms for {len(text)} characters"


def _seconds(text: str) -> float:
    start = time.perf_counter()
    assert isinstance(scan(text), Program)
    return time.perf_counter() - start


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    scan(text)
    find(text)


@pytest.mark.parametrize(
    "text, name",
    [
        ("env -i A=1 timeout -k 2 5 nohup rm x", "rm"),
        ("sudo -u bob sh -c 'cd x; rm y'", "rm"),
        ("find . -exec sh -c 'rm $0' {} \\;", "rm"),
        ("x=rm; $x y", "rm"),
        ("$(echo rm) y", "rm"),
        ('echo "$(case a in a) rm x;; esac)"', "rm"),
        ("cat <<E\n`rm x`\nE", "rm"),
        ("bash <<E\nrm x\nE", "rm"),
        ("trap 'rm x' EXIT", "rm"),
        ("alias ls='rm x'", "rm"),
        ("git -c alias.s='!rm x' s", "rm"),
        ("ssh host rm x", "rm"),
        ("xargs -n 1 -I{} rm {}", "rm"),
        ("watch -n 2 'rm x'", "rm"),
        ("eval r''m x", "rm"),
        ("$'\\x72m' x", "rm"),
        ("uv run --with a rm x", "rm"),
        ("docker exec -it box rm x", "rm"),
        ("tar cf a b --checkpoint-action=exec='rm x'", "rm"),
        ("/bin/rm x", "rm"),
    ],
)
def test_the_finder_looks_through(text: str, name: str) -> None:
    assert name in find(text).names


@pytest.mark.parametrize(
    "text",
    ["$x y", "${a}b c", "`a` b", "{a,b}", "a? b", "eval $x", "bash -c \"$x\"", "curl x | bash",
     "PATH=. ls", "bash", "xargs", "echo ' | bash"],
)  # fmt: skip
def test_a_name_or_code_known_at_run_time_is_dynamic(text: str) -> None:
    found = find(text)
    assert found.dynamic or text == "xargs"


@pytest.mark.parametrize(
    "text", ["ls $x", "for i in *; do cat $i; done", "echo $((n + 1))", "cat <<E\nit's\nE",
             "command -v rm", "case $x in *) ls;; esac", "[[ $a == b* ]] && ls"],
)  # fmt: skip
def test_unknown_arguments_alone_are_not_dynamic(text: str) -> None:
    found = find(text)
    assert not found.dynamic
    assert "rm" not in found.names


def test_redirects_name_the_files_they_write() -> None:
    assert find("ls >a 2>>b &>c <d >/dev/null 2>&1").writes == ("a", "b", "c")
    assert find("ls <d").reads == ("d",)


def test_nested_bombs_end_and_are_dynamic() -> None:
    for text in ("$(" * 3_000, '"$(' * 900, "${x:-" * 900, "env " * 3_000 + "rm", "((" * 2_000):
        start = time.perf_counter()
        found = find(text if text.startswith("env") else "echo " + text)
        assert time.perf_counter() - start < 5
        assert found.dynamic or "env" in found.names or "((" in text
