"""Tools: what a model can call, one file a tool; ALL keeps the documented order.

May not decide what is allowed: the guard judges every call before it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.tool import Tool
from agent_kernel.tools import frontmatter, ranking, references, roles, skills
from agent_kernel.tools.agent import AGENT
from agent_kernel.tools.ask import ASK
from agent_kernel.tools.bash import BASH
from agent_kernel.tools.concept_search import CONCEPT_SEARCH
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
from agent_kernel.tools.task_output import TASK_OUTPUT
from agent_kernel.tools.task_stop import TASK_STOP
from agent_kernel.tools.todo import TODO
from agent_kernel.tools.tool_search import TOOL_SEARCH
from agent_kernel.tools.web_fetch import WEB_FETCH
from agent_kernel.tools.web_search import WEB_SEARCH
from agent_kernel.tools.write import WRITE

__all__ = ["ALL", "LENT", "Lent", "Servers", "references"]


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
)
