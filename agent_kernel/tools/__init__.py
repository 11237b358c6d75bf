"""Tools: what a model can call, one file a tool; ALL keeps the documented order.

May not decide what is allowed: the guard judges every call before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any

from agent_kernel.core.messages import canonical
from agent_kernel.core.prompt import PromptError, check_names
from agent_kernel.core.tool import Tool
from agent_kernel.tools import frontmatter, ranking, references, roles, skills
from agent_kernel.tools.agent import AGENT
from agent_kernel.tools.ask import ASK
from agent_kernel.tools.bash import BASH
from agent_kernel.tools.concept_search import CONCEPT_SEARCH
from agent_kernel.tools.data_risk import DATA_RISK
from agent_kernel.tools.edit import EDIT
from agent_kernel.tools.glob import GLOB
from agent_kernel.tools.grep import GREP
from agent_kernel.tools.lsp import LSP
from agent_kernel.tools.mcp import Servers
from agent_kernel.tools.notebook import NOTEBOOK
from agent_kernel.tools.python import PYTHON
from agent_kernel.tools.read import READ
from agent_kernel.tools.recall_history import RECALL_HISTORY
from agent_kernel.tools.skill import SKILL
from agent_kernel.tools.sql import SQL
from agent_kernel.tools.task_output import TASK_OUTPUT
from agent_kernel.tools.task_stop import TASK_STOP
from agent_kernel.tools.todo import TODO
from agent_kernel.tools.tool_search import TOOL_SEARCH
from agent_kernel.tools.web_fetch import WEB_FETCH
from agent_kernel.tools.web_search import WEB_SEARCH
from agent_kernel.tools.write import WRITE

__all__ = ["ALL", "LENT", "Lent", "Servers", "deferral", "found", "ordered", "references"]


@dataclass(frozen=True)
class Lent:
    """What this room lends to the sections; the roof hands it over as the service `lent`."""

    find_skills: Callable[..., skills.Skills] = skills.find
    find_roles: Callable[..., Any] = roles.find
    rank: Callable[..., list[float]] = ranking.rank
    words: Callable[[str], list[str]] = ranking.words
    split: Callable[[str], Any] = frontmatter.split


LENT = Lent()
ALL: tuple[Tool, ...] = (
    READ,
    WRITE,
    EDIT,
    GLOB,
    GREP,
    BASH,
    PYTHON,
    NOTEBOOK,
    AGENT,
    TASK_OUTPUT,
    TASK_STOP,
    TODO,
    ASK,
    TOOL_SEARCH,
    SKILL,
    RECALL_HISTORY,
    CONCEPT_SEARCH,
    WEB_SEARCH,
    WEB_FETCH,
    LSP,
    SQL,
    DATA_RISK,
)

GROUP = "agent_kernel.tools"
CHARS = 4  # characters of a schema's JSON a token, at least


def found() -> tuple[Tool, ...]:
    """Return our tools, then those of other packages by the entry points' names.

    Raises PromptError on a name that stands twice, or an entry point that is no tool.
    """
    joined: list[Tool] = []
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        made = point.load()
        if not isinstance(made, Tool):
            raise PromptError(f"entry point {point.name!r} ({point.value}) is no Tool")
        joined.append(made)
    whole = (*ALL, *joined)
    check_names("tool", ((each.name, each.owner) for each in whole))
    return whole


def ordered(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return tools in the order requests carry them: by their place in ALL, then by name (F2.6)."""
    places = {tool.name: place for place, tool in enumerate(ALL)}
    return tuple(sorted(tools, key=lambda each: (places.get(each.name, len(places)), each.name)))


def deferral(tools: Sequence[Tool], how: str = "always", window: int = 200_000) -> tuple[Tool, ...]:
    """Return tools with their deferral as the setting `defer` says (F5.1).

    `always` keeps it, `never` sends every schema, `auto:N` defers only where the deferred schemas
    would take more than N % of `window` tokens. Raises ValueError on other words.
    """
    match = re.fullmatch(r"always|never|auto:(\d{1,3})", how)
    if match is None:
        raise ValueError(f"defer is always, never or auto:N (% of the window); got {how!r}")
    later = [tool for tool in tools if tool.deferred]
    tokens = sum(len(canonical(tool.schema.wire())) for tool in later) / CHARS
    if how == "always" or (match[1] and tokens > int(match[1]) / 100 * window):
        return tuple(tools)
    return tuple(replace(tool, deferred=False) if tool.deferred else tool for tool in tools)
