"""Sections: the named parts of the prompt, one file each; ALL keeps the documented order.

May not put text into a request: static ones become the system text, the others attachments.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points

from agent_kernel.core.prompt import PromptError, Section, check_sections
from agent_kernel.sections.deferred_tools import DEFERRED_TOOLS
from agent_kernel.sections.environment import ENVIRONMENT
from agent_kernel.sections.git import GIT
from agent_kernel.sections.identity import IDENTITY
from agent_kernel.sections.memories import MEMORIES
from agent_kernel.sections.memory import MEMORY
from agent_kernel.sections.notebook import NOTEBOOK
from agent_kernel.sections.plan import PLAN
from agent_kernel.sections.rules import RULES
from agent_kernel.sections.running_tasks import RUNNING_TASKS
from agent_kernel.sections.skill_hints import SKILL_HINTS
from agent_kernel.sections.skills import SKILLS

GROUP = "agent_kernel.sections"
ALL: tuple[Section, ...] = (
    IDENTITY,
    RULES,
    ENVIRONMENT,
    GIT,
    NOTEBOOK,
    MEMORY,
    MEMORIES,
    SKILLS,
    SKILL_HINTS,
    RUNNING_TASKS,
    DEFERRED_TOOLS,
    PLAN,
)


def found() -> tuple[Section, ...]:
    """Return our sections, then those of other packages by the entry points' names.

    Raises PromptError on a name that stands twice, or an entry point that is no section.
    """
    joined: list[Section] = []
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        made = point.load()
        if not isinstance(made, Section):
            raise PromptError(f"entry point {point.name!r} ({point.value}) is no Section")
        joined.append(made)
    whole = (*ALL, *joined)
    check_sections(whole)
    return whole


def ordered(given: Iterable[Section]) -> tuple[Section, ...]:
    """Return sections in the order of the prompt: by their place in ALL, then by name (F2.6)."""
    places = {section.name: place for place, section in enumerate(ALL)}
    return tuple(sorted(given, key=lambda each: (places.get(each.name, len(places)), each.name)))
