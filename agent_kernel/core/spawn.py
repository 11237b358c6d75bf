"""Spawn: a sub-agent as a task: fresh or forked, narrower than its parent, in the same log.

May not widen anything a parent may do, and refuses in code what would run away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_kernel.core.agent import Agent
from agent_kernel.core.events import TaskCreated
from agent_kernel.core.model import ProviderError
from agent_kernel.core.prompt import Section
from agent_kernel.core.query import query, queue
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Ended, Task, Tasks, new_task_id
from agent_kernel.core.tool import ToolError

DEPTH, CHILD_STEPS = 3, 30  # features.md F7.4
FORK_TEXT = (
    "You are a fork of the agent above: you have its context, not its place. "
    "Do this part only, answer once, and start no agent of your own:\n\n{prompt}"
)


@dataclass(frozen=True)
class Spawn:
    """What an `agent` call asks for; `role` is the child's system text, None = the parent's
    sections."""

    prompt: str
    label: str
    role: str | None = None
    fork: bool = False
    background: bool = True
    model: str | None = None
    tools: Sequence[str] | None = None
    max_steps: int | None = None
    team: str | None = None
    isolation: str | None = None
    workspace: Path | None = None
    tool_use_id: str | None = None
    sections: Sequence[Section] = field(default=())


def refuse(parent: Agent, spec: Spawn) -> None:
    """Raise ToolError where a child may not be started: in a fork, too deep, by a teammate, too
    wide."""
    if parent.forked:
        raise ToolError("Fork is not available inside a forked worker")
    if parent.depth >= DEPTH:
        raise ToolError(f"agents may be {DEPTH} deep; this one is at depth {parent.depth}")
    if parent.team is not None and spec.background:
        raise ToolError(f"a teammate of {parent.team!r} may not start background agents")
    have = {tool.name for tool in parent.tools}
    wider = sorted(set(spec.tools or ()) - have)
    if wider:
        raise ToolError(f"tools {wider} are not the parent's; a child may only have fewer")


def child_of(parent: Agent, spec: Spawn, child_id: str) -> Agent:
    """Return the child agent: the parent's provider, judge and limits, its own id, prompt and
    tools."""
    tools = parent.tools if spec.fork else [t for t in parent.tools if _kept(t.name, spec)]
    sections = parent.sections
    if spec.role is not None and not spec.fork:
        text = spec.role
        own = Section("identity", True, lambda _context: text)
        sections = (own, *(s for s in parent.sections if s.name != "identity"))
    steps = min(spec.max_steps or CHILD_STEPS, CHILD_STEPS)
    return replace(
        parent,
        id=child_id,
        model=spec.model or parent.model,
        tools=tools,
        sections=sections,
        limits=replace(parent.limits, steps=steps),
        workspace=spec.workspace or parent.workspace,
        depth=parent.depth + 1,
        forked=spec.fork,
        team=spec.team,
        wake="cell",
        system=parent.system if spec.fork else None,
        context=(),
        partial={},
        on_stream=lambda _event: None,
    )


def _kept(name: str, spec: Spawn) -> bool:
    return spec.tools is None or name in spec.tools


def spawn(session: Session, parent: Agent, tasks: Tasks, spec: Spawn) -> Task:
    """Start a child agent as a task of its parent and return the task at once.

    Raises ToolError where `refuse` does or the caps are reached; nothing was started then.
    """
    refuse(parent, spec)
    child_id = new_task_id("agent")
    child = child_of(parent, spec, child_id)
    created = TaskCreated(
        id=child_id,
        kind="agent",
        label=spec.label,
        depth=child.depth,
        fork=spec.fork,
        fork_at=_fork_at(session, parent) if spec.fork else None,
        team=spec.team,
        isolation=spec.isolation,
    )

    async def work(task: Task) -> Ended:
        return await _run(session, child, spec, task)

    return tasks.start(
        "agent",
        spec.label,
        work,
        agent=parent.id,
        tool_use_id=spec.tool_use_id,
        id=child_id,
        created=created,
        awaited=not spec.background,
    )


def _fork_at(session: Session, parent: Agent) -> int | None:
    """Return the last event before the calling message: the fork holds no open call (F7.2)."""
    answer = session.state(parent.id).answer
    nodes = session.surface(parent.id).nodes
    before = [node.seq for node in nodes if answer is None or node.seq < answer.seq]
    return before[-1] if before else None


async def _run(session: Session, child: Agent, spec: Spawn, task: Task) -> Ended:
    prompt = FORK_TEXT.format(prompt=spec.prompt) if spec.fork else spec.prompt
    try:
        result = await query(session, child, prompt, source="api")
    except ProviderError as error:
        return Ended("failed", f'Agent "{spec.label}" failed: {error}', str(error))
    task.write(result.answer.encode("utf-8", "replace"))
    if result.reason == "completed":
        return Ended("completed", f'Agent "{spec.label}" completed', result.answer)
    return Ended("failed", f'Agent "{spec.label}" ended: {result.reason}', result.answer)


def send(session: Session, task: Task, text: str) -> str:
    """Steer a running agent at its next step boundary; return what was done.

    Raises ToolError when the task is no running agent.
    """
    if task.kind != "agent" or task.ended is not None:
        raise ToolError(f"task {task.id!r} is {task.status}; only a running agent can be steered")
    queue(session, {"text": text, "from": "agent"}, "next", task.id)
    return f"queued for {task.id}; it is read before its next request"
