"""Request verb: one request of a log, byte for byte, or what changed since another.

May not send anything.
"""

from __future__ import annotations

import argparse
import sys

from agent_kernel.cli.logs import blobs_of, opened
from agent_kernel.core.events import RequestContext
from agent_kernel.core.log import Log
from agent_kernel.core.model import Request
from agent_kernel.core.replay import cause, request_at
from agent_kernel.core.session import Session
from agent_kernel.kernel.provenance import of_path
from agent_kernel.widgets import request as view
from agent_kernel.widgets.bundle import of_blocks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("log", metavar="LOG", help="a session's .jsonl, or its notebook")
    parser.add_argument("at", metavar="T.S", help="turn.step, or a turn for its last request")
    parser.add_argument("--diff", metavar="T.S", help="compare with this request")
    parser.add_argument("--where", metavar="PATH", help="a block: messages[4].content[1]")
    parser.add_argument("--agent", default="main", help="an agent's id")
    parser.add_argument("--json", action="store_true", help="the body's exact bytes")


def main(args: argparse.Namespace) -> int:
    """Print the request; return 2 when the log has none there."""
    log = opened(args.log, "request")
    if log is None:
        return 2
    try:
        context, request = _request(log, args.at, args.agent)
        older = _request(log, args.diff, args.agent) if args.diff else None
    except (KeyError, ValueError) as error:
        sys.stderr.write(f"agent-kernel request: {error.args[0]}\n")
        return 2
    if args.json:
        sys.stdout.buffer.write(request.body + b"\n")
        return 0
    if args.where:
        return _where(log, args)
    if older is None:
        blocks = view.view(request, label=args.at)
    else:
        before, other = older
        blocks = view.difference(
            other,
            request,
            labels=(args.diff, args.at),
            cause=cause(log.events, before, context),
            dollars=view.rewrite_cost(
                request.model, view.compare(other, request).rewritten, context.time
            ),
        )
    sys.stdout.write(str(of_blocks(blocks)["text/plain"]) + "\n")
    return 0


def _where(log: Log, args: argparse.Namespace) -> int:
    """Print where the block `--where` names came from; return 2 when there is none."""
    turn, _, step = args.at.partition(".")
    at = int(turn), int(step) if step else None
    try:
        blocks = of_path(Session(log), at, args.where, args.agent)
    except (KeyError, ValueError) as error:
        sys.stderr.write(f"agent-kernel request: {error.args[0]}\n")
        return 2
    sys.stdout.write(str(of_blocks(blocks)["text/plain"]) + "\n")
    return 0


def _request(log: Log, name: str, agent: str) -> tuple[RequestContext, Request]:
    turn, _, step = name.partition(".")
    if not turn.isdigit() or (step and not step.isdigit()):
        raise ValueError(f"{name!r} names no request; write turn.step, as 2.1")
    return request_at(log.events, int(turn), int(step) if step else None, agent, blobs_of(log))
