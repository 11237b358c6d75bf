"""Skills: the catalog of what can be loaded or started: skills and roles by name and description.

May not hold a body: that costs nothing until `skill` is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from agent_kernel.core.prompt import PromptContext, Section

EACH, ALL_CHARS = 500, 8_000  # characters: setting skill_catalog


def listed(title: str, entries: Iterable[tuple[str, str]], room: int) -> str:
    """Return a title and one line an entry, as many as fit into `room` characters; the rest
    counted."""
    lines, left = [title], 0
    for name, text in entries:
        line = f"- {name}: {' '.join(text.split())[:EACH]}"
        if left or sum(map(len, lines)) + len(line) > room:
            left += 1
        else:
            lines.append(line)
    if left:
        lines.append(f"- and {left} more")
    return "\n".join(lines)


async def render(context: PromptContext) -> str | None:
    """Return the catalog; None when there is nothing in it."""
    lent: Any = context.facts.get("lent")
    if lent is None:
        return None
    names = {tool.name for tool in getattr(context.facts.get("agent"), "tools", ())}
    return await asyncio.to_thread(catalog, context.workspace, lent, names)


def catalog(workspace: Path, lent: Any, names: Collection[str]) -> str | None:
    """Return what an agent with the tools `names` can load or start; None when nothing."""
    parts: list[str] = []
    skills = lent.find_skills(workspace).found if "skill" in names else {}
    if shipped := [each.name for each in skills.values() if each.origin == "bundled"]:
        parts.append(f"Data platform skills, for skill(name): {', '.join(shipped)}.")
    own = [each for each in skills.values() if each.origin != "bundled"]
    if own:
        entries = ((s.name, s.description) for s in own)
        title = "Skills: load one with skill(name) before a task it fits."
        parts.append(listed(title, entries, ALL_CHARS))
    roles = lent.find_roles(workspace)[0] if "agent" in names else {}
    if roles:
        entries = ((r.name, r.description) for r in roles.values())
        room = ALL_CHARS - sum(map(len, parts))
        parts.append(listed("Roles for agent(role=NAME):", entries, room))
    return "\n".join(parts) or None


SKILLS = Section("skills", False, render, kind="skill")
