"""Todo: the list is checked, and the last call in the log is the state."""

from __future__ import annotations

import pytest

from agent_kernel.tools.todo import TODO
from tests.tools.conftest import Bench


def item(ident: str, status: str = "pending", *blocked_by: str) -> dict[str, object]:
    return {"id": ident, "text": f"do {ident}", "status": status, "blocked_by": list(blocked_by)}


async def test_the_answer_says_what_is_done_and_what_is_next(bench: Bench) -> None:
    items = [item("a", "done"), item("b", "pending", "c"), item("c", "pending", "a")]
    assert await bench.text(TODO, items=items) == "1 of 3 done; next: do c"
    items[2]["status"] = "active"
    answer = await bench.call(TODO, items=items)
    assert answer.content[0].text == "1 of 3 done; active: do c"
    assert answer.meta == {"items": 3, "done": 1, "active": "c"}
    assert await bench.text(TODO, items=[]) == "0 of 0 done"


@pytest.mark.parametrize(
    "items,words",
    [
        ([item("a", "active"), item("b", "active")], "'a', 'b' are all active"),
        ([item("a"), item("a")], "'a' are used twice"),
        ([item("a", "pending", "x")], "'a' is blocked by 'x'"),
        ([item("a", "pending", "b"), item("b", "pending", "a")], "in a circle"),
        ([item("a", "pending", "a")], "in a circle"),
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(
    bench: Bench, items: list[dict[str, object]], words: str
) -> None:
    assert words in await bench.error(TODO, items=items)


async def test_bad_input_lists_each_field(bench: Bench) -> None:
    said = await bench.error(TODO, items=[{"id": "a", "status": "later"}], more=1)
    assert "items.0.text" in said
    assert "items.0.status" in said
    assert "- more:" in said
