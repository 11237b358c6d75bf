"""Killed: one turn that writes a file, in processes that die by SIGKILL after their n-th event.

May not clean up after them: run as `python -m tests.core.killed FOLDER`, one subfolder a kill.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Judgement
from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from agent_kernel.providers.scripted import scripted
from agent_kernel.tools.bash import BASH
from agent_kernel.tools.read import READ
from agent_kernel.tools.write import WRITE

NAME = "s.agent.jsonl"
NEW = "two\n"
STEPS = (
    Message("assistant", (Text("I read."), ToolUse("r", "read", {"path": "a.txt"}))),
    Message(
        "assistant",
        (
            ToolUse("w", "write", {"path": "a.txt", "content": NEW}),
            ToolUse("b", "bash", {"command": "echo once >> effects"}),
        ),
    ),
    Message("assistant", (Text("Done."),)),
)


def made(folder: Path, used: int = 0) -> Agent:
    """The agent, whose model has said `used` of its messages already."""
    tools = (READ, WRITE, BASH)
    return Agent(
        provider=scripted(list(STEPS[used:])),
        model="scripted",
        tools=tools,
        permit=lambda _tool, _value, _context: Judgement("allow"),
        workspace=folder,
    )


def run(folder: Path, last: int) -> None:
    """Run the turn until its log holds `last` events."""
    session = Session.open(folder / NAME)

    def kill(event: object) -> None:
        if len(session.log) >= last:
            session.log.sync()
            os.kill(os.getpid(), signal.SIGKILL)

    session.log.listeners.append(kill)
    asyncio.run(query(session, made(folder), "Write it."))


def main(folder: Path) -> None:
    """Kill a process after 1, 2, 3 … events, until one gets to its end."""
    status, last = -1, 0
    while status:
        last += 1
        place = folder / str(last)
        place.mkdir()
        (place / "a.txt").write_text("one\n")
        child = os.fork()
        if not child:
            run(place, last)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL), status


if __name__ == "__main__":
    main(Path(sys.argv[1]))
