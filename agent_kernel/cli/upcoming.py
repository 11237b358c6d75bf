"""Next verb: what the loop of a log would do next, in words; nothing is done.

May not write, send or run anything.
"""

from __future__ import annotations

import argparse
import sys

from agent_kernel.cli.logs import opened
from agent_kernel.core.query import next_action
from agent_kernel.core.session import Session
from agent_kernel.kernel.build import Options, built
from agent_kernel.kernel.settings import Settings
from agent_kernel.widgets import stepper


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("log", metavar="LOG", help="a session's .jsonl, or its notebook")


def main(args: argparse.Namespace) -> int:
    """Print the next action; return 0."""
    log = opened(args.log, "next")
    if log is None:
        return 2
    session = Session(log)
    agent = built(session, Settings(), Options(), services={}).agent
    action = next_action(session, agent)
    calls = {name: state.call for name, state in session.state(agent.id).calls.items()}
    sys.stdout.write(stepper.words(action, calls) + "\n")
    return 0
