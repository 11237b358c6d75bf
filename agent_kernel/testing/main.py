"""Main: the loopback server as a process of its own, its base_url on the first line.

May not end before it is told to: SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Sequence

from agent_kernel.providers.demo import demo_server_answer
from agent_kernel.testing.scenario import Scenario
from agent_kernel.testing.server import MessagesServer


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal; returns 0. The first line printed is the base_url."""
    parser = argparse.ArgumentParser(
        prog="agent-kernel messages-server", description="A Messages API on 127.0.0.1."
    )
    parser.add_argument("scenario", nargs="?", help="a scenario's JSON file")
    parser.add_argument("--demo", action="store_true", help="answer by the demo's rules")
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free port")
    options = parser.parse_args(argv)
    scenario = Scenario.load(options.scenario) if options.scenario else None
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    answer = demo_server_answer if options.demo else None
    with MessagesServer(scenario, answer, port=options.port) as server:
        print(server.base_url, flush=True)
        done.wait()
    return 0
