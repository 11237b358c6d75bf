"""Background: what a task of a process looks like now, and finding it again after a restart.

May not lose a process: it ends with its kernel, or is known again by its pid and start time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.core.events import TaskCreated, TaskStatus
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Ended, Task, Tasks, Work, lose_tasks
from agent_kernel.guard import launch, process

TAIL = 2_000  # bytes of output that a notice tells
QUIET = 600.0  # seconds without output after which a task is called quiet (F6.2)
LOOK = 0.25  # seconds between two looks at a process that is not our child


def age(task: Task) -> float | None:
    """Return the seconds since a task last wrote, None when it never did."""
    last = task.last_output
    if task.output is not None and task.output.exists() and task.output.stat().st_size:
        last = max(last, task.output.stat().st_mtime)
    return max(0.0, time.time() - last) if last else None


def peak_memory(pid: int) -> int | None:
    """Return the sum of the peak resident bytes of a process and those below it, None if unknown.

    VmHWM of proc(5), in kB.
    """
    total = 0
    for each in (pid, *launch.descendants(pid)):
        try:
            text = Path(f"/proc/{each}/status").read_text(encoding="utf-8")
        except OSError:
            continue
        line = next((x for x in text.split("\n") if x.startswith("VmHWM:")), "")
        total += int(line.split()[1]) * 1024 if line else 0
    return total or None


# ---------------------------------------------------------------- after a restart
@dataclass(frozen=True)
class Reopened:
    """What became of the tasks a former kernel left running: taken up again, or lost."""

    adopted: tuple[str, ...]
    lost: tuple[str, ...]


async def reopen(session: Session, tasks: Tasks) -> Reopened:
    """Take up the commands that still run, and log the other running tasks as lost (F6.10)."""
    return reopen_now(session, tasks)


def reopen_now(session: Session, tasks: Tasks) -> Reopened:
    """Do the same from code that cannot await; a loop has to run in this thread."""
    statuses = {e.id: e for e in session.events if isinstance(e, TaskStatus) and e.pid is not None}
    adopted = []
    for task_id, made in list(session.tasks.items()):
        if not isinstance(made, TaskCreated) or made.kind != "bash" or task_id in tasks.all:
            continue
        found = _process(task_id, statuses.get(task_id))
        if found is not None:
            task = tasks.take_up(made, _watcher(*found))
            tasks.note_pid(task, *found)
            adopted.append(task_id)
    lost = lose_tasks(session, lambda task_id: task_id in tasks.all)
    return Reopened(tuple(adopted), tuple(lost))


def _process(task_id: str, status: TaskStatus | None) -> tuple[int, int] | None:
    """Return pid and start time of a task's process, by the log, else by the name it carries."""
    known = (status.pid, status.started) if status is not None else (None, None)
    if known[0] is not None and known[1] is not None and process.alive(known[0], known[1]):
        return known[0], known[1]
    marked = process.marked(task_id)
    return min(marked.items(), key=lambda item: item[1]) if marked else None


def _watcher(pid: int, started: int) -> Work:
    async def watch(task: Task) -> Ended:
        try:
            while process.alive(pid, started):
                await asyncio.sleep(LOOK)
        except asyncio.CancelledError:
            await asyncio.to_thread(process.stop_orphan, pid, started, task.id)
            raise
        why = "its exit code is not known, for the kernel was restarted while it ran"
        return Ended("completed", f'Command "{task.label}" ended; {why}', _tail(task))

    return watch


def _tail(task: Task) -> str:
    if task.output is None or not task.output.exists():
        return ""
    return task.output.read_bytes()[-TAIL:].decode("utf-8", "replace")
