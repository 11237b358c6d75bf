"""Load driver: forks a process that works on a log as fast as it can, for a test to kill.

Run as a script: each line of stdin is the log's path. It prints "pid N", then what that process
was told is on the disk ("ack SEQ HASH"), then "end STATUS".
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from uuid import uuid4

from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.query import End, advance, start_turn
from agent_kernel.core.session import Session
from agent_kernel.providers.scripted import scripted
from tests.runs import agent


class Effects(list[str]):
    """A file with a line for each effect, written at once."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append(self, call: str) -> None:
        os.write(self.fd, f"{call}\n".encode())


def say(text: str) -> None:
    """One whole line to the test."""
    os.write(1, f"{text}\n".encode())


def answer(request: object) -> Message:
    """Three calls with a side effect, or, after their results, a text."""
    last = request.messages[-1]  # type: ignore[attr-defined]
    if any(block.wire()["type"] == "tool_result" for block in last.content):
        return Message("assistant", (Text("done"),))
    uses = [ToolUse(uuid4().hex, "touch", {"size": n}) for n in range(3)]
    return Message("assistant", (Text("x" * 2_000), *uses))


async def work(path: Path) -> None:
    """Turns without end; what is acknowledged is said."""
    session = Session.open(path)
    session.resume()
    made = agent([], Effects(path.with_name("effects")))
    made.provider = scripted(answer)
    while True:
        if not session.state().turn_open:
            start_turn(session, made, "go on")
        while not isinstance(await advance(session, made), End):
            await session.log.commit()
            seq = session.log.next_seq - 1
            say(f"ack {seq} {session.log.hash_at(seq)}")


def main() -> None:
    """One fork a line."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(work(Path(line.strip())))
        say(f"pid {pid}")
        _, status = os.waitpid(pid, 0)
        say(f"end {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
