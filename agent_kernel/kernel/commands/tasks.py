"""Tasks: background work by command: see it, wait for it, read it, stop it, speak to it.

May not start any: a turn or a tool does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agent_kernel.core.query import queue
from agent_kernel.core.spawn import send as send_to
from agent_kernel.core.tasks import Task, Tasks
from agent_kernel.core.tool import ToolError
from agent_kernel.kernel import pages, turns
from agent_kernel.kernel.beside import detach
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.panel import tail_of
from agent_kernel.kernel.parse import UsageError, nearest, parse
from agent_kernel.kernel.running import display_of
from agent_kernel.kernel.settings import SettingsError
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import tasks as tasks_view

SHORT = 6  # characters of an id that are enough where they name one task
SHOWN = 30_000  # bytes of output that are printed


def tasks_of(bench: Workbench) -> Tasks:
    """Return the tasks of the open session, a former kernel's taken up or lost."""
    bench.ready()
    bench.say_lost()
    assert bench.tasks is not None
    return bench.tasks


def found(bench: Workbench, word: str) -> Task:
    """Return the task of an id, of its last characters, or of a team's name.

    Raises UsageError naming the nearest.
    """
    tasks = tasks_of(bench)
    mine = matching(tasks.all, word)
    if len(mine) > 1:
        raise UsageError(f"{word!r} is the end of {len(mine)} ids: {', '.join(mine)}")
    if mine:
        return tasks.all[mine[0]]
    former = matching(bench.session.made, word)
    if former:
        end = bench.session.tasks[former[0]].type.removeprefix("task/")
        raise UsageError(f"task {former[0]} is of an earlier kernel: {end}; see %agent tasks")
    try:
        return tasks.get(word)
    except ToolError:
        known = [task_id[-SHORT:] for task_id in tasks.all]
        hint = nearest(word, known) if known else "; there is none"
        raise UsageError(f"no task is {word!r}{hint}") from None


def matching(ids: Iterable[str], word: str) -> list[str]:
    """Return the ids that are `word` or end in it; a short form has at least four characters."""
    names = list(ids)
    if word in names:
        return [word]
    return [name for name in names if len(word) >= 4 and name.endswith(word)]


def tasks(bench: Workbench, words: list[str]) -> Work | None:
    """Show every background task of the session, live while one runs."""
    parse(words, ())
    tasks_of(bench)
    publisher = Publisher(bench.shell)
    if not (bench.busy() and publisher.rich):
        pages.show(publisher, tasks_view.view(list(bench.session.events)))
        return None
    return Work(_panel(bench, publisher))


async def _panel(bench: Workbench, publisher: Publisher) -> None:
    bench.stand_under(publisher)
    bench.show_panel(anew=True)


def wait(bench: Workbench, words: list[str]) -> Work:
    """Wait for one task, or for all that run and the turn in the background."""
    _given, rest = parse(words, (), most=1)
    wanted = [found(bench, rest[0])] if rest else tasks_of(bench).running()
    return Work(_wait(bench, wanted, Publisher(bench.shell)), print)


async def _wait(bench: Workbench, wanted: list[Task], publisher: Publisher) -> str:
    """Wait for tasks to end and say how; a turn that was in the background is shown here."""
    works = [task.work for task in wanted if task.work is not None]
    if works:
        await asyncio.wait(works)  # cancelled, the tasks go on
    for task in wanted:
        if task.kind == "cell" and publisher.rich:
            first = turns.recorded(bench.session)[-1].first
            display_of(bench, bench.session, first, publisher).finish(update=False)
    lines = [f"{task.id[-SHORT:]} {task.label}: {task.status}" for task in wanted]
    return bench.secrecy.text("\n".join(lines)) or "No task runs."


def output(bench: Workbench, words: list[str]) -> None:
    """Print the last of a task's output."""
    _given, rest = parse(words, (), most=1)
    if not rest:
        raise UsageError("say which task: %agent output ID; %agent tasks lists them")
    task = found(bench, rest[0])
    text = bench.secrecy.text(tail_of(task, SHOWN))
    print(tasks_view.shown(text) or f"{task.id[-SHORT:]} has written nothing yet: {task.status}")


def cancel(bench: Workbench, words: list[str]) -> Work:
    """Stop one task and all it started."""
    _given, rest = parse(words, (), most=1)
    if not rest:
        raise UsageError("say which task: %agent cancel ID; %agent tasks lists them")
    return Work(_cancel(tasks_of(bench), found(bench, rest[0]).id), print)


async def _cancel(tasks: Tasks, task_id: str) -> str:
    task = await tasks.stop(task_id)
    return f"{task.id[-SHORT:]} {task.label}: {task.status}"


def send(bench: Workbench, words: list[str]) -> None:
    """Say something to a running agent, or to the turn in the background, at its next step."""
    _given, rest = parse(words, (), most=2)
    if len(rest) < 2 or not rest[1].strip():
        raise UsageError('say to whom and what: %agent send ID "text"')
    task = found(bench, rest[0])
    if task.kind == "cell" and task.ended is None:
        seq = queue(bench.session, {"text": rest[1]}, "next")
        print(f"queued as {seq}; it is read before the turn's next request")
        return
    try:
        print(send_to(bench.session, task, rest[1]))
    except ToolError as error:
        raise UsageError(str(error)) from error


def background(bench: Workbench, words: list[str]) -> None:
    """Let the cell of the turn that runs end; the turn goes on as a task.

    A turn that only waits for its agents ends instead: their ends join the next agent cell.
    """
    parse(words, ())
    if bench.running is None:
        raise UsageError("no turn runs; %%agent --background starts one beside the cells")
    bench.runtime.loop.call_soon_threadsafe(detach, bench)


def wake(bench: Workbench, words: list[str]) -> None:
    """Print or set what the end of a background agent does: wake a turn (auto), cell, or off."""
    _given, rest = parse(words, (), most=1)
    try:
        if rest:
            bench.settings.set("wake", rest[0])
    except SettingsError as error:
        raise UsageError(str(error)) from error
    says = {
        "cell": "an agent cell waits for its agents; an idle notebook starts nothing",
        "auto": f"a turn starts at once, {bench.settings.get('wakes_in_a_row')} in a row at most",
        "off": "a turn ends without its agents; their ends join the next agent cell",
    }
    found_now = bench.settings.get("wake")
    print(f"{found_now}: {says[found_now]}")


TASKS = (
    Command("tasks", "tasks", "", "background work, live while it runs", tasks),
    Command("wait", "tasks", "[ID]", "wait for background work", wait),
    Command("output", "tasks", "ID", "the end of a task's output", output),
    Command("cancel", "tasks", "ID", "stop a task and all it started", cancel),
    Command("send", "tasks", 'ID "text"', "say something to a running agent", send),
    Command("background", "tasks", "", "free the cell; the turn goes on as a task", background),
    Command("wake", "tasks", "[cell|auto|off]", "what the end of an agent does", wake),
)
