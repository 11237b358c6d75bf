"""Descriptions: all a model knows of our tools; lean, and clear about which tool comes first."""

from __future__ import annotations

import re

import pytest

from agent_kernel.core.messages import dumps
from agent_kernel.core.tool import Tool
from agent_kernel.tools import ALL

BY_NAME = {tool.name: tool for tool in ALL}
# c = concurrent, r = read-only, x = exclusive with side effects (features.md F4-F7, F11)
FLAGS = {
    **dict.fromkeys(("read", "glob", "grep", "tool_search", "recall_history"), "cr"),
    **dict.fromkeys(("concept_search", "web_search", "web_fetch", "lsp", "task_output"), "cr"),
    **dict.fromkeys(("write", "edit", "bash", "python", "ask", "task_stop"), "x"),
    "todo": "c",
}
CHARS_PER_TOKEN = 4
FIRST_TEN = ("read", "write", "edit", "glob", "grep", "bash", "python", "notebook", "todo", "ask")


@pytest.mark.parametrize("tool", [t for t in ALL if t.name in FLAGS], ids=lambda tool: tool.name)
def test_a_tools_flags_are_those_of_the_design(tool: Tool) -> None:
    flags = ("c" if tool.concurrent else "") + ("r" if tool.read_only else "")
    assert (flags or "x") == FLAGS[tool.name]


@pytest.mark.parametrize(
    "tool,instead",
    [
        ("read", "not cat, head or sed"),
        ("edit", "not sed or awk"),
        ("write", "not a here-document"),
        ("glob", "not find or ls"),
        ("grep", "not grep or rg"),
    ],
)
def test_bash_says_which_tool_to_take_instead(tool: str, instead: str) -> None:
    assert f"{tool}, {instead}" in BY_NAME["bash"].description
    assert BY_NAME["bash"].description.endswith("bash for the rest.")


def test_the_order_of_looking_is_said_where_one_looks() -> None:
    said = BY_NAME["read"].description
    order = [said.index(f"{word}: {tool}") for word, tool in ORDER]
    assert order == sorted(order)
    assert "known symbol lsp" in BY_NAME["concept_search"].description
    assert "when you know some of the text" in BY_NAME["grep"].description
    assert "when you know a symbol" in BY_NAME["lsp"].description


ORDER = (
    ("path", "read"),
    ("known text", "grep"),
    ("known symbol", "lsp"),
    ("only an idea", "concept_search"),
)


def test_all_tools_together_leave_room_in_6000_tokens() -> None:
    sizes = {tool.name: len(dumps(tool.schema.wire())) / CHARS_PER_TOKEN for tool in ALL}
    assert sum(sizes[name] for name in FIRST_TEN) <= 2000
    assert sum(sizes.values()) <= 3800, sizes


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_a_schema_is_valid_for_the_api_and_has_no_titles(tool: Tool) -> None:
    wire = tool.schema.wire()
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire["name"])
    assert wire["input_schema"]["type"] == "object"
    assert wire["input_schema"].get("additionalProperties") is False
    assert b'"title"' not in dumps(wire["input_schema"])
    assert wire["description"].strip().endswith((".", ")"))


def test_no_two_tools_share_a_name() -> None:
    assert len(BY_NAME) == len(ALL)
