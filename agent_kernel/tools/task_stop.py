"""Task stop: ends a background task with everything below it, and says what its processes say.

May not say a task is stopped while a process of it lives.
"""

from __future__ import annotations

from pydantic import Field

from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.task_output import task_of

DESCRIPTION = "Stop a background task with all it started."


class TaskStopInput(Input):
    """Input of `task_stop`."""

    task: str = Field(min_length=1, max_length=64)


async def run(value: TaskStopInput, ctx: ToolContext) -> Answer:
    """Stop the task and its children's tasks; return how it ended."""
    task, tasks = task_of(ctx, value.task)
    if task.agent != ctx.agent and task.id not in _below(ctx):
        raise ToolError(f"task {task.id!r} is another agent's; only its own agent may stop it")
    if task.ended is not None:
        return text_answer(f"{task.id} had ended already: {task.ended.summary}", task=task.id)
    await tasks.stop(task.id)
    text = f"{task.id} is {task.status}; no process of it is left"
    return text_answer(text, task=task.id, status=task.status)


def _below(ctx: ToolContext) -> set[str]:
    """Return the ids of every task below the calling agent."""
    found = {ctx.agent}
    for task_id, made in ctx.session.made.items():  # a child's events come after its parent's
        if made[0].agent in found:
            found.add(task_id)
    return found - {ctx.agent}


TASK_STOP = Tool("task_stop", DESCRIPTION, TaskStopInput, run, timeout=60.0)
