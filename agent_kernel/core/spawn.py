"""Spawn: a sub-agent as a task: fresh or forked, narrower than its parent, in the same log.

May not widen anything a parent may do, and refuses in code what would run away.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_kernel.core.agent import Agent
from agent_kernel.core.events import TaskCreated, UserMessage
from agent_kernel.core.messages import Json, Text, ToolUse
from agent_kernel.core.model import Done, ProviderError, StreamEvent
from agent_kernel.core.prompt import Section
from agent_kernel.core.query import TurnError, TurnResult, query, queue
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Ended, Task, Tasks, new_task_id
from agent_kernel.core.tool import ToolError

DEPTH, CHILD_STEPS, REPAIRS = 3, 30, 2  # features.md F7.4, F7.7
FORK_TEXT = (
    "You are a fork of the agent above: you have its context, not its place. "
    "Do this part only, answer once, and start no agent of your own:\n\n{prompt}"
)
REPAIR_TEXT = "Your answer does not fit: {why}. Answer once more, with nothing but what was asked."


@dataclass(frozen=True)
class Spawn:
    """What an `agent` call asks for; `role` is the child's system text, None = the parent's
    sections.

    `check` says what is wrong with an answer, None = nothing; `after` looks at how it ended.
    """

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
    check: Callable[[str], str | None] | None = None
    after: Callable[[Ended], Awaitable[Ended]] | None = None

    def wire(self) -> Json:
        """Return what a restarted kernel makes the agent of again."""
        kept: Json = {"role": self.role, "model": self.model, "max_steps": self.max_steps}
        kept |= {"tools": list(self.tools) if self.tools is not None else None}
        kept |= {"folder": str(self.workspace) if self.workspace else None}
        return {name: value for name, value in kept.items() if value is not None}


def refuse(session: Session, parent: Agent, spec: Spawn) -> None:
    """Raise ToolError where a child may not be started: in a fork, too deep, by a teammate, too
    wide.

    The log decides: a restart opens nothing that was closed before (F7.3).
    """
    mine = session.made.get(parent.id, ())
    if parent.forked or any(made.fork for made in mine):
        raise ToolError("Fork is not available inside a forked worker")
    if max([parent.depth, *(made.depth for made in mine)]) >= DEPTH:
        raise ToolError(f"agents may be {DEPTH} deep; this one is at depth {DEPTH}")
    if spec.background:
        refuse_background(session, parent)
    have = {tool.name for tool in parent.tools}
    wider = sorted(set(spec.tools or ()) - have)
    if wider:
        raise ToolError(f"tools {wider} are not the parent's; a child may only have fewer")


def refuse_background(session: Session, agent: Agent) -> None:
    """Raise ToolError where the agent is a teammate: those start nothing in the background."""
    teams = [agent.team, *(made.team for made in session.made.get(agent.id, ()))]
    team = next((each for each in teams if each is not None), None)
    if team is not None:
        raise ToolError(f"a teammate of {team!r} may not start background work; wait for it")


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
        late={},
        begun={},
        partial={},
        on_stream=lambda _event: None,
    )


def _kept(name: str, spec: Spawn) -> bool:
    return spec.tools is None or name in spec.tools


def spawn(
    session: Session, parent: Agent, tasks: Tasks, spec: Spawn, child_id: str | None = None
) -> Task:
    """Start a child agent as a task of its parent and return the task at once.

    Raises ToolError where `refuse` does or the caps are reached; nothing was started then.
    """
    refuse(session, parent, spec)
    child = child_of(parent, spec, child_id or new_task_id("agent"))
    created = TaskCreated(
        id=child.id,
        kind="agent",
        label=spec.label,
        depth=child.depth,
        fork=spec.fork,
        fork_at=_fork_at(session, parent) if spec.fork else None,
        team=spec.team,
        isolation=spec.isolation,
        spec=spec.wire(),
    )
    return _start(session, parent, tasks, child, spec, created)


def go_on(session: Session, parent: Agent, tasks: Tasks, spec: Spawn, task_id: str) -> Task:
    """Let an agent that ended, or was lost with a kernel, work on at `spec.prompt`; its task.

    Raises ToolError when there is no such agent, it runs, or `refuse_background` does.
    """
    made = session.made.get(task_id, ())
    if not made or made[0].kind != "agent":
        known = ", ".join(i for i, m in session.made.items() if m[0].kind == "agent") or "none"
        raise ToolError(f"there is no agent {task_id!r}; the agents are: {known}")
    if made[-1].agent != parent.id and made[-1].team is None:
        raise ToolError(f"agent {task_id!r} is another agent's; only its own parent speaks to it")
    if spec.background:
        refuse_background(session, parent)
    child = tasks.agents.get(task_id) or _again(parent, made[0])
    again = made[0].model_copy(update={"fork": False, "fork_at": None, "label": spec.label})
    return _start(session, parent, tasks, child, spec, again)


def _again(parent: Agent, made: TaskCreated) -> Agent:
    """Return a child as the log says it was."""
    kept = made.spec
    spec = Spawn(
        "",
        made.label,
        role=kept.get("role"),
        fork=made.fork,
        model=kept.get("model"),
        tools=kept.get("tools"),
        max_steps=kept.get("max_steps"),
        team=made.team,
        workspace=Path(kept["folder"]) if kept.get("folder") else None,
    )
    return replace(child_of(parent, spec, made.id), depth=made.depth)


def _start(
    session: Session, parent: Agent, tasks: Tasks, child: Agent, spec: Spawn, created: TaskCreated
) -> Task:
    async def work(task: Task) -> Ended:
        child.on_stream = lambda event: _tell(task, event)
        ended = await _run(session, child, spec)
        return await spec.after(ended) if spec.after is not None else ended

    task = tasks.start(
        "agent",
        spec.label,
        work,
        agent=parent.id,
        tool_use_id=spec.tool_use_id,
        id=child.id,
        created=created,
        awaited=not spec.background,
    )
    tasks.agents[child.id] = child
    return task


def _tell(task: Task, event: StreamEvent) -> None:
    """Write what an agent says and calls into its task's output."""
    if not isinstance(event, Done):
        return
    for block in event.message.content:
        if isinstance(block, Text) and block.text:
            task.write(block.text.encode("utf-8", "replace") + b"\n")
        elif isinstance(block, ToolUse):
            given = json.dumps(block.input, ensure_ascii=False)[:200]
            task.write(f"[{block.name} {given}]\n".encode("utf-8", "replace"))


def _fork_at(session: Session, parent: Agent) -> int | None:
    """Return the last event before the calling message: the fork holds no open call (F7.2)."""
    answer = session.state(parent.id).answer
    nodes = session.surface(parent.id).nodes
    before = [node.seq for node in nodes if answer is None or node.seq < answer.seq]
    return before[-1] if before else None


async def _run(session: Session, child: Agent, spec: Spawn) -> Ended:
    prompt = FORK_TEXT.format(prompt=spec.prompt) if spec.fork else spec.prompt
    try:
        result = await _turn(session, child, prompt)
        for _ in range(REPAIRS):
            wrong = spec.check(result.answer) if spec.check is not None else None
            if wrong is None or result.reason != "completed":
                break
            result = await query(session, child, REPAIR_TEXT.format(why=wrong), source="api")
    except (ProviderError, TurnError) as error:
        return Ended("failed", f'Agent "{spec.label}" failed: {error}', str(error))
    wrong = spec.check(result.answer) if spec.check is not None else None
    if result.reason == "completed" and wrong is None:
        return Ended("completed", f'Agent "{spec.label}" completed', result.answer)
    why = wrong if result.reason == "completed" else result.reason
    return Ended("failed", f'Agent "{spec.label}" ended: {why}', result.answer)


async def _turn(session: Session, child: Agent, prompt: str) -> TurnResult:
    """Run a turn of the child, or the one a former kernel left open, with the prompt in it."""
    state = session.state(child.id)
    if not state.turn_open:
        return await query(session, child, prompt, source="api")
    if state.prompted:
        queue(session, {"text": prompt, "from": "agent"}, "next", child.id)
    else:  # its first message was lost with a torn write
        session.append(UserMessage(content=(Text(prompt),)), agent=child.id)
    return await query(session, child)


def send(session: Session, task: Task, text: str) -> str:
    """Steer a running agent at its next step boundary; return what was done.

    Raises ToolError when the task is no running agent.
    """
    if task.kind != "agent" or task.ended is not None:
        raise ToolError(f"task {task.id!r} is {task.status}; only a running agent can be steered")
    queue(session, {"text": text, "from": "agent"}, "next", task.id)
    return f"queued for {task.id}; it is read before its next request"
