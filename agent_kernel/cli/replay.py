"""Replay verb: every request of a log rebuilt and compared with the digest of what was sent.

May not run a tool or open a connection.
"""

from __future__ import annotations

import argparse
import json
import sys

from agent_kernel.cli.logs import blobs_of, opened
from agent_kernel.core.replay import verify


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("log", metavar="LOG", help="a session's .jsonl, or its notebook")
    parser.add_argument("--verify", action="store_true", help="compare (the default)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def main(args: argparse.Namespace) -> int:
    """Print {requests, verified, ok, findings}; return 1 when one is not verified."""
    log = opened(args.log, "replay")
    if log is None:
        return 2
    report = verify(log.events, log.loaded.findings, blobs_of(log))
    if args.json:
        sys.stdout.write(json.dumps(report.wire()) + "\n")
    else:
        sys.stdout.write(f"{report.verified} of {report.requests} requests verified\n")
        for finding in report.findings:
            sys.stdout.write(f"{finding['code']}: {finding['text']}\n")
    return 0 if report.ok else 1
