"""Skill: the body of a skill, given only when it is called for.

May not grant a tool: `allowed-tools` of a file in a repository narrows, it never widens.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

import agent_kernel.tools.files as files
import agent_kernel.tools.skills as skills
from agent_kernel.core.agent import Agent
from agent_kernel.core.events import SkillLoaded
from agent_kernel.core.messages import Json
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.agent import apart
from agent_kernel.tools.skills import Skill

DESCRIPTION = (
    "Load a skill of the catalog: its instructions for a kind of task. Do it before you begin such "
    "a task; files beside it are read with read."
)


class SkillInput(Input):
    """Input of `skill`."""

    name: str = Field(min_length=1, max_length=64)
    arguments: str = Field("", max_length=10_000)


def _find(ctx: ToolContext, name: str) -> tuple[Skill, list[Skill]]:
    """Return the nearest skill of a name, and those it hides."""
    known = skills.find(files.root(ctx))
    found = known.found
    if name in found:
        return found[name], [each for each in known.hidden if each.name == name]
    near = difflib.get_close_matches(name, list(found), 3, 0.4) or list(found)[:10]
    raise ToolError(f"no skill {name!r}; the nearest are: {', '.join(near) or 'none'}")


def narrowed(skill: Skill, have: Sequence[str]) -> list[str]:
    """Return the tools a forked skill gets: those it names, as far as its parent has them."""
    if skill.allowed_tools is None:
        return list(have)
    wanted = {each.partition("(")[0].strip().lower() for each in skill.allowed_tools}
    return [name for name in have if name.lower() in wanted]


async def _forked(skill: Skill, body: str, ctx: ToolContext) -> str | None:
    """Run the skill as a sub-agent, when it wants that and tasks are kept; its answer."""
    owner = ctx.services.get("owner")
    if not skill.fork or not isinstance(owner, Agent) or owner.tasks is None:
        return None
    have = [tool.name for tool in owner.tools]
    return await apart(skill.name, body, narrowed(skill, have), skill.model, ctx)


async def run(value: SkillInput, ctx: ToolContext) -> Answer:
    """Return the skill's body with its arguments filled in, or the answer of its sub-agent."""
    skill, hidden = await asyncio.to_thread(_find, ctx, value.name)
    name = files.name_of(ctx, Path(os.path.realpath(skill.path)))
    event = SkillLoaded(name=skill.name, path=name, sha256=skill.sha256)
    ctx.session.append(event, agent=ctx.agent)
    body = skills.filled(skill, value.arguments)
    meta: Json = {"skill": skill.name, "path": name, "sha256": skill.sha256}
    meta |= {"origin": skill.origin, "taint": "repo" if skill.origin == "project" else None}
    if hidden:
        meta["hides"] = [files.name_of(ctx, Path(os.path.realpath(each.path))) for each in hidden]
    if skill.allowed_tools is not None:
        meta["allowed_tools"] = list(skill.allowed_tools)
    answered = await _forked(skill, body, ctx)
    if answered is not None:
        return text_answer(answered, forked=True, **meta)
    folder = files.name_of(ctx, Path(os.path.realpath(skill.folder)))
    head = f"Skill {skill.name!r}; files beside it: {folder}"
    if skill.allowed_tools is not None:
        head += f"; it uses no tool but {', '.join(skill.allowed_tools)}"
    return text_answer(f"{head}\n\n{body.strip()}", **meta)


SKILL = Tool("skill", DESCRIPTION, SkillInput, run, concurrent=True, read_only=True, timeout=None)
