"""Signatures: a typed function becomes a tool with a valid schema; its errors name the fields."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, Field

from agent_kernel.core.messages import ToolUse
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool, ToolContext, ToolError, tool
from tests.tools.flow import done, flow, parted, result_text, said


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """A place."""

    street: str
    number: int = 1


@dataclass
class Span:
    first: int
    last: int


async def plain(table: str) -> int:
    """Count rows."""
    return len(table)


async def default(name: str, limit: int = 10, exact: bool = False) -> str:
    """With defaults."""
    return f"{name} {limit} {exact}"


def in_a_thread(name: str) -> str:
    """A plain function."""
    return threading.current_thread().name


async def optional(name: str | None = None) -> str:
    """Optional."""
    return str(name)


async def lists(names: list[str], spans: list[tuple[int, int]]) -> str:
    """Lists."""
    return f"{names} {spans}"


async def maps(sizes: dict[str, float]) -> str:
    """A mapping."""
    return json.dumps(sizes)


async def choice(mode: Literal["lines", "files"], colour: Colour = Colour.RED) -> str:
    """Choices."""
    return f"{mode} {colour.value}"


async def model(place: Place) -> str:
    """A nested model."""
    return f"{place.street} {place.number}"


async def record(span: Span) -> str:
    """A dataclass."""
    return f"{span.first}-{span.last}"


async def annotated(
    count: Annotated[int, Field(ge=1, le=5, description="how many")], when: date | None = None
) -> str:
    """Bounds and a date."""
    return f"{count} {when}"


async def union(value: int | str | list[int]) -> str:
    """One of several."""
    return repr(value)


async def with_context(ctx: ToolContext, name: str) -> str:
    """The context is ours, not the model's."""
    return f"{ctx.agent} {name}"


# function, what a model may send, what the tool says then, what it may not send, the field named
SIGNATURES: list[tuple[Callable[..., Any], dict[str, Any], str, dict[str, Any], str]] = [
    (plain, {"table": "abc"}, "3", {"tabel": "abc"}, "table"),
    (default, {"name": "a", "limit": 2}, "a 2 False", {"name": "a", "limit": "many"}, "limit"),
    (in_a_thread, {"name": "a"}, "asyncio_", {"name": 3}, "name"),
    (optional, {}, "None", {"name": []}, "name"),
    (lists, {"names": ["a"], "spans": [[1, 2]]}, "['a'] [(1, 2)]", {"names": "a"}, "names"),
    (maps, {"sizes": {"a": 1.5}}, '{"a": 1.5}', {"sizes": {"a": "big"}}, "sizes.a"),
    (choice, {"mode": "files", "colour": "blue"}, "files blue", {"mode": "x"}, "mode"),
    (model, {"place": {"street": "A"}}, "A 1", {"place": {}}, "place.street"),
    (record, {"span": {"first": 1, "last": 2}}, "1-2", {"span": {"first": 1}}, "span.last"),
    (annotated, {"count": 5, "when": "2026-01-02"}, "5 2026-01-02", {"count": 6}, "count"),
    (union, {"value": [1]}, "[1]", {"value": {}}, "value"),
    (with_context, {"name": "a"}, "main a", {"name": "a", "ctx": 1}, "ctx"),
]


@pytest.mark.parametrize("row", SIGNATURES, ids=lambda row: row[0].__name__)
def test_twelve_signatures_give_valid_schemas_run_and_name_what_does_not_fit(
    row: tuple[Callable[..., Any], dict[str, Any], str, dict[str, Any], str], workspace: Path
) -> None:
    function, good, expected, bad, field = row
    made: Tool = tool(function)
    schema = made.schema.wire()["input_schema"]
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert "ctx" not in schema.get("properties", {})
    assert Draft202012Validator(schema).is_valid(good)
    assert not Draft202012Validator(schema).is_valid(bad)
    assert made.description == function.__doc__
    assert (made.name, made.owner) == (function.__name__, "tests")
    context = ToolContext(Session(), "main", "c", workspace)
    assert str(asyncio.run(made.run(made.parse(good), context))).startswith(expected)
    with pytest.raises(ToolError, match=f"(?m)^- {field}"):
        made.parse(bad)


def test_each_field_that_does_not_fit_is_listed() -> None:
    made: Tool = tool(default)
    with pytest.raises(ToolError) as error:
        made.parse({"limit": "many", "exact": "perhaps", "more": 1})
    assert [line.split(":")[0] for line in str(error.value).splitlines()[1:]] == [
        "- name", "- limit", "- exact", "- more"
    ]  # fmt: skip


def test_what_is_no_tool_says_why() -> None:
    def untyped(name):  # type: ignore[no-untyped-def]
        return name

    def many(*names: str) -> str:
        return ""

    with pytest.raises(TypeError, match="has no type hint for 'name'"):
        tool(untyped)
    with pytest.raises(TypeError, match="needs named fields"):
        tool(many)


async def test_a_bug_of_ours_propagates_and_ends_the_turn_as_error(workspace: Path) -> None:
    @tool
    async def buggy(name: str) -> str:
        """Break."""
        raise KeyError(name)

    main = [done(ToolUse("b", "buggy", {"name": "x"})), said("never")]
    session, agent = flow(parted(main, {}), workspace, tools=(buggy,))
    with pytest.raises(KeyError, match="x"):
        await query(session, agent, "go")
    end = session.state().turn_end
    assert end is not None
    assert (end.reason, end.detail["kind"]) == ("error", "KeyError")  # type: ignore[index,call-overload]
    assert "b" in {call.id for call in session.events if call.type == "tool/result"}  # type: ignore[attr-defined]
    assert result_text(session, "b")
