"""Docs: what they say runs, what they tabulate is so, and what a person can type is in them."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from docs import generate

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = generate.documents()
FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| (F\w+\.\d+) \| (.+?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
STATES = {"missing", "partial", "done"}

# One process a document, its blocks in order in one namespace; `await` at the top, as in a cell.
RUNNER = """
import ast, asyncio, inspect, sys
async def main():
    space = {"__name__": "__main__"}
    for number, block in enumerate(sys.stdin.read().split("\\0"), 1):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(block, f"block {number}", "exec", flags=flags)
        value = eval(code, space)
        if inspect.iscoroutine(value):
            await value
asyncio.run(main())
"""


def name_of(path: Path) -> str:
    """A document as people name it."""
    return path.relative_to(ROOT).as_posix()


def python_blocks(path: Path) -> list[str]:
    """The Python blocks of a document, in order."""
    return [textwrap.dedent(block) for block in FENCE.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if python_blocks(p)], ids=name_of)
def test_every_python_block_runs(path: Path, workspace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input="\0".join(python_blocks(path)),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{name_of(path)}:\n{done.stdout}\n{done.stderr}"


def test_every_generated_table_is_what_the_code_says() -> None:
    assert generate.problems() == []


def test_a_stale_table_an_unclosed_mark_and_an_unknown_name_are_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "<!-- generated: events -->\nold\n<!-- /generated: events -->\n"
        "<!-- generated: dev-verbs -->\n"
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(
        "<!-- generated: nothing -->\n<!-- /generated: nothing -->\n"
    )
    found = "\n".join(generate.problems(tmp_path))
    assert "README.md: stale" in found
    assert "'dev-verbs' is not closed" in found
    assert "no generator is called 'nothing'" in found


def test_every_verb_of_dev_that_a_document_names_exists() -> None:
    import dev

    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        unknown = set(re.findall(r"python3 dev\.py (\w+)", text)) - set(dev.VERBS)
        assert not unknown, f"{name_of(path)} names {unknown}"


def test_the_table_of_features_is_honest_about_its_tests() -> None:
    rows = ROW.findall((ROOT / "docs" / "features.md").read_text(encoding="utf-8"))
    assert len(rows) == len({row[0] for row in rows}) > 100
    for ident, _, state, tested in rows:
        assert state in STATES, f"{ident}: {state!r}"
        files = re.findall(r"`?(tests/[\w/.-]+)", tested)
        assert bool(files) == (state != "missing"), f"{ident} is {state} and names {files}"
        absent = [name for name in files if not (ROOT / name).exists()]
        assert not absent, f"{ident}: no such test: {absent}"


def test_no_document_or_source_holds_a_path_of_a_machine_or_a_registry() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    bad = re.compile(rb"/w[o]rk/|(?<!self)/r[o]ot/|(py[p]i|python[h]osted|n[p]mjs)\.(com|org)")
    found = [
        name
        for name in listed.stdout.split("\0")
        # the cases are other people's inputs, kept byte for byte
        if name
        and not name.startswith("tests/cases/")
        and (ROOT / name).is_file()
        and bad.search((ROOT / name).read_bytes())
    ]
    assert not found
