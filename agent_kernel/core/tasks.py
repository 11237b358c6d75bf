"""Tasks: background work that outlives its call, and the inbox its end waits in.

May not start a process or an agent itself: the work is a coroutine handed in by the tool.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Literal

from agent_kernel.core.events import (
    Attachment,
    Event,
    InboxQueued,
    SurfaceEvent,
    TaskCreated,
    TaskFinished,
    TaskLost,
    TaskStatus,
    UserMessage,
)
from agent_kernel.core.messages import blocks_of
from agent_kernel.core.session import Session
from agent_kernel.core.tool import ToolError

Kind = Literal["agent", "bash", "cell"]
LETTERS: dict[Kind, str] = {"agent": "a", "bash": "b", "cell": "c"}
PER_AGENT, PER_SESSION = 10, 20  # features.md F6.1
RESULT_CHARS = 10_000
NOTICE = (
    "Runtime notice, not a message from the person. "
    "If the person has written too, answer the person first."
)


@dataclass(frozen=True)
class Ended:
    """How a task's work came to its end; `result` is what its owner is told."""

    status: Literal["completed", "failed", "stopped"]
    summary: str
    result: str = ""
    exit_code: int | None = None


@dataclass
class Task:
    """One running or finished task; `output` is the file its output streams to, None in memory."""

    id: str
    kind: Kind
    label: str
    agent: str
    tool_use_id: str | None
    output: Path | None
    started: float
    depth: int = 0
    awaited: bool = False
    last_output: float = 0.0
    ended: Ended | None = None
    work: asyncio.Task[None] | None = field(default=None, repr=False)
    _text: bytearray = field(default_factory=bytearray, repr=False)

    def write(self, data: bytes) -> None:
        """Add to the task's output."""
        self.last_output = time.time()
        if self.output is None:
            self._text += data
            return
        self.output.parent.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as file:
            file.write(data)

    def read(self, since: int = 0, limit: int = 30_000) -> tuple[bytes, int]:
        """Return up to `limit` bytes of output from offset `since`, and the offset after them."""
        if self.output is None:
            data = bytes(self._text[since : since + limit])
        elif not self.output.exists():
            data = b""
        else:
            with self.output.open("rb") as file:
                file.seek(since)
                data = file.read(limit)
        return data, since + len(data)

    @property
    def status(self) -> str:
        """running, or how it ended."""
        return self.ended.status if self.ended else "running"


Work = Callable[[Task], Awaitable[Ended]]


class Tasks:
    """The tasks this process runs for one session, on the loop that started them.

    What the log says of tasks is `session.tasks`; this holds only what a running process needs.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.all: dict[str, Task] = {}

    def running(self, agent: str | None = None, kind: Kind | None = None) -> list[Task]:
        """Return running tasks, of one agent and one kind when given, oldest first."""
        return [
            task
            for task in self.all.values()
            if task.ended is None
            and (agent is None or task.agent == agent)
            and (kind is None or task.kind == kind)
        ]

    def get(self, task_id: str) -> Task:
        """Return a task by its id. Raises ToolError naming the tasks there are."""
        if task_id not in self.all:
            known = ", ".join(self.all) or "none"
            raise ToolError(f"there is no task {task_id!r}; the tasks are: {known}")
        return self.all[task_id]

    def check_caps(self, agent: str) -> None:
        """Raise ToolError with the number when one more task would be too many."""
        mine, whole = len(self.running(agent)), len(self.running())
        if mine >= PER_AGENT:
            raise ToolError(f"{mine} tasks of this agent are running; at most {PER_AGENT} may")
        if whole >= PER_SESSION:
            raise ToolError(f"{whole} tasks of this session are running; at most {PER_SESSION} may")

    def start(
        self,
        kind: Kind,
        label: str,
        work: Work,
        *,
        agent: str = "main",
        tool_use_id: str | None = None,
        id: str | None = None,
        created: TaskCreated | None = None,
        awaited: bool = False,
    ) -> Task:
        """Log and start a task on the running loop; return it at once.

        `created` carries depth, fork, team, isolation; `awaited` = its call waits: no notice.
        Raises ToolError over the caps.
        """
        self.check_caps(agent)
        task_id = id or new_task_id(kind)
        folder = self.session.folder
        output = folder / "tasks" / f"{task_id}.out" if folder else None
        base = created or TaskCreated(id=task_id, kind=kind, label=label)
        where = f"{folder.name}/tasks/{task_id}.out" if folder else None
        made = base.model_copy(
            update={
                "id": task_id,
                "tool_use_id": tool_use_id,
                "output": where,
                "label": label,
                "awaited": awaited,
            }
        )
        self.session.append(made, agent=agent)
        task = Task(task_id, kind, label, agent, tool_use_id, output, time.time(), base.depth)
        task.awaited = awaited
        self.all[task_id] = task
        task.work = asyncio.ensure_future(self._run(task, work))
        return task

    async def _run(self, task: Task, work: Work) -> None:
        try:
            ended = await work(task)
        except asyncio.CancelledError:
            ended = Ended("stopped", f"{task.label} was stopped")
        except Exception as error:  # noqa: BLE001 - a task's failure is told to its owner
            ended = Ended("failed", f"{task.label} failed: {error}", str(error))
        self._finish(task, ended)

    def _finish(self, task: Task, ended: Ended) -> None:
        task.ended = ended
        event = TaskFinished(
            id=task.id,
            status=ended.status,
            summary=ended.summary,
            result=ended.result,
            exit_code=ended.exit_code,
            awaited=task.awaited,
            seconds=round(time.time() - task.started, 3),
        )
        self.session.append(event, agent=task.agent)

    def note_pid(self, task: Task, pid: int) -> None:
        """Log the process of a task, by which a restart finds it again."""
        self.session.append(TaskStatus(id=task.id, status="running", pid=pid), agent=task.agent)

    async def wait_any(self, agent: str, kind: Kind = "agent") -> None:
        """Return when one of the agent's running tasks of `kind` has ended."""
        works = [task.work for task in self.running(agent, kind) if task.work is not None]
        if works:
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)

    async def wait(self, task_id: str, seconds: float) -> Task:
        """Return the task when it ended or `seconds` have passed."""
        task = self.get(task_id)
        if task.work is not None and task.ended is None:
            await asyncio.wait([task.work], timeout=seconds)
        return task

    async def stop(self, task_id: str) -> Task:
        """Stop a task and its children's tasks; return when nothing of it runs any more."""
        task = self.get(task_id)
        for child in self.running(task_id):
            await self.stop(child.id)
        if task.work is not None and task.ended is None:
            task.work.cancel()
            await asyncio.wait([task.work])
        return task

    async def stop_all(self) -> None:
        """Stop every running task."""
        for task in self.running():
            await self.stop(task.id)


def new_task_id(kind: Kind) -> str:
    """Return a random task id: the kind's letter and 16 hex digits."""
    return LETTERS[kind] + secrets.token_hex(8)


def lose_tasks(session: Session, alive: Callable[[str], bool] = lambda _id: False) -> list[str]:
    """Log task/lost for each task the log says is running and `alive` does not find; return their
    ids."""
    lost: list[str] = []
    for task_id, event in list(session.tasks.items()):
        if isinstance(event, TaskCreated) and not alive(task_id):
            summary = f"{event.label} was lost when the kernel ended"
            gone = TaskLost(id=task_id, summary=summary, awaited=event.awaited)
            session.append(gone, agent=event.agent)
            lost.append(task_id)
    return lost


def inbox_event(item: Event, session: Session) -> SurfaceEvent:
    """Return the surface event that takes an inbox item: a person's words, or a notification."""
    if isinstance(item, InboxQueued):
        return UserMessage(content=blocks_of(str(item.item.get("text", ""))), sources=(item.seq,))
    assert isinstance(item, (TaskFinished, TaskLost))
    text = notification(item, created(session, item.id))
    label = f"task {item.id}"
    return Attachment(
        kind="notification", label=label, content=blocks_of(text), sources=(item.seq,)
    )


def created(session: Session, task_id: str) -> TaskCreated | None:
    """Return the task/created event of a task."""
    for event in reversed(session.events):
        if isinstance(event, TaskCreated) and event.id == task_id:
            return event
    return None


def notification(end: TaskFinished | TaskLost, made: TaskCreated | None) -> str:
    """Return the notice of a task's end in the form of features.md F6.3, values XML-escaped."""
    lost = isinstance(end, TaskLost)
    status = "lost" if isinstance(end, TaskLost) else end.status
    result = "" if isinstance(end, TaskLost) else end.result
    if len(result) > RESULT_CHARS:
        result = result[:RESULT_CHARS] + "\n[rest in output-file]"
    label = made.label if made else end.id
    summary = end.summary or f"{label} {'was lost with the kernel' if lost else status}"
    fields = {
        "task-id": end.id,
        "tool_use_id": (made.tool_use_id if made else None) or "",
        "output-file": (made.output if made else None) or "",
        "status": status,
        "summary": summary,
        "result": result,
    }
    lines = [f"<{name}>{escape(value, quote=False)}</{name}>" for name, value in fields.items()]
    return "\n".join([NOTICE, "<task-notification>", *lines, "</task-notification>"])
