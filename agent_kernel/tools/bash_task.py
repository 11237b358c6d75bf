"""Bash task: a command that outlives its call: adopted as a task, its end told once.

May not lose a process: what is not adopted is stopped by the call that started it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import agent_kernel.tools.files as files
from agent_kernel.core.agent import Agent
from agent_kernel.core.messages import Json
from agent_kernel.core.spawn import refuse_background
from agent_kernel.core.tasks import Ended, Task, Tasks
from agent_kernel.core.tool import Answer, ToolContext, ToolError, text_answer
from agent_kernel.guard.child import Child
from agent_kernel.guard.endings import Finished
from agent_kernel.guard.output import Live
from agent_kernel.tools.bash_output import without_mark

RESULT = 8_000  # characters of the end of its output that a task's end tells
SHOWN = 5_000  # characters of output so far when a command is moved to the background
LABEL = 80
Status = Literal["completed", "failed", "stopped"]
NONE = "background work is not possible here; run it without background=true"


class Sink:
    """Where a command's output goes while it comes: a view first, a task's memory later."""

    def __init__(self, view: Live | None = None) -> None:
        self._view = view
        self.task: Task | None = None

    def add(self, chunk: bytes) -> None:
        """Take the next bytes, in the child's thread."""
        if self.task is not None:
            self.task.write(chunk)
        elif self._view is not None:
            self._view.add(chunk)

    def flush(self) -> None:
        """Show what is pending."""
        if self._view is not None:
            self._view.flush()


def tasks_of(ctx: ToolContext) -> Tasks:
    """Return the roof's tasks. Raises ToolError where there are none."""
    found = ctx.service("tasks", NONE)
    assert isinstance(found, Tasks)
    return found


def refuse(ctx: ToolContext) -> None:
    """Raise ToolError where the calling agent is a teammate: it starts nothing behind its call."""
    owner = ctx.services.get("owner")
    if isinstance(owner, Agent):
        refuse_background(ctx.session, owner)


def room(ctx: ToolContext, tasks: Tasks) -> bool:
    """Tell whether the calling agent may have one more task."""
    try:
        tasks.check_caps(ctx.agent)
        refuse(ctx)
    except ToolError:
        return False
    return True


def begin(
    ctx: ToolContext,
    tasks: Tasks,
    start: Callable[[], Child],
    task_id: str,
    label: str,
    sink: Sink,
    mark: bytes = b"",
    running: Child | None = None,
) -> Task:
    """Make a task of the command `start` starts, or of one that is `running`; return it at once.

    The task's end stops or reports the command. Raises ToolError over the caps.
    """
    short = " ".join(label.split())[:LABEL]

    async def work(task: Task) -> Ended:
        child = start()
        _hand_over(task, child, sink)
        tasks.note_pid(task, child.pid, child.started)
        try:
            finished = await child.wait()
        except asyncio.CancelledError:
            await child.stop()
            raise
        assert finished is not None
        return _ended(finished, task, short, mark)

    task = tasks.start(
        "bash",
        short,
        work,
        agent=ctx.agent,
        tool_use_id=ctx.call_id,
        id=task_id,
        begun=running is not None,
    )
    if running is not None and task.work is not None:  # even when the work never had its first step
        task.work.add_done_callback(lambda _done: running.stop_soon())
        _hand_over(task, running, sink)
    return task


def _hand_over(task: Task, child: Child, sink: Sink) -> None:
    """Let a session in memory hold the output itself; a file gets it from the child."""
    if task.output is None and sink.task is None:
        task.write(child.read(0, 1 << 20)[0])
        sink.task = task


def _ended(finished: Finished, task: Task, label: str, mark: bytes) -> Ended:
    text = _tail(finished, task, mark)
    status: Status = "completed" if finished.exit_code == 0 else "failed"
    if finished.stopped:
        status = "stopped"
    how = "completed" if status == "completed" else f"{status}: {finished.ending()}"
    return Ended(status, f'Command "{label}" {how}', text, finished.exit_code)


def _tail(finished: Finished, task: Task, mark: bytes) -> str:
    """The end of the output, the shell's word about its folder taken out of it and of the file."""
    data = finished.head + finished.tail
    if mark:
        told, _ = without_mark(data, mark)
        if task.output is not None and len(told) < len(data) and task.output.exists():
            size = task.output.stat().st_size - (len(data) - len(told))
            os.truncate(task.output, max(0, size))
        data = told
    return data.decode("utf-8", "replace")[-RESULT:]


def output_file(task: Task, ctx: ToolContext) -> str:
    """Return the path of a task's output as the model is told it, "" in memory."""
    return files.name_of(ctx, Path(os.path.realpath(task.output))) if task.output else ""


def launched(task: Task, ctx: ToolContext, meta: Json) -> Answer:
    """Return the acknowledgement of a task that was started."""
    said = {
        "status": "async_launched",
        "task_id": task.id,
        "output_file": output_file(task, ctx),
    }
    return text_answer(json.dumps(said), **meta, task=task.id, exit_code=None)


def moved(task: Task, ctx: ToolContext, meta: Json, seconds: float) -> Answer:
    """Return what is told of a command that outran its time and goes on in the background."""
    so_far = task.read(0, SHOWN)[0].decode("utf-8", "replace").rstrip("\n")
    where = output_file(task, ctx)
    text = (
        f"[still running after {seconds:g} s: it goes on in the background as task {task.id}"
        f"{f', output in {where}' if where else ''}; you are told when it ends]"
    )
    text = f"{so_far}\n{text}" if so_far else text
    return text_answer(text, **meta, task=task.id, exit_code=None, seconds=seconds)
