"""Tool search: finds deferred tools by name or words; what it found is callable from the next step.

May not keep what it found: the discovered set is the fold of its results in the log (F5.3).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pydantic import Field

from agent_kernel.core.agent import Agent
from agent_kernel.core.messages import Block, Json, Raw, Text
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, input_schema
from agent_kernel.guard.fence import escape_tags
from agent_kernel.tools.ranking import Index, counted, words

NEAREST = 5
SAID = 200  # characters of a description

DESCRIPTION = (
    "Find tools that are not loaded yet, by words or by `select:name,name`; those found can be "
    "called from your next step on."
)


class ToolSearchInput(Input):
    """Input of `tool_search`."""

    query: str = Field(min_length=1, max_length=1000)
    limit: int = Field(5, ge=1, le=20)


def _deferred(ctx: ToolContext) -> Sequence[Tool]:
    owner = ctx.services.get("owner")
    own = tuple(t for t in owner.tools if t.deferred) if isinstance(owner, Agent) else ()
    if own:
        return own
    given = ctx.service("deferred_tools", "there are no tools beyond those you have")
    return tuple(given() if callable(given) else given)


def ranked(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Return the tools that share a word with the query, best first; ties by name."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    index = Index(
        [
            counted(
                (
                    (tool.name, 3),
                    (tool.description, 1),
                    (" ".join(_parameters(tool)), 1),
                )
            )
            for tool in ordered
        ]
    )
    scores = index.scores(words(query))
    order = sorted(range(len(ordered)), key=lambda at: (-scores[at], at))
    return [ordered[at] for at in order if scores[at] > 0]


def _parameters(tool: Tool) -> list[str]:
    return list(input_schema(tool.input).get("properties", {}))


def _selected(by_name: dict[str, Tool], query: str) -> list[Tool]:
    names = [name.strip() for name in query.removeprefix("select:").split(",") if name.strip()]
    unknown = [name for name in names if name not in by_name]
    if unknown or not names:
        near = sorted({n for name in unknown for n in _near(by_name, name)})
        raise ToolError(
            f"no deferred tool is called {', '.join(map(repr, unknown)) or 'nothing'}; "
            f"the nearest are: {', '.join(near) or 'none'}"
        )
    return [by_name[name] for name in dict.fromkeys(names)]


def _near(by_name: dict[str, Tool], name: str) -> list[str]:
    close = difflib.get_close_matches(name, sorted(by_name), NEAREST, 0.3)
    return close or sorted(by_name)[:NEAREST]


def _line(tool: Tool) -> str:
    first = " ".join(tool.description.split())[:SAID]
    return escape_tags(f"- {tool.name}({', '.join(_parameters(tool))}): {first}")


async def run(value: ToolSearchInput, ctx: ToolContext) -> Answer:
    """Return references to the tools found, or their names where the endpoint takes none."""
    tools = _deferred(ctx)
    by_name = {tool.name: tool for tool in tools}
    if value.query.startswith("select:"):
        found = _selected(by_name, value.query)
    else:
        found = ranked(tools, value.query)[: value.limit]
    meta: Json = {"discovered": [tool.name for tool in found], "searched": len(tools)}
    if any(tool.name.startswith("mcp__") for tool in found):
        meta["taint"] = "mcp"
    if not found:
        near = ", ".join(_near(by_name, value.query)) or "none"
        return Answer((Text(f"no tool fits {value.query!r}; the nearest are: {near}"),), meta)
    owner = ctx.services.get("owner")
    references_taken = isinstance(owner, Agent) and owner.profile.deferred_tools
    if references_taken or ctx.services.get("tool_references"):
        references: tuple[Block, ...] = tuple(
            Raw({"type": "tool_reference", "tool_name": tool.name}) for tool in found
        )
        return Answer(references, meta)
    lines = "\n".join(map(_line, found))
    return Answer((Text(f"You can call these from your next step on:\n{lines}"),), meta)


def useful(agent: Agent) -> bool:
    """Tell whether there is anything to find: without deferred tools the search is not sent."""
    if "deferred_tools" in agent.services:
        return True
    return any(t.deferred and (t.when is None or t.when(agent)) for t in agent.tools)


TOOL_SEARCH = Tool(
    "tool_search",
    DESCRIPTION,
    ToolSearchInput,
    run,
    concurrent=True,
    read_only=True,
    timeout=30.0,
    when=useful,
)
