"""Wire: from "execute" to the request's arrival, our kernel beside the bare client in a plain one.

May not leave the machine: the Messages API is the loopback server, in this process.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from jupyter_client.blocking.client import BlockingKernelClient

from agent_kernel.core.events import CellRun
from agent_kernel.core.session import Session
from agent_kernel.testing import MessagesServer
from bench.row import Row, side_by_side
from bench.start_kernel import DEADLINE, started

MODEL = "claude-sonnet-5-5"
# events in the log before the measured turns, and the bar in seconds
SIZES = ((100, 0.015), (10_000, 0.025), (100_000, 0.025))
PLAIN_FIRST = "import anthropic\nclient = anthropic.AsyncAnthropic()"
PLAIN_CELL = (
    "async with client.messages.stream(model={model!r}, max_tokens=1024, "
    "messages=[dict(role='user', content={prompt!r})]) as stream:\n"
    "    await stream.get_final_message()"
)


def answer(_request: object) -> dict[str, object]:
    """The same short answer to everything."""
    return {"content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn"}


def write_log(folder: Path, events: int) -> None:
    """Writes a session of `events` events into `folder`, where a kernel started there goes on."""
    session = Session.open(folder / "session.agent.jsonl")
    code = "frame.groupby('key').sum()"
    for start in range(0, events, 1000):
        count = min(1000, events - start)
        session.append(*[CellRun(code=code, by="person", seconds=0.1) for _ in range(count)])
    session.log.close()


class Cells:
    """Sends one new prompt after another to a kernel and takes the time until each arrives."""

    def __init__(
        self, client: BlockingKernelClient, server: MessagesServer, cell: Callable[[str], str]
    ) -> None:
        self.client, self.server, self.cell, self.sent = client, server, cell, 0

    def seconds(self) -> float:
        """Seconds from sending the cell to its request's arrival at the server."""
        self.sent += 1
        before = len(self.server.messages)
        start = time.time()
        self.client.execute_interactive(
            self.cell(f"Is {self.sent} a number?"), timeout=DEADLINE, output_hook=lambda _: None
        )
        asked = self.server.messages[before:]
        if len(asked) != 1:
            raise RuntimeError(f"one cell made {len(asked)} requests; the kernel's log says why")
        return asked[0].at - start


def ours(prompt: str) -> str:
    """A prompt as an agent cell."""
    return f"%%agent --model {MODEL}\n{prompt}"


def plain(prompt: str) -> str:
    """A prompt as a cell that uses the bare client."""
    return PLAIN_CELL.format(model=MODEL, prompt=prompt)


def row(server: MessagesServer, events: int, bar: float, repeat: int) -> Row:
    """One size of log: medians after two turns that warm both up."""
    env = {
        **os.environ,
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "bench-" + "key-not-a-secret",
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder, events)
        where = {"cwd": name, "env": env}
        with started("agent-kernel", **where) as (a, _), started("python3", **where) as (b, _):
            b.execute_interactive(PLAIN_FIRST, timeout=DEADLINE)
            mine, theirs = Cells(a, server, ours), Cells(b, server, plain)
            for cells in (mine, theirs):
                cells.seconds()
                cells.seconds()
            pair = side_by_side(mine.seconds, theirs.seconds, repeat * 3)
    return Row(f"execute to wire, {events:,} events", *pair, kind="extra", bar=bar)


def rows(repeat: int) -> list[Row]:
    """Our own cost between a cell's execution and its request's arrival, at three sizes of log."""
    with MessagesServer(None, answer) as server:
        return [row(server, events, bar, repeat) for events, bar in SIZES]
