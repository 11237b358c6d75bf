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
from types import TracebackType
from typing import Any, Literal, Self

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
from agent_kernel.core.prompt import spoken
from agent_kernel.core.session import Session
from agent_kernel.core.tool import ToolError

Kind = Literal["agent", "bash", "cell"]
LETTERS: dict[Kind, str] = {"agent": "a", "bash": "b", "cell": "c"}
PER_AGENT, PER_SESSION = 10, 20  # features.md F6.1
RESULT_CHARS = 10_000
LOST_BYTES = 2_000  # of a lost task's output that its notice tells
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
    pid: int | None = None
    team: str | None = None
    work: asyncio.Task[None] | None = field(default=None, repr=False)
    source: Callable[[int, int], tuple[bytes, int]] | None = field(default=None, repr=False)
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
        if self.output is None and self.source is not None:
            return self.source(since, limit)
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
        self.agents: dict[str, Any] = {}  # child agents by id, to go on with

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
        """Return a task by its id, or the last of a team by its name.

        Raises ToolError naming the tasks there are.
        """
        if task_id in self.all:
            return self.all[task_id]
        mates = [task for task in self.all.values() if task.team == task_id]
        if not mates:
            known = ", ".join(self.all) or "none"
            raise ToolError(f"there is no task {task_id!r}; the tasks are: {known}")
        return mates[-1]

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
        begun: bool = False,
    ) -> Task:
        """Log and start a task on the running loop; return it at once.

        `created` carries depth, fork, team, isolation; `awaited` = its call waits: no notice;
        `begun` = what `work` looks after runs already. Raises ToolError over the caps.
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
        task.awaited, task.team = awaited, base.team
        return self._begin(task, work, begun)

    def take_up(self, made: TaskCreated, work: Work) -> Task:
        """Go on with a task of a former kernel that was found alive; return it."""
        folder = self.session.folder
        output = folder / "tasks" / f"{made.id}.out" if folder else None
        given = (made.id, made.kind, made.label, made.agent, made.tool_use_id, output, made.time)
        task = Task(*given, depth=made.depth, awaited=made.awaited, team=made.team)
        return self._begin(task, work, begun=True)

    def _begin(self, task: Task, work: Work, begun: bool) -> Task:
        self.all[task.id] = task
        task.work = asyncio.ensure_future(self._run(task, work, begun))
        # One that was cancelled before its first step has not come to its end by itself.
        task.work.add_done_callback(lambda _done: self._finish(task, _stopped(task)))
        return task

    async def _run(self, task: Task, work: Work, begun: bool) -> None:
        try:
            if not begun:
                await self.session.log.commit()  # what is about to act is on disk first
            ended = await work(task)
        except asyncio.CancelledError:
            ended = _stopped(task)
        except Exception as error:  # noqa: BLE001 - a task's failure is told to its owner
            ended = Ended("failed", f"{task.label} failed: {error}", str(error))
        self._finish(task, ended)

    def _finish(self, task: Task, ended: Ended) -> None:
        if task.ended is not None:
            return
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

    def note_pid(self, task: Task, pid: int, started: int | None = None) -> None:
        """Log the process of a task, by which a restart finds it again."""
        task.pid = pid
        status = TaskStatus(id=task.id, status="running", pid=pid, started=started)
        self.session.append(status, agent=task.agent)

    async def wait_any(self, agent: str, kind: Kind = "agent") -> None:
        """Return when one of the agent's running tasks of `kind` ended, or words wait for it."""
        works = [task.work for task in self.running(agent, kind) if task.work is not None]
        if not works:
            return
        with Watch(self.session, agent, ("now", "next")) as watch:
            watch.look()
            heard = asyncio.ensure_future(watch.event.wait())
            try:
                await asyncio.wait([*works, heard], return_when=asyncio.FIRST_COMPLETED)
            finally:
                heard.cancel()

    async def wait(self, task_id: str, seconds: float | None) -> Task:
        """Return the task when it ended or `seconds` have passed (None = however long it takes)."""
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


class Watch:
    """While it is entered, `event` is set when an item of these priorities is queued for an agent.

    `on_item` is called then too, on the loop that entered.
    """

    def __init__(
        self,
        session: Session,
        agent: str,
        priorities: tuple[str, ...],
        on_item: Callable[[], object] = lambda: None,
    ) -> None:
        self.event = asyncio.Event()
        self._session, self._agent, self._priorities = session, agent, priorities
        self._on_item, self._open = on_item, False

    def _hear(self, event: Event) -> None:
        wanted = isinstance(event, InboxQueued) and event.priority in self._priorities
        if wanted and event.agent == self._agent:
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if self._open:
            self.event.set()
            self._on_item()

    def __enter__(self) -> Self:
        self._loop, self._open = asyncio.get_running_loop(), True
        self._session.log.listeners.append(self._hear)
        return self

    def look(self) -> None:
        """Hear what was queued before anybody listened."""
        for event in list(self._session.state(self._agent).inbox.values()):
            self._hear(event)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._open = False
        self._session.log.listeners.remove(self._hear)


def _stopped(task: Task) -> Ended:
    return Ended("stopped", f"{task.label} was stopped")


def new_task_id(kind: Kind) -> str:
    """Return a random task id: the kind's letter and 16 hex digits."""
    return LETTERS[kind] + secrets.token_hex(8)


def lose_tasks(session: Session, alive: Callable[[str], bool] = lambda _id: False) -> list[str]:
    """Log task/lost for each task the log says is running and `alive` does not find; return their
    ids."""
    lost: list[str] = []
    for task_id, event in list(session.tasks.items()):
        if isinstance(event, TaskCreated) and not alive(task_id):
            again = f"; agent(to={task_id!r}) goes on with it" if event.kind == "agent" else ""
            summary = f"{event.label} was lost when the kernel ended{again}"
            told = _written(session, task_id)
            gone = TaskLost(id=task_id, summary=summary, result=told, awaited=event.awaited)
            session.append(gone, agent=event.agent)
            lost.append(task_id)
    return lost


def _written(session: Session, task_id: str) -> str:
    """Return the end of what a task had written."""
    path = session.folder / "tasks" / f"{task_id}.out" if session.folder else None
    if path is None or not path.exists():
        return ""
    return path.read_bytes()[-LOST_BYTES:].decode("utf-8", "replace")


def inbox_event(item: Event, session: Session) -> SurfaceEvent:
    """Return the surface event that takes an inbox item: a person's words, or a notification.

    `item.content` are blocks, else `item.text`; `item.kind` makes it an attachment of ours.
    """
    if isinstance(item, InboxQueued):
        content = blocks_of(item.item.get("content") or str(item.item.get("text", "")))
        kind = item.item.get("kind")
        if kind is None:
            return UserMessage(content=spoken(content), sources=(item.seq,))
        label = str(item.item.get("label", kind))
        return Attachment(kind=kind, label=label, content=content, sources=(item.seq,))
    assert isinstance(item, (TaskFinished, TaskLost))
    text = notification(item, created(session, item.id))
    label = f"task {item.id}"
    return Attachment(
        kind="notification", label=label, content=blocks_of(text), sources=(item.seq,)
    )


def created(session: Session, task_id: str) -> TaskCreated | None:
    """Return the last task/created event of a task: one that was gone on with has several."""
    made = session.made.get(task_id)
    return made[-1] if made else None


def notification(end: TaskFinished | TaskLost, made: TaskCreated | None) -> str:
    """Return the notice of a task's end in the form of features.md F6.3, values XML-escaped."""
    lost = isinstance(end, TaskLost)
    status = "lost" if isinstance(end, TaskLost) else end.status
    result = end.result
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
