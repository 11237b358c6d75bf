"""Skill hints: one line when a skill belongs to a touched file, or fits the prompt best.

May not repeat itself: a hint is attached once, until it is hidden.
"""

from __future__ import annotations

import asyncio
import fnmatch
from pathlib import Path
from typing import Any

from agent_kernel.core.prompt import Part, PromptContext, Section
from agent_kernel.sections.touched import touched

NAME = "skill_hints"
SHARED = 2  # words a prompt must share with a skill, unless one is of its name


async def render(context: PromptContext) -> dict[str, Part]:
    """Return one part a skill that is worth a look now, and those hinted at before."""
    lent: Any = context.facts.get("lent")
    session = context.facts.get("session")
    names = {tool.name for tool in getattr(context.facts.get("agent"), "tools", ())}
    if lent is None or session is None or "skill" not in names:
        return {}
    there = session.surface(context.agent).sections
    said = [n.partition(":")[2] for n in there if n.startswith(f"{NAME}:")]
    paths, start = touched(session, context.agent), session.state(context.agent).turn_start
    prompt = start.text if start is not None else ""
    return await asyncio.to_thread(hints, context.workspace, said, paths, prompt, lent)


def hints(
    workspace: Path, there: list[str], paths: tuple[str, ...], prompt: str, lent: Any
) -> dict[str, Part]:
    """Return one part a skill that was hinted at before, belongs to a touched file, or fits."""
    skills = lent.find_skills(workspace).found
    wanted = dict.fromkeys(there)
    for path in paths:
        wanted |= {s.name: None for s in skills.values() if _belongs(path, s.paths)}
    best = fitting(skills, prompt, lent)
    wanted |= {best: None} if best else {}
    return {
        name: Part(f"The skill {name!r} may fit here: {skills[name].description[:200]}")
        for name in wanted
        if name in skills
    }


def _belongs(path: str, patterns: tuple[str, ...]) -> bool:
    return any(
        fnmatch.fnmatch(path, each) or fnmatch.fnmatch(path, each.removeprefix("**/"))
        for each in patterns
    )


def fitting(skills: dict[str, Any], prompt: str, lent: Any) -> str | None:
    """Return the name of the skill that ranks first for a prompt, None when none shares enough."""
    found = list(skills.values())
    documents = [((s.name, 3), (s.description, 2), (s.when_to_use, 2)) for s in found]
    scores = lent.rank(prompt, documents)
    if not scores or max(scores) <= 0:
        return None
    best = found[max(range(len(found)), key=lambda at: (scores[at], -at))]
    said = set(lent.words(prompt))
    shared = said & set(lent.words(f"{best.name} {best.description} {best.when_to_use}"))
    return best.name if len(shared) >= SHARED or said & set(lent.words(best.name)) else None


SKILL_HINTS = Section(NAME, False, render, kind="reminder")
