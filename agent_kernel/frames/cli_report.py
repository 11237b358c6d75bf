"""The report command: `agent-kernel report [PATH…] -o report.html`.

May not write transcript text or full paths unless asked.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from agent_kernel.frames.avoidable import costs
from agent_kernel.frames.builders import BUILDERS
from agent_kernel.frames.frames import Frames, load
from agent_kernel.frames.reader import Readers
from agent_kernel.frames.report import page, sentences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to `parser`."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="sessions; none: the harness folders found here"
    )
    parser.add_argument("-o", "--out", default="report.html", metavar="FILE", help="the page")
    parser.add_argument("--text", action="store_true", help="with session titles and full paths")
    parser.add_argument(
        "--by", choices=("owner",), help="owner: group by the first folder below PATH"
    )
    parser.add_argument("--no-cache", action="store_true", help="neither use nor write the cache")


def main(args: argparse.Namespace, readers: Readers | None = None) -> int:
    """Write the page and print its sentences; return 0, or 2 when nothing is readable."""
    paths = args.paths or [str(path) for path in harness_folders()]
    if not paths:
        sys.stderr.write("agent-kernel report: no harness folder was found; give a PATH\n")
        return 2
    try:
        found = load(paths, cache=not args.no_cache, readers=readers, tables=BUILDERS)
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"agent-kernel report: {error}\n")
        return 2
    if not found.files_read():
        sys.stderr.write("agent-kernel report: no session file was found there\n")
        return 2
    try:
        _write(found, args, paths)
    except OSError as error:
        sys.stderr.write(f"agent-kernel report: {args.out!r} cannot be written: {error.strerror}\n")
        return 2
    return 0


def _write(found: Frames, args: argparse.Namespace, paths: list[str]) -> None:
    root = os.path.realpath(Path(paths[0]).expanduser()) if len(paths) == 1 else ""
    made = page(found, root=root, text=args.text, by_owner=args.by == "owner")
    Path(args.out).write_text(made, encoding="utf-8")
    for sentence in sentences(found, costs(found.load)):
        sys.stdout.write(sentence + "\n")
    sys.stdout.write(f"written to {args.out}\n")


def harness_folders() -> list[Path]:
    """Return the session folders of the known harnesses that exist on this machine."""
    home = Path.home()
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
    deepseek = Path(os.environ.get("DSH_HOME") or home / ".dsh") / "sessions"
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex") / "sessions"
    return [path for path in (claude, deepseek, codex) if path.is_dir()]
