"""Notebook: cells of closed files changed in place, of the open one by proposal."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest

from agent_kernel.tools.notebook import NOTEBOOK
from agent_kernel.tools.read import READ
from tests.tools.conftest import Bench


def notebook(cells: int = 20) -> str:
    """A notebook as nbformat writes it, with outputs that a float round trip would change."""
    made = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        }
    )
    for at in range(cells):
        cell = nbformat.v4.new_code_cell(f"x = {at}\nprint(x)", execution_count=at + 1, id=f"c{at}")
        cell.outputs = [nbformat.v4.new_output("stream", text=f"{at}\n")]
        made.cells.append(cell)
    made.cells.append(nbformat.v4.new_markdown_cell("# End\n[é]", id="md"))
    text = nbformat.writes(made) + "\n"
    return text.replace('"metadata": {}', '"metadata": {"score": 1.50e+02}', 1)


def spans(text: str) -> dict[str, str]:
    """Each cell's raw text by its id."""
    from agent_kernel.tools.cells import sheet_of

    sheet = sheet_of(text, "x")
    return {json.loads(text[a:b])["id"]: text[a:b] for a, b in sheet.spans}


async def change(bench: Bench, **value: Any) -> tuple[str, str]:
    """The file before and after one change of `a.ipynb`."""
    before = notebook()
    path = bench.file("a.ipynb", before)
    await bench.text(NOTEBOOK, action="list", path="a.ipynb")
    await bench.text(NOTEBOOK, path="a.ipynb", **value)
    after = path.read_text()
    nbformat.validate(nbformat.reads(after, as_version=4))
    return before, after


async def test_list_and_read_name_the_cells(bench: Bench) -> None:
    bench.file("a.ipynb", notebook(2))
    assert await bench.text(NOTEBOOK, action="list", path="a.ipynb") == (
        "[1] c0 · code · In[1]: x = 0 (+1 lines)\n[2] c1 · code · In[2]: x = 1 (+1 lines)\n"
        "[3] md · markdown: # End (+1 lines)"
    )
    text = await bench.text(NOTEBOOK, action="read", path="a.ipynb", cell="#2")
    assert text == "[2] c1 · code · In[2]\nx = 1\nprint(x)\n> 1"
    assert "the cells are c0, c1, md" in await bench.error(
        NOTEBOOK, action="read", path="a.ipynb", cell="zz"
    )


async def test_an_edit_leaves_every_other_cell_byte_equal(bench: Bench) -> None:
    before, after = await change(bench, action="edit", cell="c7", source="y = 1\nz")
    old, new = spans(before), spans(after)
    assert {i for i in old if old[i] != new[i]} == {"c7"}
    assert '"score": 1.50e+02' in after
    cell = json.loads(new["c7"])
    assert cell["source"] == ["y = 1\n", "z"]
    assert cell["outputs"] == []
    assert cell["execution_count"] is None
    assert before.replace(old["c7"], "") == after.replace(new["c7"], "")


@pytest.mark.parametrize(
    "position,at",
    [("before c0", 0), ("after c0", 1), ("before md", 20), ("after md", 21), ("end", 21)],
)
async def test_an_insert_goes_exactly_where_it_was_told(
    bench: Bench, position: str, at: int
) -> None:
    before, after = await change(bench, action="insert", source="new = 1", position=position)
    ids = list(spans(after))
    assert ids[:at] + ids[at + 1 :] == list(spans(before))
    assert json.loads(spans(after)[ids[at]])["source"] == ["new = 1"]
    assert {i: s for i, s in spans(after).items() if i != ids[at]} == spans(before)


async def test_an_insert_without_a_position_is_refused(bench: Bench) -> None:
    before = notebook()
    path = bench.file("a.ipynb", before)
    await bench.text(READ, path="a.ipynb")
    said = await bench.error(NOTEBOOK, action="insert", path="a.ipynb", source="x")
    assert "needs `position`" in said
    assert "none of" in await bench.error(
        NOTEBOOK, action="insert", path="a.ipynb", source="x", position="top"
    )
    assert path.read_text() == before


@pytest.mark.parametrize("cell", ["c0", "c9", "md"])
async def test_a_deleted_cell_is_gone_and_no_other(bench: Bench, cell: str) -> None:
    before, after = await change(bench, action="delete", cell=cell)
    expected = {i: s for i, s in spans(before).items() if i != cell}
    assert spans(after) == expected


@pytest.mark.parametrize(
    "cell,position,order",
    [("c0", "end", [1, 2, 0]), ("md", "before c0", [2, 0, 1]), ("c0", "after c1", [1, 0, 2])],
)
async def test_a_moved_cell_keeps_its_bytes(
    bench: Bench, cell: str, position: str, order: list[int]
) -> None:
    before = notebook(2)
    path = bench.file("a.ipynb", before)
    await bench.text(NOTEBOOK, action="list", path="a.ipynb")
    await bench.text(NOTEBOOK, action="move", path="a.ipynb", cell=cell, position=position)
    ids = list(spans(before))
    assert list(spans(path.read_text())) == [ids[at] for at in order]
    nbformat.validate(nbformat.reads(path.read_text(), as_version=4))


async def test_clear_empties_outputs_of_one_or_all(bench: Bench) -> None:
    before, after = await change(bench, action="clear", cell="c3")
    assert {i for i, s in spans(before).items() if spans(after)[i] != s} == {"c3"}
    _, after = await change(bench, action="clear")
    assert '"output_type"' not in after


async def test_the_only_cell_and_an_empty_notebook(bench: Bench) -> None:
    path = bench.file(
        "e.ipynb", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}'
    )
    assert await bench.text(NOTEBOOK, action="list", path="e.ipynb") == "[no cells]"
    await bench.text(NOTEBOOK, action="insert", path="e.ipynb", source="x", position="end")
    assert [c["source"] for c in json.loads(path.read_text())["cells"]] == [["x"]]
    assert "id" not in json.loads(path.read_text())["cells"][0]
    await bench.text(NOTEBOOK, action="delete", path="e.ipynb", cell="#1")
    assert json.loads(path.read_text())["cells"] == []


async def test_a_change_needs_the_notebook_as_it_is(bench: Bench) -> None:
    path = bench.file("a.ipynb", notebook(2))
    said = await bench.error(NOTEBOOK, action="delete", path="a.ipynb", cell="c0")
    assert "have not read" in said
    await bench.text(READ, path="a.ipynb")
    path.write_text(notebook(3))
    said = await bench.error(NOTEBOOK, action="delete", path="a.ipynb", cell="c0")
    assert "changed since" in said


async def test_run_executes_up_to_a_cell_and_keeps_the_outputs(bench: Bench) -> None:
    path = bench.file("a.ipynb", notebook(3))
    before = spans(path.read_text())
    await bench.text(NOTEBOOK, action="list", path="a.ipynb")
    await bench.text(NOTEBOOK, action="edit", path="a.ipynb", cell="c1", source="x += 41\nx")
    text = await bench.text(NOTEBOOK, action="run", path="a.ipynb", cell="c1")
    assert text.startswith("ran 2 cells of a.ipynb in a fresh kernel\n[2] c1 · code · In[2]")
    assert text.endswith("> 41")
    after = spans(path.read_text())
    assert after["c2"] == before["c2"]
    nbformat.validate(nbformat.reads(path.read_text(), as_version=4))


async def test_a_failing_cell_is_an_error_with_its_name(bench: Bench) -> None:
    bench.file("a.ipynb", notebook(1))
    await bench.text(NOTEBOOK, action="list", path="a.ipynb")
    await bench.text(NOTEBOOK, action="edit", path="a.ipynb", cell="c0", source="1/0")
    answer = await bench.call(NOTEBOOK, action="run", path="a.ipynb")
    assert answer.is_error
    assert answer.meta["error_kind"] == "ZeroDivisionError"


class OpenNotebook:
    """What the roof hands in for the notebook a person has open."""

    path = "open.ipynb"

    def __init__(self) -> None:
        self.proposed: list[dict[str, Any]] = []

    def cells(self) -> list[dict[str, Any]]:
        return [
            {"cell_type": "code", "id": "a1", "source": "x", "state": "stale", "outputs": []},
        ]

    async def propose(self, **change: Any) -> str:
        self.proposed.append(change)
        return "proposed; the person decides"


async def test_the_open_notebook_gets_a_proposal_and_its_file_stays(bench: Bench) -> None:
    service = OpenNotebook()
    bench.services["notebook"] = service
    path = bench.file("open.ipynb", notebook(1))
    before = path.read_bytes()
    assert await bench.text(NOTEBOOK, action="list") == "[1] a1 · code · stale: x"
    told = await bench.text(NOTEBOOK, action="edit", path="open.ipynb", cell="a1", source="y")
    assert told == "proposed; the person decides"
    assert service.proposed[0]["source"] == "y"
    assert path.read_bytes() == before


async def test_without_an_open_notebook_a_path_is_asked_for(bench: Bench) -> None:
    assert "give `path`" in await bench.error(NOTEBOOK, action="list")


def test_only_looking_is_read_only_and_concurrent() -> None:
    for action in ("list", "read", "edit", "run", "clear"):
        value = NOTEBOOK.parse({"action": action})
        assert NOTEBOOK.is_read_only(value) == (action in ("list", "read"))
        assert NOTEBOOK.is_concurrent(value) == (action in ("list", "read"))
