"""Guard verb: the guard asked from outside, one JSON object a line in and out (guard.md §13).

May not execute, fetch or write anything it is asked about.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from agent_kernel.guard.batch import VERBS
from agent_kernel.guard.claude import import_claude, to_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("what", choices=[*VERBS, "import"])
    parser.add_argument("file", nargs="?", type=Path, help="import: a Claude Code settings.json")
    parser.add_argument("--jsonl", action="store_true", help="read lines from standard input")
    parser.add_argument("--json", action="store_true", help="import: as one JSON object")


def main(args: argparse.Namespace) -> int:
    """Answer each line; return 1 when a line was bad."""
    if args.what == "import":
        return _import(args)
    status = 0
    for line in VERBS[args.what](sys.stdin):
        status = 1 if '"error"' in line and "error" in json.loads(line) else status
        sys.stdout.write(line.rstrip("\n") + "\n")
    return status


def _import(args: argparse.Namespace) -> int:
    try:
        settings = json.loads(args.file.read_text(encoding="utf-8")) if args.file else None
    except (OSError, ValueError) as error:
        sys.stderr.write(f"agent-kernel guard import: {error}\n")
        return 2
    if not isinstance(settings, dict):
        sys.stderr.write("agent-kernel guard import: give a settings.json that holds an object\n")
        return 2
    imported = import_claude(settings)
    if args.json:
        sys.stdout.write(json.dumps(to_settings(imported), indent=1) + "\n")
        return 0
    for each in imported:
        sys.stdout.write(f"{each}\n")
    return 0
