"""Proxy: what recording adds between a client and its host, beside the same client without it.

May not leave the machine: the host is the loopback server, in this process; the proxy has its own.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from agent_kernel.testing import MessagesServer
from bench.row import Row, side_by_side

DEADLINE = 60.0
TOOLS = 24  # and 64 KB of their schemas: what one request of a coding harness holds
PIECES = 100
AT_ONCE = 20
# A command that says where the proxy is and waits until it is told to end.
COMMAND = "import os, sys; print(os.environ['ANTHROPIC_BASE_URL'], flush=True); sys.stdin.read()"


def answer(_request: object) -> dict[str, object]:
    """The same answer to everything, in PIECES pieces."""
    return {"content": [{"type": "text", "text": "x" * 24 * PIECES}], "stop_reason": "end_turn"}


@contextmanager
def proxied(upstream: str, log: Path) -> Iterator[str]:
    """The address of a proxy in a process of its own that records into `log`."""
    words = ["-m", "agent_kernel", "proxy", "--out", str(log), "--upstream", upstream, "--"]
    command = [sys.executable, *words, sys.executable, "-c", COMMAND]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(DEADLINE)


class Client:
    """One kept connection that sends one new prompt after another, 80 KB each."""

    def __init__(self, base_url: str) -> None:
        self.address = base_url.removeprefix("http://")
        self.connection = self._connected()
        self.sent = 0
        schema = {"type": "object", "properties": {"of": {"description": "word " * 500}}}
        self.tools = [
            {"name": f"tool{n}", "description": "A tool.", "input_schema": schema}
            for n in range(TOOLS)
        ]

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address, timeout=DEADLINE)

    def body(self) -> bytes:
        """The next request's body."""
        self.sent += 1
        prompt = {"role": "user", "content": f"Is {self.sent} a number? {id(self)}"}
        request = {"model": "claude-sonnet-5-5", "max_tokens": 1024, "stream": True}
        return json.dumps({**request, "tools": self.tools, "messages": [prompt]}).encode()

    def ask(self, connection: http.client.HTTPConnection, body: bytes) -> tuple[float, float]:
        """Seconds until the answer's head came, and until its last byte."""
        headers = {"x-api-key": "bench-" + "key-not-a-secret", "content-type": "application/json"}
        start = time.perf_counter()
        connection.request("POST", "/v1/messages", body, headers)
        response = connection.getresponse()
        first = time.perf_counter() - start
        response.read()
        return first, time.perf_counter() - start

    def first(self) -> float:
        """Seconds until the answer's head."""
        return self.ask(self.connection, self.body())[0]

    def whole(self) -> float:
        """Seconds until the answer's last byte."""
        return self.ask(self.connection, self.body())[1]

    def at_once(self) -> float:
        """Seconds until AT_ONCE new connections all have their answers."""
        bodies = [self.body() for _ in range(AT_ONCE)]
        start = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda body: self.ask(self._connected(), body), bodies))
        return time.perf_counter() - start


def rows(repeat: int) -> list[Row]:
    """What a request and its stream lose on their way, alone and twenty at once."""
    table = []
    with (
        tempfile.TemporaryDirectory() as name,
        MessagesServer(None, answer) as server,
        proxied(server.base_url, Path(name) / "proxy.agent.jsonl") as base_url,
    ):
        ours, plain = Client(base_url), Client(server.base_url)
        for client in (ours, plain):
            client.whole()
        for label, measure, bar in (
            ("80 KB request to the answer's head", Client.first, 0.010),
            (f"the whole of {PIECES} pieces", Client.whole, 0.020),
        ):
            pair = side_by_side(partial(measure, ours), partial(measure, plain), repeat * 6)
            table.append(Row(label, *pair, kind="extra", bar=bar))
        pair = side_by_side(ours.at_once, plain.at_once, repeat)
        table.append(Row(f"{AT_ONCE} at once, all answered", *pair, kind="extra", bar=0.500))
    return table
