"""Proxy verb: a command run with a loopback Messages API before it that records what passes.

May not set anything for the command but ANTHROPIC_BASE_URL; its output and exit status stay its
own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from agent_kernel.core.log import LogError
from agent_kernel.proxy import PUBLIC, Proxy, UpstreamError
from agent_kernel.widgets import units

VARIABLE = "ANTHROPIC_BASE_URL"
_SWITCH = 0.0005  # seconds a writing thread may keep the interpreter from one that relays
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("--out", metavar="LOG", type=Path, help="the log; else proxy.agent.jsonl")
    parser.add_argument("--upstream", metavar="URL", help=f"else {VARIABLE}, else {PUBLIC}")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the harness, after --")


def main(args: argparse.Namespace) -> int:
    """Run the command behind the proxy; return its status, 128 + n when signal n ended it."""
    if shutil.which(args.command[0]) is None:
        sys.stderr.write(f"agent-kernel proxy: there is no command {args.command[0]!r}\n")
        return 2
    out = args.out if args.out is not None else _free(Path("proxy.agent.jsonl"))
    sys.setswitchinterval(_SWITCH)
    try:
        proxy = Proxy(args.upstream or os.environ.get(VARIABLE) or PUBLIC, out).start()
    except (UpstreamError, LogError, OSError) as error:
        sys.stderr.write(f"agent-kernel proxy: {error}\n")
        return 2
    try:
        status = _run(args.command, {**os.environ, VARIABLE: proxy.base_url})
    finally:
        proxy.stop()
    whole = _told(proxy, out)
    return status if status or whole else 1


def _free(path: Path) -> Path:
    """Return the first of `proxy.agent.jsonl`, `proxy.agent.2.jsonl`, … that is not there."""
    n, found = 1, path
    while found.exists():
        n += 1
        found = path.with_name(f"{path.stem}.{n}{path.suffix}")
    return found


def _run(command: Sequence[str], env: dict[str, str]) -> int:
    """Run a command in our place: its terminal, its signals, its status."""
    with _handed_on() as children:
        try:
            child = subprocess.Popen(command, env=env)
        except OSError as error:
            sys.stderr.write(f"agent-kernel proxy: {command[0]!r} cannot be run: {error}\n")
            return 2
        children.append(child)
        status = child.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _handed_on() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Give the command every signal meant for it; one from the keyboard reaches it by itself."""
    children: list[subprocess.Popen[bytes]] = []

    def passed(number: int, _frame: FrameType | None) -> None:
        for child in children:
            child.send_signal(number)

    def waited(_number: int, _frame: FrameType | None) -> None:
        return None  # the terminal sends it to the whole group: the command decides

    before = {number: signal.signal(number, passed) for number in _PASSED_ON}
    before |= {number: signal.signal(number, waited) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(proxy: Proxy, out: Path) -> bool:
    """Say on stderr what was recorded; return whether that is everything."""
    requests = units.count(proxy.requests, "request")
    sys.stderr.write(
        f"agent-kernel proxy: {requests} recorded; agent-kernel replay {out} --verify\n"
    )
    for notice in proxy.notices:
        sys.stderr.write(f"agent-kernel proxy: {notice}\n")
    return not proxy.notices
