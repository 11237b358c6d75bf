"""Ask: a person's own words, or an error; never an invented answer."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.tools.ask import ASK
from tests.tools.conftest import Bench


@pytest.mark.parametrize(
    "given,told",
    [
        ("blue", "The person answered: blue"),
        (["a", "b"], "The person answered: - a\n- b"),
        (["a"], "The person answered: a"),
    ],
)
async def test_the_answer_is_the_persons(bench: Bench, given: Any, told: str) -> None:
    asked: list[tuple[Any, ...]] = []

    async def ask(*what: Any) -> Any:
        asked.append(what)
        return given

    bench.services["ask"] = ask
    text = await bench.text(ASK, question="Which?", options=["a", "b"], multiple=True, kind="plan")
    assert text == told
    assert asked == [("Which?", ["a", "b"], True, "plan")]


async def test_nobody_there_is_an_error_and_no_answer(bench: Bench) -> None:
    assert "nobody to ask" in await bench.error(ASK, question="Which?")


async def test_no_answer_is_an_error(bench: Bench) -> None:
    async def ask(*_what: Any) -> None:
        return None

    bench.services["ask"] = ask
    assert "gave no answer" in await bench.error(ASK, question="Which?")


async def test_five_options_or_two_equal_ones_are_refused(bench: Bench) -> None:
    assert "at most 4" in await bench.error(ASK, question="?", options=list("abcde"))
    assert "same" in await bench.error(ASK, question="?", options=["a", "a"])
