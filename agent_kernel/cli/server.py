"""Server verb: the loopback Messages API as a process of its own.

May not end before it is told to.
"""

from __future__ import annotations

import argparse

from agent_kernel.testing import main as server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("scenario", nargs="?", help="a scenario's JSON file")
    parser.add_argument("--demo", action="store_true", help="answer by the demo's rules")
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free port")


def main(args: argparse.Namespace) -> int:
    """Serve until a signal; the first line printed is the base_url."""
    given = [args.scenario] if args.scenario else []
    given += ["--demo"] if args.demo else []
    return server.main([*given, "--port", str(args.port)])
