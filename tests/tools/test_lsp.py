"""LSP: every action against a real server, faults and odd abilities against a scripted one."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.tools import lsp, lsp_server
from agent_kernel.tools.lsp import LSP
from agent_kernel.tools.lsp_documents import characters, units
from agent_kernel.tools.lsp_view import listed
from tests.tools.conftest import Bench

SCRIPT = Path(__file__).with_name("scripted_lsp.py")
A = """import b


class Foo:
    def bar(self) -> int:
        return b.helper("é𝄞", "x")


def caller() -> int:
    return Foo().bar()
"""
B = '''def helper(text: str, n: int) -> int:
    """Help with n."""
    return n + 1
'''


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    lsp_server.close_all()


@pytest.fixture
def project(bench: Bench) -> Bench:
    if lsp_server.ty() is None:
        pytest.skip("ty is not installed")
    bench.file("a.py", A)
    bench.file("b.py", B)
    return bench


async def test_definition_and_references_of_a_two_file_project(project: Bench) -> None:
    expected = "b.py:1:5: def helper(text: str, n: int) -> int:"
    said = await project.call(LSP, action="definition", path="a.py", line=6, symbol="helper")
    assert said.content[0].text == expected
    assert said.meta["tier"] == "symbol"
    assert said.meta["server"] == "ty"
    assert said.meta["cold"] is True  # its seconds are those of a start
    again = await project.call(LSP, action="definition", path="a.py", line=6, symbol="helper")
    assert again.meta["cold"] is False
    assert await project.text(LSP, action="definition", path="a.py", line=6, column=18) == expected
    text = await project.text(LSP, action="references", symbol="helper")
    assert text.split("\n") == ['a.py:6:18: return b.helper("é𝄞", "x")', expected]


async def test_hover_symbols_and_outline(project: Bench) -> None:
    assert "Help with n." in await project.text(LSP, action="hover", symbol="helper")
    assert await project.text(LSP, action="symbols", symbol="help") == "b.py:1:1: function helper"
    assert await project.text(LSP, action="outline", path="a.py") == (
        "4-6: class Foo\n  5-6: method bar\n9-10: function caller"
    )


async def test_diagnostics_name_the_symbol_around_them(project: Bench) -> None:
    text = await project.text(LSP, action="diagnostics", path="a.py")
    assert text.startswith("a.py:6:31: error: Argument to function `helper` is incorrect")
    assert text.endswith("[invalid-argument-type] (in Foo.bar)")
    assert await project.text(LSP, action="diagnostics", path="b.py") == "ty found nothing"


async def test_callers_and_callees(project: Bench) -> None:
    assert await project.text(LSP, action="callers", path="a.py", symbol="bar") == (
        "a.py:10:18: function caller"
    )
    assert "b.py:1:5: function helper" in await project.text(LSP, action="callees", symbol="bar")


async def test_implementation(project: Bench) -> None:
    project.file(
        "c.py",
        "from abc import ABC, abstractmethod\n\n\nclass Base(ABC):\n    @abstractmethod\n"
        "    def go(self) -> int: ...\n\n\nclass Real(Base):\n    def go(self) -> int:\n"
        "        return 1\n",
    )
    text = await project.text(LSP, action="implementation", path="c.py", line=6, symbol="go")
    assert "c.py:10:9" in text


async def test_a_change_on_disk_is_seen_by_the_next_question(project: Bench) -> None:
    await project.text(LSP, action="references", symbol="helper")
    project.file("b.py", "\n\n" + B)
    project.file("d.py", "from b import helper\n\nhelper('x', 1)\n")
    text = await project.text(LSP, action="references", symbol="helper")
    assert "b.py:3:5: def helper" in text
    assert "d.py:3:1: helper('x', 1)" in text


async def test_a_symbol_defined_twice_is_listed(project: Bench) -> None:
    project.file("d.py", "def helper() -> None: ...\n")
    said = await project.error(LSP, action="definition", symbol="helper")
    assert "is defined 2 times; give path and line:" in said
    assert "d.py:1:1: function helper" in said


async def test_a_notebook_cell_is_a_document(project: Bench) -> None:
    cells = [
        {"cell_type": "code", "id": "one", "metadata": {}, "source": "value = 1\n"},
        {"cell_type": "code", "id": "two", "metadata": {}, "source": ["x = 2\n", "value + 'a'"]},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    project.file("n.ipynb", json.dumps(notebook))
    text = await project.text(LSP, action="diagnostics", path="n.ipynb#two")
    assert text.startswith("n.ipynb#two:2:1: error: ")
    text = await project.text(LSP, action="definition", path="n.ipynb#two", line=2, symbol="value")
    assert text == "n.ipynb#one:1:1: value = 1"
    assert "name the cell: n.ipynb#one" in await project.error(
        LSP, action="outline", path="n.ipynb"
    )


async def test_calls_of_one_batch_share_one_server(project: Bench) -> None:
    await asyncio.gather(
        *(project.call(LSP, action="outline", path=name) for name in ("a.py", "b.py", "a.py"))
    )
    assert len(lsp_server._SERVERS) == 1


@pytest.mark.parametrize(
    "value,words",
    [
        ({"action": "hover"}, "needs `symbol` or `path`"),
        ({"action": "outline", "symbol": "x"}, "outline needs `path`"),
        ({"action": "symbols", "path": "a.py"}, "symbols needs `symbol`"),
        ({"action": "hover", "path": "a.py"}, "`path` with `line`"),
        ({"action": "hover", "path": "a.py", "line": 99}, "has 11 lines"),
        ({"action": "hover", "path": "a.py", "line": 1, "symbol": "zz"}, "not in line 1"),
        ({"action": "hover", "symbol": "nowhere"}, "no symbol 'nowhere'"),
        ({"action": "hover", "path": "x.txt", "line": 1}, "no language is known"),
        ({"action": "hover", "path": "x.go", "line": 1}, "no language server is configured for go"),
    ],
)
async def test_a_question_that_lacks_something_says_what(
    project: Bench, value: dict[str, object], words: str
) -> None:
    assert words in await project.error(LSP, **value)


# ---------------------------------------------------------------- a scripted server
def script(bench: Bench, mode: str) -> Path:
    mark = bench.workspace.parent / "mark"
    bench.services["lsp"] = {"python": [sys.executable, str(SCRIPT), mode, str(mark)]}
    bench.file("a.py", "é𝄞 = name\n")
    return mark


async def test_positions_are_counted_in_the_servers_units(bench: Bench) -> None:
    script(bench, "plain")  # it says nothing of an encoding: UTF-16
    assert await bench.text(LSP, action="definition", path="a.py", line=1, symbol="name") == (
        "a.py:1:6: é𝄞 = name"
    )


async def test_a_missing_ability_is_named(bench: Bench) -> None:
    script(bench, "plain")
    said = await bench.error(LSP, action="hover", path="a.py", line=1)
    assert "lacks hoverProvider: it cannot answer hover" in said


async def test_a_server_that_ends_is_started_once_more(bench: Bench) -> None:
    mark = script(bench, "crash once")
    assert "a.py:1:6" in await bench.text(LSP, action="definition", path="a.py", line=1, column=6)
    assert mark.read_text() == "xx"


async def test_a_server_that_ends_twice_is_an_error_with_its_words(bench: Bench) -> None:
    mark = script(bench, "crash")
    said = await bench.error(LSP, action="definition", path="a.py", line=1)
    assert "it hurts" in said
    assert "ended twice" in said
    assert mark.read_text() == "xx"


async def test_a_silent_server_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    script(bench, "silent")
    monkeypatch.setattr(lsp, "TIMEOUT", 1.5)
    began = time.monotonic()
    assert "no answer within" in await bench.error(LSP, action="definition", path="a.py", line=1)
    assert time.monotonic() - began < 15


async def test_a_refusal_is_told_in_the_servers_words(bench: Bench) -> None:
    script(bench, "refuse")
    said = await bench.error(LSP, action="definition", path="a.py", line=1)
    assert said.endswith("refuses definition: not today")


async def test_pushed_diagnostics_are_waited_for(bench: Bench) -> None:
    script(bench, "plain")
    assert await bench.text(LSP, action="diagnostics", path="a.py") == "a.py:1:4: warning: pushed"


async def test_an_edit_a_server_asks_for_is_refused(bench: Bench) -> None:
    mark = script(bench, "plain")
    await bench.text(LSP, action="definition", path="a.py", line=1)
    answers = mark.with_suffix(".answers")
    for _ in range(100):
        if answers.exists() and answers.read_text().count("\n") == 2:
            break
        await asyncio.sleep(0.05)
    edit, settings = map(json.loads, answers.read_text().splitlines())
    assert edit["applied"] is False
    assert settings == [None, None]


async def test_a_program_that_is_no_server_is_an_error(bench: Bench) -> None:
    script(bench, "plain")
    bench.services["lsp"] = {"python": ["/bin/false"]}
    assert "did not start as a language server" in await bench.error(
        LSP, action="definition", path="a.py", line=1
    )
    bench.services["lsp"] = {"python": ["no-such-program"]}
    assert "cannot be started" in await bench.error(LSP, action="outline", path="a.py")


async def test_an_idle_server_is_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    script(bench, "plain")
    monkeypatch.setattr(lsp_server, "IDLE", 0.2)
    await bench.text(LSP, action="definition", path="a.py", line=1)
    (server,) = lsp_server._SERVERS.values()
    for _ in range(100):
        if not server.client.alive:
            break
        await asyncio.sleep(0.05)
    assert not server.client.alive


@pytest.mark.parametrize("encoding,expected", [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_offsets_go_both_ways(encoding: str, expected: int) -> None:
    line = "é𝄞=x"
    assert units(line, 3, encoding) == expected
    assert characters(line, expected, encoding) == 3


def test_a_list_is_at_most_100_places_and_says_so() -> None:
    text, cut = listed([f"a.py:{n}:1" for n in range(150)])
    assert cut
    assert text.endswith("[50 more left out]")
    assert text.count("\n") == 100
    text, cut = listed(["x" * 3000] * 20)
    assert len(text) < 17_000
    assert cut
