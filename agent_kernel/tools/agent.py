"""Agent: a sub-agent for a part of the work: at once an id, or its answer when that is waited for.

May not give a child more than its parent has; `core/spawn.py` refuses what would run away.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field

import agent_kernel.tools.roles as roles
import agent_kernel.tools.worktree as worktree
from agent_kernel.core.agent import Agent
from agent_kernel.core.messages import Json
from agent_kernel.core.spawn import Spawn, go_on, refuse, send, spawn
from agent_kernel.core.tasks import Task, Tasks, new_task_id
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer

NOWHERE = "agents cannot be started here: nothing keeps their tasks"
MODELS = {"sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5"}  # providers/choose.py's two
DESCRIPTION = (
    "Start an agent on a part of the work: it has a context of its own, and you get its last text "
    "alone, so say in `prompt` all it needs and what to give back. It answers at once with an id; "
    "you are told when it ends: go on meanwhile, do not poll. background=false waits for the text. "
    "Several calls in one answer run side by side."
)


class AgentInput(Input):
    """Input of `agent`."""

    prompt: str = Field(min_length=1, max_length=100_000)
    description: str = Field(min_length=1, max_length=80, description="3-5 words for the person")
    role: str | None = Field(None, description="a role of the catalog")
    fork: bool = Field(False, description="begin with your own context")
    background: bool = True
    isolation: Literal["worktree"] | None = None
    model: str | None = None
    tools: list[str] | None = Field(None, description="only these of yours")
    schema_: Json | None = Field(None, alias="schema", description="JSON Schema of the answer")
    max_steps: int | None = Field(None, ge=1, le=30)
    to: str | None = Field(None, description="id or team: go on with that agent, or steer it")
    team: str | None = Field(None, max_length=40, description="keep it, to be spoken to by name")


@dataclass(frozen=True)
class Desk:
    """Who calls, where tasks are kept, and the call itself."""

    owner: Agent
    tasks: Tasks
    ctx: ToolContext


def desk_of(ctx: ToolContext) -> Desk:
    """Return the calling agent with its tasks. Raises ToolError where nothing keeps tasks."""
    owner = ctx.service("owner", NOWHERE)
    if not isinstance(owner, Agent) or owner.tasks is None:
        raise ToolError(NOWHERE)
    return Desk(owner, owner.tasks, ctx)


async def run(value: AgentInput, ctx: ToolContext) -> Answer:
    """Start, go on with, or steer an agent; return its id, or its text when that is waited for."""
    desk = desk_of(ctx)
    waits = not value.background or value.schema_ is not None
    spec = replace(_spec(value, desk), background=not waits)
    if value.to is not None:
        return await _to(value.to, spec, desk)
    child_id = new_task_id("agent")
    if value.isolation == "worktree":
        refuse(ctx.session, desk.owner, spec)  # before a worktree is made for nothing
        spec = await _isolated(spec, desk, child_id)
    return await _answer(spawn(ctx.session, desk.owner, desk.tasks, spec, child_id), spec, desk)


def _spec(value: AgentInput, desk: Desk) -> Spawn:
    have = [tool.name for tool in desk.owner.tools]
    role = _role(value.role, desk) if value.role else None
    tools = value.tools if value.tools is not None else role.kept(have) if role else None
    return Spawn(
        value.prompt,
        value.description,
        role=role.text if role else None,
        fork=value.fork,
        model=_model(value.model or (role.model if role else None), desk.owner),
        tools=tools,
        max_steps=value.max_steps,
        team=value.team,
        isolation=value.isolation,
        tool_use_id=desk.ctx.call_id,
        check=None if value.schema_ is None else _checker(value.schema_),
    )


def _role(name: str, desk: Desk) -> roles.Role:
    found, _ = roles.find(desk.owner.workspace)
    if name not in found:
        near = difflib.get_close_matches(name, list(found), 3, 0.4) or list(found)[:10]
        raise ToolError(f"no role {name!r}; the nearest are: {', '.join(near) or 'none'}")
    return found[name]


def _model(name: str | None, owner: Agent) -> str | None:
    """Return a model's id; Claude Code's short names count where the host has those models."""
    if name in ("opus", *MODELS):
        return MODELS.get(name) if owner.provider.endpoint.name == "anthropic" else None
    return name


async def _isolated(spec: Spawn, desk: Desk, child_id: str) -> Spawn:
    folder = desk.ctx.session.folder
    place = folder / "worktrees" if folder is not None else None
    tree = await worktree.made(desk.owner.workspace, place, child_id)
    return replace(spec, workspace=tree.inner, after=lambda end: worktree.ended(tree, end))


async def _to(name: str, spec: Spawn, desk: Desk) -> Answer:
    """Steer the running agent `name`, or let it go on where it ended."""
    task_id = _known(name, desk)
    task = desk.tasks.all.get(task_id)
    if task is not None and task.ended is None:
        if task.agent != desk.owner.id and task.team is None:
            raise ToolError(f"agent {name!r} is another agent's; only its own parent speaks to it")
        return text_answer(send(desk.ctx.session, task, spec.prompt), task=task_id)
    task = go_on(desk.ctx.session, desk.owner, desk.tasks, spec, task_id)
    return await _answer(task, spec, desk)


def _known(name: str, desk: Desk) -> str:
    """Return the id of an agent by its id, or of the last one of a team by the log."""
    made = desk.ctx.session.made
    mates = [task_id for task_id, each in made.items() if each[0].team == name]
    return name if name in made or not mates else mates[-1]


async def _answer(task: Task, spec: Spawn, desk: Desk) -> Answer:
    if spec.background:
        where = str(task.output) if task.output is not None else None
        said = {"status": "async_launched", "task_id": task.id, "output_file": where}
        return text_answer(json.dumps(said), task=task.id)
    try:
        await desk.tasks.wait(task.id, None)
    except asyncio.CancelledError:
        await desk.tasks.stop(task.id)
        raise
    end = task.ended
    assert end is not None
    if end.status != "completed":
        raise ToolError(f"{end.summary}\n\n{end.result}".strip(), {"task": task.id})
    value = _parsed(end.result) if spec.check is not None else None
    extra: Json = {} if value is None else {"value": value[0]}
    return text_answer(end.result, task=task.id, **extra)


# ---------------------------------------------------------------- answers by schema
def _parsed(text: str) -> tuple[Any] | None:
    """Return the one JSON value of an answer, bare or in its only fence; None where none is."""
    fenced = re.findall(r"```(?:json)?\s*\n(.*?)```", text, re.DOTALL)
    for each in [text, *(fenced if len(fenced) == 1 else ())]:
        try:
            return (json.loads(each),)
        except ValueError:
            continue
    return None


def _checker(schema: Json) -> Any:
    """Return what says how an answer does not fit `schema`. Raises ToolError on a bad schema."""
    from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]
    from referencing import Registry

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolError(f"the schema is none: {error.message}") from None
    if any(not ref.startswith("#") for ref in _refs(schema)):
        raise ToolError("a `$ref` of the schema leaves it; nothing is fetched: put it into `$defs`")
    validator = Draft202012Validator(schema, registry=Registry())

    def check(text: str) -> str | None:
        value = _parsed(text)
        if value is None:
            return "it is not one JSON value"
        error = next(iter(sorted(validator.iter_errors(value[0]), key=str)), None)
        return None if error is None else f"{error.json_path}: {error.message}"[:500]

    return check


def _refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (str(v) for k, v in node.items() if k in ("$ref", "$dynamicRef"))
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _refs(each)


# ---------------------------------------------------------------- skills that run apart
async def apart(name: str, body: str, tools: list[str], model: str | None, ctx: ToolContext) -> str:
    """Return the answer of an agent that was given a skill's body (`context: fork`)."""
    desk = desk_of(ctx)
    spec = Spawn(
        body, f"skill {name}", background=False, model=_model(model, desk.owner), tools=tools,
        tool_use_id=ctx.call_id,
    )  # fmt: skip
    answer = await _answer(spawn(ctx.session, desk.owner, desk.tasks, spec), spec, desk)
    return answer.content[0].wire()["text"]  # type: ignore[no-any-return]


AGENT = Tool("agent", DESCRIPTION, AgentInput, run, concurrent=True, timeout=None)
