"""Beside: what a person's clicks do to what runs: a turn moved to the background, a task cancelled.

May not start a turn, and may not decide an approval: those have their own nonce.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent_kernel.core.query import drop, queue
from agent_kernel.core.tasks import Ended, Task
from agent_kernel.core.tool import ToolError
from agent_kernel.kernel.failed import KNOWN, TurnFailed
from agent_kernel.kernel.runtime import Submitted

if TYPE_CHECKING:
    from agent_kernel.core.messages import Json
    from agent_kernel.kernel.workbench import Workbench


def to_background(bench: Workbench) -> None:
    """Let the cell of the turn that runs end, the turn go on as a task; on the runtime's loop."""
    job = bench.running
    if job is None or job.left.done() or bench.tasks is None:
        return
    start = bench.session.state().turn_start
    label = ((start.text if start else "").strip() or "turn").splitlines()[0][:80]

    async def follow(_task: Task) -> Ended:
        try:
            await _whole(job)
        except (TurnFailed, *KNOWN) as error:
            return Ended("failed", f"{label}: {error}")
        return Ended("completed", f"{label}: done")

    try:
        task = bench.tasks.start("cell", label, follow, awaited=True)
    except ToolError as error:  # as many tasks run as may
        bench.notice(f"the turn stays in its cell: {error}")
        return
    if bench.display is not None:
        bench.display.moved = True
        bench.display.touch()
    job.left.set_result(task.id)
    bench.show_panel(anew=True)  # under the cell that is left: it asks there


async def _whole(job: Submitted[object]) -> None:
    """Wait for a turn's end; stopping who waits stops the turn, and waits until it has closed."""
    ended = asyncio.wrap_future(job.done)
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        job.cancel()
        await asyncio.wait([ended])
        raise


def detach(bench: Workbench) -> None:
    """Let a turn that only waits for its agents end now; their ends join the next agent cell."""
    if bench.display is not None and bench.display.waiting:
        bench.leave.set()
    else:
        to_background(bench)


def hear(bench: Workbench, message: Json) -> None:
    """Take a click of the turn's or the panel's widget, on the runtime's loop."""
    if bench.approver.hear(message):
        return
    kind = message["type"]
    if kind == "cancel" and bench.tasks is not None:
        _cancel(bench, str(message.get("task")))
    elif kind == "unqueue":
        _unqueue(bench, message.get("item"))
    elif bench.running is None:
        return
    elif kind == "stop":
        bench.running.cancel()
    elif kind == "background":
        to_background(bench)
    elif kind == "detach":
        detach(bench)
    elif kind == "steer" and str(message.get("text") or "").strip():
        queue(bench.session, {"text": str(message["text"])}, "next")


def _cancel(bench: Workbench, task_id: str) -> None:
    tasks = bench.tasks
    if tasks is not None and task_id in tasks.all:
        bench.keep(asyncio.ensure_future(tasks.stop(task_id)))


def _unqueue(bench: Workbench, item: object) -> None:
    if isinstance(item, int) and item in bench.session.state().inbox:
        drop(bench.session, item, "taken back by the person")
