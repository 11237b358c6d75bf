"""LSP on this project's own source: references agree with what ripgrep finds, symbol by symbol."""

from __future__ import annotations

import ast
import functools
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.tools import engine, lsp_server
from agent_kernel.tools.grep import GREP
from agent_kernel.tools.lsp import LSP
from agent_kernel.tools.lsp_view import PLACES
from tests.conftest import ROOT
from tests.tools.conftest import Bench

SYMBOLS = 20
PACKAGE = ROOT / "agent_kernel"


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    lsp_server.close_all()


def symbols() -> list[str]:
    """Names that one function or class of the core alone has, long enough to be no common word."""
    defined: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        words.update(re.findall(r"\w+", source))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                defined[node.name] += 1
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined[node.id] += 1  # a variable of that name is another symbol
            elif isinstance(node, ast.arg):
                defined[node.arg] += 1
    core = [
        node.name
        for path in sorted((PACKAGE / "core").glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and len(node.name) > 9
    ]
    return [
        name for name in sorted(core) if defined[name] == 1 and 3 <= words[name] <= PLACES // 2
    ][:: max(1, len(core) // (2 * SYMBOLS))][:SYMBOLS]


def code_places(bench: Bench, text: str, name: str) -> set[tuple[str, int]]:
    """Where ripgrep's lines hold the name as code: not in a comment, a string or a keyword."""
    found = set()
    for line in text.split("\n"):
        path, number, _ = line.split(":", 2)
        nodes = parsed(bench.workspace / path).get(int(number), ())
        if any(_names(node, name, int(number)) for node in nodes):
            found.add((path, int(number)))
    return found


@functools.cache
def parsed(path: Path) -> dict[int, list[ast.AST]]:
    """The nodes of a file by the lines they begin and end at."""
    found: dict[int, list[ast.AST]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for line in {getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)}:
            found.setdefault(line, []).append(node)
    return found


def _names(node: ast.AST, name: str, line: int) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == name and node.lineno == line
    if isinstance(node, ast.Name):
        return node.id == name and node.lineno == line
    if isinstance(node, ast.Attribute):
        return node.attr == name and (node.end_lineno or node.lineno) == line
    if isinstance(node, ast.alias):
        return name in (node.name, node.asname) and node.lineno == line
    return False


@pytest.mark.slow
async def test_references_agree_with_ripgrep_for_twenty_symbols(bench: Bench) -> None:
    if lsp_server.ty() is None or engine.ripgrep() is None:
        pytest.skip("ty or ripgrep is not installed")
    shutil.copytree(
        PACKAGE,
        bench.workspace / "agent_kernel",
        ignore=shutil.ignore_patterns("__pycache__", "*.js", "*.css"),
    )
    names, differing = symbols(), {}
    assert len(names) == SYMBOLS
    for name in names:
        grepped = await bench.text(GREP, pattern=rf"\b{name}\b", glob="*.py", limit=2000)
        said = await bench.text(LSP, action="references", symbol=name)
        lines = [line.split(":", 2)[:2] for line in said.split("\n")]
        found = {(path, int(number)) for path, number in lines}
        truth = code_places(bench, grepped, name)
        if found != truth:
            differing[name] = (found - truth, truth - found)
    assert not differing


async def test_a_planted_error_in_own_source_is_diagnosed(bench: Bench) -> None:
    if lsp_server.ty() is None:
        pytest.skip("ty is not installed")
    source = (PACKAGE / "tools" / "diffs.py").read_text(encoding="utf-8")
    planted = source.replace("lines = text.split", "lines: int = text.split")
    assert planted != source
    path = Path("agent_kernel/tools/diffs.py")
    bench.file(str(path), source)
    assert await bench.text(LSP, action="diagnostics", path=str(path)) == "ty found nothing"
    bench.file(str(path), planted)
    text = await bench.text(LSP, action="diagnostics", path=str(path))
    assert "error:" in text
    assert "(in split)" in text
