"""Glob and grep: both engines, on the same cases, give the same answers."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from agent_kernel.core.tool import ToolError
from agent_kernel.tools import engine, globs, walker
from agent_kernel.tools.glob import GLOB, find
from agent_kernel.tools.grep import GREP, search
from tests.tools.conftest import Bench

RG = engine.ripgrep()
needs_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not on PATH")
ENGINES = [pytest.param(RG, id="rg", marks=needs_rg), pytest.param(None, id="python")]

TREE: dict[str, bytes] = {
    ".gitignore": b"*.log\n/build/\n!keep.log\ndocs/**/tmp\n# comment\n\\#odd\ntrail \n",
    "a.py": b"import os\ndef alpha():\n    return 1\n\nclass Beta:\n    pass\n",
    "b.txt": b"alpha\r\nbeta gamma\r\nALPHA\r\n",
    "app.log": b"alpha in a log\n",
    "keep.log": b"alpha kept\n",
    "#odd": b"alpha\n",
    "trail": b"alpha\n",
    "build/out.py": b"alpha\n",
    "sub/build/out.py": b"alpha sub\n",
    "sub/.ignore": b"secret*\n!secret-ok.py\n",
    "sub/secret.py": b"alpha\n",
    "sub/secret-ok.py": b"alpha ok\n",
    "sub/x.log": b"alpha\n",
    "sub/deep/er/c.py": b"x = 'alpha'\n" * 3,
    "docs/a/tmp/x.md": b"alpha\n",
    "docs/a/y.md": b"alpha\n",
    "docs/tmp/z.md": b"alpha\n",
    "nested/.git/HEAD": b"alpha\n",
    "nested/n.log": b"alpha nested repository\n",
    "node_modules/m/index.js": b"alpha\n",
    ".venv/v.py": b"alpha\n",
    ".hidden/h.py": b"alpha\n",
    "bin.dat": b"alpha\0beta\n",
    "latin.txt": b"caf\xe9 alpha\n",
    "utf16.txt": "alpha wide\n".encode("utf-16"),
    "bom.txt": b"\xef\xbb\xbfalpha bom\n",
    "space name/\xc3\xbc.py".encode().decode("latin-1").encode("latin-1").decode(): b"alpha\n",
    "session.agent.jsonl": b"alpha\n",
    "nb.agent.2.jsonl.lock": b"alpha\n",
    "nb.agent/blobs/0f": b"alpha\n",
    "my.agent.py": b"alpha\n",
    "empty": b"",
    "noeol": b"alpha",
    "z/Zeta.py": b"alpha\n",
    "z-first.py": b"alpha\n",
    "z.py": b"alpha\n",
}


@pytest.fixture
def tree(bench: Bench) -> Bench:
    for name, content in TREE.items():
        bench.file(name, content)
    (bench.workspace / "link.py").symlink_to("a.py")
    (bench.workspace / "linked").symlink_to("sub")
    return bench


@pytest.mark.parametrize("program", ENGINES)
async def test_a_sessions_own_files_are_not_found(tree: Bench, program: str | None) -> None:
    found, _, _ = await find("**", tree.workspace, tree.workspace, program)
    assert "my.agent.py" in found
    assert not [name for name in found if ".agent" in name and not name.endswith(".py")]


PATTERNS = [
    "**/*.py",
    "*.py",
    "**",
    "sub/**",
    "**/deep/**/*.py",
    "*.{py,txt}",
    "[az]*.py",
    "**/[!a]*.py",
    "**/?.py",
    "docs/*/*.md",
    "**/*.log",
    "nothing/**",
]
QUERIES: list[dict[str, object]] = [
    {"pattern": "alpha"},
    {"pattern": "alpha", "ignore_case": True},
    {"pattern": "^alpha$"},
    {"pattern": r"\w+ \w+"},
    {"pattern": "alpha", "glob": "*.py"},
    {"pattern": "alpha", "glob": "sub/**/*.py"},
    {"pattern": "alpha", "glob": "*.log"},
    {"pattern": "alpha", "glob": "*.{md,txt}"},
    {"pattern": "alpha", "mode": "files"},
    {"pattern": "alpha", "mode": "count"},
    {"pattern": "return", "context": 1},
    {"pattern": "alpha", "context": 2, "glob": "*.py"},
    {"pattern": "alpha", "path": "sub"},
    {"pattern": "alpha", "path": "a.py"},
    {"pattern": "alpha", "path": "app.log"},
    {"pattern": "alpha", "path": "node_modules"},
    {"pattern": "alpha", "path": "build"},
    {"pattern": "nowhere to be found"},
    {"pattern": "(?i)ALPHA OK|kept"},
    {"pattern": "-alpha|--files"},
]


def query(bench: Bench, **value: object) -> tuple[engine.Query, int]:
    root = bench.workspace.resolve()
    parsed = GREP.parse(value)
    made = engine.Query(
        parsed.mode,
        root / parsed.path,
        root,
        parsed.pattern,
        parsed.glob,
        parsed.context,
        parsed.ignore_case,
    )
    return made, parsed.limit


@needs_rg
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_both_engines_list_the_same_files_in_the_same_order(
    tree: Bench, pattern: str
) -> None:
    root = tree.workspace.resolve()
    for start in (root, root / "sub", root / "node_modules"):
        by_rg = await find(pattern, start, start, RG)
        by_us = await find(pattern, start, start, None)
        assert by_rg[:2] == by_us[:2]


@needs_rg
@pytest.mark.parametrize("value", QUERIES, ids=str)
async def test_both_engines_find_the_same_lines(tree: Bench, value: dict[str, object]) -> None:
    asked, limit = query(tree, **value)
    by_rg, rg = await search(asked, limit, RG)
    by_us, us = await search(asked, limit, None)
    assert by_us.lines == by_rg.lines
    assert by_us.hits == by_rg.hits
    assert (rg.engine, us.engine) == ("rg", "python")


@pytest.mark.parametrize("program", ENGINES)
async def test_what_is_hidden_stays_hidden(tree: Bench, program: str | None) -> None:
    root = tree.workspace.resolve()
    found, _, _ = await find("**", root, root, program)
    assert set(TREE) - set(found) == {
        "app.log",
        "#odd",
        "trail",
        "build/out.py",
        "sub/secret.py",
        "sub/x.log",
        "docs/a/tmp/x.md",
        "docs/tmp/z.md",
        "nested/.git/HEAD",
        "node_modules/m/index.js",
        ".venv/v.py",
        "session.agent.jsonl",
        "nb.agent.2.jsonl.lock",
        "nb.agent/blobs/0f",
    }
    assert "link.py" not in found
    assert not any(path.startswith("linked/") for path in found)


@pytest.mark.parametrize("program", ENGINES)
async def test_a_refused_pattern_is_an_error_in_the_engines_words(
    tree: Bench, program: str | None
) -> None:
    asked, limit = query(tree, pattern="(unclosed")
    with pytest.raises(ToolError, match=r"(?s)refuses '\(unclosed'.*(unclosed|unterminated)"):
        await search(asked, limit, program)


async def test_a_catastrophic_pattern_is_stopped_at_the_deadline(bench: Bench) -> None:
    bench.file("a", "a" * 60 + "!\n")
    asked, limit = query(bench, pattern="(a+)+$")
    began = time.monotonic()
    with pytest.raises(ToolError, match="simpler pattern"):
        await search(asked, limit, None, timeout=1.0)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("program", ENGINES)
async def test_250_lines_and_the_count_of_all(
    bench: Bench, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(10):
        bench.file(f"f{at}", "hit\n" * 100)
    monkeypatch.setattr(engine, "ripgrep", lambda: program)
    answer = await bench.call(GREP, pattern="hit")
    lines = answer.content[0].text.split("\n")
    assert len(lines) == 251
    assert lines[-1] == "[250 of 1,000 matching lines shown; narrow pattern, path or glob]"
    assert answer.meta["matched"] == 1000
    assert answer.meta["truncated"]


@pytest.mark.parametrize("program", ENGINES)
async def test_100_paths_and_the_count_of_all(
    bench: Bench, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(5000):
        (bench.workspace / f"{at:04}.txt").touch()
    monkeypatch.setattr(engine, "ripgrep", lambda: program)
    lines = (await bench.text(GLOB, pattern="*.txt")).split("\n")
    assert lines[:2] == ["0000.txt", "0001.txt"]
    assert lines[-1] == "[100 of 5,000 files shown; narrow the pattern or the path]"
    assert len(lines) == 101


async def test_paths_are_shown_from_the_workspace(tree: Bench) -> None:
    assert await tree.text(GLOB, pattern="*.py", path="sub") == "sub/secret-ok.py"
    assert await tree.text(GREP, pattern="alpha", path="sub/secret-ok.py") == (
        "sub/secret-ok.py:1:alpha ok"
    )


async def test_no_match_is_an_answer_with_a_hint(tree: Bench) -> None:
    said = await tree.text(GLOB, pattern="c.py")
    assert said.startswith("no file fits 'c.py' in .")
    assert said.endswith("1 fit '**/c.py'")
    assert await tree.text(GREP, pattern="zzz", glob="*.py") == (
        "no match for 'zzz' in . (glob '*.py')"
    )
    assert "there is 'sub'" in await tree.error(GREP, pattern="x", path="subb")


async def test_a_long_line_is_cut(bench: Bench) -> None:
    bench.file("a.min.js", "x" * 100_000 + "needle\n")
    text = await bench.text(GREP, pattern="needle")
    assert text == f"a.min.js:1:{'x' * 500} [line cut]"


@pytest.mark.parametrize("program", ENGINES)
async def test_secrets_are_found_only_in_a_file_that_was_named(
    bench: Bench, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.file(".env", "PASSWORD=not-a-real-one\n")
    bench.file("a.py", "PASSWORD = read()\n")
    bench.file("private/b.py", "PASSWORD = 1\n")
    bench.services["may_read"] = lambda path: "/private/" not in path
    monkeypatch.setattr(engine, "ripgrep", lambda: program)
    assert await bench.text(GREP, pattern="PASSWORD") == (
        "a.py:1:PASSWORD = read()\n[not shown, read it by name: .env, private/b.py]"
    )
    assert (
        await bench.text(GREP, pattern="PASSWORD", path=".env") == ".env:1:PASSWORD=not-a-real-one"
    )


@pytest.mark.parametrize("program", ENGINES)
async def test_files_over_5_mib_are_not_searched(bench: Bench, program: str | None) -> None:
    bench.file("big", b"x\n" * (3 << 20) + b"needle\n")
    bench.file("small", b"needle\n")
    asked, limit = query(bench, pattern="needle")
    found, _ = await search(asked, limit, program)
    assert found.lines == ["small:1:needle"]


async def test_a_secret_of_the_environment_never_reaches_the_engine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_TOKEN", "not-a-real-secret")
    fake = tmp_path / "rg"
    fake.write_text("#!/bin/sh\nenv\n")
    fake.chmod(0o755)
    ran: list[bytes] = []
    asked, _ = query(bench, pattern="x")
    await engine.run(asked, ran.append, 10, str(fake))
    assert b"PATH=" in b"".join(ran)
    assert b"not-a-real-secret" not in b"".join(ran)


@pytest.mark.parametrize(
    "pattern,path,fits",
    [
        ("*.py", "a.py", True),
        ("*.py", "x/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "ab", False),
        ("a/**", "a/x", True),
        ("a/**", "a", False),
        ("**/x/**/y", "a/x/b/x/c/y", True),
        ("**/x/y/**/z", "x/x/y/z", True),
        ("a*b*c", "aXbYbc", True),
        ("a*b*c", "ab", False),
        ("a*bc*c", "abcbc", True),
        ("[]x]", "]", True),
        ("[!a]", "b", True),
        ("[!a]", "/", False),
        ("[", "[", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("{a,b}{c,d}", "bd", True),
        ("a?c", "a/c", False),
        (".*", ".x", True),
    ],
)
def test_a_glob_means_what_it_says(pattern: str, path: str, fits: bool) -> None:
    assert globs.matcher(pattern)(path) is fits


@pytest.mark.parametrize("pattern", ["*a" * 30, "**/a/" * 20 + "b", "{a,b}" * 6])
def test_no_glob_takes_long(pattern: str) -> None:
    began = time.monotonic()
    globs.matcher(pattern)("a" * 250)
    globs.matcher(pattern)("a/" * 120 + "c")
    assert time.monotonic() - began < 1


def test_too_many_braces_are_refused() -> None:
    with pytest.raises(ValueError, match="over 100"):
        globs.matcher("{a,b,c}" * 6)


def test_the_worker_needs_nothing_but_the_stdlib() -> None:
    assert Path(walker.__file__).read_text().count("agent_kernel") == 1
    assert shutil.which("bash")
