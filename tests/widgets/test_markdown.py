from __future__ import annotations

import time

import pytest

from agent_kernel.widgets.markdown import blocks, inline


def test_blocks_are_read_in_order() -> None:
    text = "# A\n\npara\n\n- one\n- two\n  1. deep\n\n> said\n\n```py\nx < 1\n```\n\n---\n"
    kinds = [node["b"] for node in blocks(text)]
    assert kinds == ["h", "p", "ul", "quote", "code", "hr"]
    deep = blocks(text)[2]["items"][1]
    assert deep[1]["b"] == "ol"


def test_a_table_needs_its_line_of_dashes() -> None:
    table = blocks("| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 |")[0]
    assert table["right"] == [False, True]
    assert table["rows"][1] == [[["t", "3"]], []]
    assert blocks("a | b\nc | d")[0]["b"] == "p"


def test_a_fence_that_never_ends_is_code_to_the_end() -> None:
    assert blocks("```\na\n\nb") == [{"b": "code", "lang": "", "text": "a\n\nb"}]


@pytest.mark.parametrize(
    "text, nodes",
    [
        ("a **b** c", [["t", "a "], ["b", [["t", "b"]]], ["t", " c"]]),
        ("*i* and _j_", [["i", [["t", "i"]]], ["t", " and "], ["i", [["t", "j"]]]]),
        ("snake_case_name 2 * 3 * 4", [["t", "snake_case_name 2 * 3 * 4"]]),
        ("`a*b*`", [["c", "a*b*"]]),
        ("[x](https://a.b/c)", [["a", "https://a.b/c", [["t", "x"]]]]),
        ("[x](javascript:a)", [["t", "x"]]),
        ("![alt](https://evil.test/p.png?d=S)", [["t", "alt"]]),
        (r"\*a\*", [["t", "*"], ["t", "a"], ["t", "*"]]),
        ("<b>x</b>", [["t", "<b>x</b>"]]),
        ("https://a.b.", [["a", "https://a.b", [["t", "https://a.b"]]], ["t", "."]]),
    ],
)  # fmt: skip
def test_inline_nodes(text: str, nodes: list[object]) -> None:
    assert inline(text) == nodes


@pytest.mark.parametrize(
    "unit", ["**a ", "_a ", "[a](", "`", "``a", "![", "> ", "- ", "| a ", "~~a ", "\\", "1. ", "#"]
)
def test_time_grows_with_the_length_of_a_hostile_text(unit: str) -> None:
    text = unit * (40_000 // len(unit))
    began = time.perf_counter()
    blocks(text)
    blocks((unit + "\n") * (20_000 // len(unit)))
    assert time.perf_counter() - began < 4


def test_every_prefix_of_an_answer_has_blocks() -> None:
    text = "# A\n\n1. **b** `c`\n\n   ```py\n   x\n   ```\n\n| a |\n|---|\n| [l](https://x.y) |\n"
    for end in range(len(text)):
        blocks(text[:end])
