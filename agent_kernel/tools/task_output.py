"""Task output: what a task wrote since an offset, and the state its process is in.

May not wait for the end of what only falls silent, and kills nothing.
"""

from __future__ import annotations

import time

from pydantic import Field

import agent_kernel.tools.background as background
import agent_kernel.tools.bash_task as bash_task
from agent_kernel.core.tasks import Task, Tasks, created
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.guard.fence import escape_tags

BYTES, LONGEST = 30_000, 600  # of one answer; seconds

DESCRIPTION = (
    "Read what a background task wrote from byte `since` on, and its state. You are told when a "
    "task ends: look only when you need to."
)


class TaskOutputInput(Input):
    """Input of `task_output`."""

    task: str = Field(min_length=1, max_length=64)
    since: int = Field(0, ge=0)
    wait: float = Field(0, ge=0, le=LONGEST, description="seconds to wait for its end")


def task_of(ctx: ToolContext, name: str) -> tuple[Task, Tasks]:
    """Return a task of this process and where it is kept.

    Raises ToolError naming the tasks there are, or what became of it with an earlier kernel.
    """
    tasks = bash_task.tasks_of(ctx)
    made = created(ctx.session, name)
    if made is None or name in tasks.all:
        return tasks.get(name), tasks
    end = ctx.session.tasks[name].type
    became = {"task/finished": "had ended", "task/lost": "is lost"}.get(end, "is not running")
    where = f"; read(path={made.output!r}) has its output" if made.output else ""
    raise ToolError(f"task {name!r} is of an earlier kernel and {became}{where}")


async def run(value: TaskOutputInput, ctx: ToolContext) -> Answer:
    """Return the output from `since` on and a last line: state, next offset, age, memory."""
    task, tasks = task_of(ctx, value.task)
    if value.wait and task.ended is None:
        await tasks.wait(task.id, value.wait)
    data = whole(task.read(value.since, BYTES)[0])
    text = data.decode("utf-8", "replace")
    text += "\n" if text and not text.endswith("\n") else ""
    after = value.since + len(data)
    meta = {"task": task.id, "status": task.status, "next": after, "taint": "repo"}
    return text_answer(f"{escape_tags(text)}[{_state(task, after)}]", **meta)


def whole(data: bytes) -> bytes:
    """Return bytes without the beginning of a character whose rest is still to come."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            need = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if need > back else data
        if byte < 0x80:
            break
    return data


def _state(task: Task, after: int) -> str:
    parts = [task.ended.summary if task.ended is not None else "running", f"next since={after}"]
    silent = background.age(task)
    if silent is not None:
        parts.append(f"last output {silent:.0f} s ago")
    if task.ended is not None:
        return "; ".join(parts)
    if (silent if silent is not None else time.time() - task.started) > background.QUIET:
        parts.append("quiet")
    peak = background.peak_memory(task.pid) if task.pid is not None else None
    return "; ".join(parts if peak is None else [*parts, f"peak memory {peak / 2**20:.0f} MiB"])


TASK_OUTPUT = Tool(
    "task_output",
    DESCRIPTION,
    TaskOutputInput,
    run,
    concurrent=True,
    read_only=True,
    timeout=LONGEST + 10.0,
    spill=False,
)
