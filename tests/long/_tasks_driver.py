"""Tasks driver: a session of five tasks and three agents, killed where told, gone on with.

May not judge the loop: a process of one thread, it forks kernels, kills them, says what is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent_kernel.core.events import (
    InboxDropped,
    SurfaceEvent,
    TaskCreated,
    TaskFinished,
    TaskLost,
    ToolResultEvent,
    ToolStart,
)
from agent_kernel.core.messages import ToolUse, text_of
from agent_kernel.core.model import Request
from agent_kernel.core.query import query
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from agent_kernel.guard import process
from agent_kernel.tools import background
from tests.tools.flow import done, flow, said, start

TASKS, AGENTS, LINES = 5, 3, 157  # lines of a whole run, about
PATIENCE = 60.0


def shell(id: str, word: str, seconds: float, behind: bool) -> ToolUse:
    """A command that notes once that it began, and then takes its time."""
    command = f"echo {word} >> effects; sleep {seconds}; echo {word} ended"
    return ToolUse(id, "bash", {"command": command, "background": behind, "description": word})


def model(request: Request) -> Any:
    """The scripted model: a function of what it is sent, so that a restarted one is the same."""
    first = text_of(request.messages[0].content)
    text = "\n".join(text_of(message.content) for message in request.messages)
    answered = sum(message.role == "assistant" for message in request.messages)
    part = re.search(r"\bpart (\d)", first)
    if part is not None:
        word = f"agent{part[1]}"
        if answered == 0:
            return done(shell(f"{word}call", word, 0.05, False))
        return said(f"found {part[1]}")
    if answered == 0:
        calls = [shell(f"b{n}", f"task{n}", 0.05 * (n + 1), True) for n in range(TASKS)]
        agents = [start(f"a{n}", f"part {n}") for n in range(AGENTS)]
        return done(*calls, *agents)
    if answered == 1:
        return done(shell("fg", "front", 0.05, False))
    lost = re.findall(r"(part \d) was lost when the kernel ended; agent\(to='(\w+)'\)", text)
    uses = [b for m in request.messages for b in m.content if isinstance(b, ToolUse)]
    called = {use.input.get("to") for use in uses}
    again = {task_id: part for part, task_id in lost if task_id not in called}
    if again:
        return done(*[start(f"to{i}", f"go on with {p}", to=i) for i, p in again.items()])
    return said("waiting")


async def live(path: Path, workspace: Path, keep: bool) -> None:
    """One kernel's life: open, take up what is left, run to the end."""
    services = {"keep_tasks": keep}
    session, agent = flow(model, workspace, path, services=services)
    assert agent.tasks is not None
    if len(session.log):
        session.resume()
        await background.reopen(session, agent.tasks)
    state = session.state()
    if state.turn_open:
        await query(session, agent)
    elif not state.turn:
        await query(session, agent, "go")
    while agent.tasks.running():
        await asyncio.sleep(0.01)
    while session.state().inbox:
        await query(session, agent, "what else?")
        while agent.tasks.running():
            await asyncio.sleep(0.01)
    await session.log.commit()
    session.close()


def kernel(path: Path, workspace: Path, keep: bool) -> int:
    """Fork a kernel; its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(live(path, workspace, keep))
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int | None:
    """The exit code of a forked kernel, None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def killed(pid: int, path: Path, lines: int) -> bool:
    """Kill a kernel once its log has that many lines; False when it ended before."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if ended(pid) is not None:
            return False
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes().count(b"\n") >= lines:
                break
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def point(seed: int, number: int) -> list[str]:
    """Act out one point: one or two kills, then a kernel that comes to the end; what is wrong."""
    chance = random.Random(f"{seed}:{number}")
    keep = chance.random() < 0.5
    with tempfile.TemporaryDirectory() as name:
        path, workspace = Path(name) / "a.agent.jsonl", Path(name) / "w"
        workspace.mkdir()
        lines = 0
        for _ in range(chance.choice((1, 1, 2))):
            lines += chance.randrange(1, LINES)
            time.sleep(chance.random() * 0.01)
            killed(kernel(path, workspace, keep), path, lines)
        pid, until, code = kernel(path, workspace, keep), time.monotonic() + PATIENCE, None
        while code is None and time.monotonic() < until:
            time.sleep(0.01)
            code = ended(pid)
        if code is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        wrong = [] if code == 0 else [f"the last kernel ended with {code}"]
        return wrong + judged(path, workspace)


def judged(path: Path, workspace: Path) -> list[str]:
    """What is wrong with what is left: a notice lost or doubled, an effect twice, a process."""
    session = Session.open(path)
    events, wrong = list(session.events), list[str]()
    made = [e for e in events if isinstance(e, TaskCreated)]
    unknown = {
        e.id
        for e in events
        if isinstance(e, ToolResultEvent) and e.meta.get("error_kind") == "outcome_unknown"
    } - {e.tool_use_id for e in made}
    unknown = {i for i in unknown if re.fullmatch(r"[ab]\d", i)}  # killed before it was created
    if len({e.id for e in made}) + len(unknown) < TASKS + AGENTS:
        wrong.append(f"only {len({e.id for e in made})} tasks")
    cited = [seq for e in events if isinstance(e, SurfaceEvent) for seq in e.sources]
    for end in (e for e in events if isinstance(e, (TaskFinished, TaskLost)) and not e.awaited):
        if cited.count(end.seq) != 1:
            wrong.append(f"the end of {end.id} was told {cited.count(end.seq)} times")
    for task_id in {e.id for e in made}:
        begun = sum(e.id == task_id for e in made)
        over = sum(isinstance(e, (TaskFinished, TaskLost)) and e.id == task_id for e in events)
        if begun != over:
            wrong.append(f"task {task_id} began {begun} times and ended {over} times")
        if process.marked(task_id):
            wrong.append(f"a process of {task_id} is alive")
    starts = [e.id for e in events if isinstance(e, ToolStart)]
    wrong += [
        f"call {i} started {starts.count(i)} times" for i in set(starts) if starts.count(i) > 1
    ]
    effects = (
        (workspace / "effects").read_text().split() if (workspace / "effects").exists() else []
    )
    wrong += [f"effect {w} {effects.count(w)} times" for w in set(effects) if effects.count(w) > 1]
    if not verify(events).ok:
        wrong.append("a request is not the log's")
    if any(isinstance(e, InboxDropped) for e in events) or session.state().inbox:
        wrong.append("something in the inbox was not read")
    session.close()
    return wrong


def main() -> None:
    """Act out the points asked for by argv: seed, first, how many; print counts as JSON."""
    seed, first, count = map(int, sys.argv[1:4])
    found = []
    for number in range(first, first + count):
        found += [f"tasks point {seed}:{number}: {each}" for each in point(seed, number)]
    print(json.dumps({"steps": count, "wrong": found}))


if __name__ == "__main__":
    main()
