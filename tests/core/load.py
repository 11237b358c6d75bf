"""Load: a real process at work on a log, killed with SIGKILL, and what it left checked.

May not look into the process: what it was told is on the disk came over its pipe.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_kernel.core.events import ToolStart
from agent_kernel.core.session import Session

ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("load_driver.py")


class Load:
    """The driver: `kill(path, seconds)` starts a worker on a log and kills it after a while."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def kill(self, path: Path, seconds: float) -> tuple[int, str]:
        """Work on the log, killed `seconds` after its first word; the last acknowledged seq."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path}\n".encode())
        self._process.stdin.flush()
        pid, due, acked = 0, float("inf"), (-1, "")
        while True:
            word, *rest = self._line().split()
            if word == "pid":
                pid = int(rest[0])
            elif word == "ack":
                acked = (int(rest[0]), rest[1])
                due = min(due, time.monotonic() + seconds)
            elif word == "end":
                assert int(rest[0]) == -signal.SIGKILL, f"the worker ended by itself: {rest}"
                return acked
            if pid and time.monotonic() > due:
                os.kill(pid, signal.SIGKILL)
                pid = 0

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the driver ended"
        return line.decode()


@contextmanager
def driver() -> Iterator[Load]:
    """A driver for the body."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as process:
        try:
            yield Load(process)
        finally:
            process.kill()


def after(path: Path, acked: tuple[int, str]) -> str:
    """Open what a killed worker left; "" or what is wrong."""
    session = Session.open(path)
    found = [f for f in session.log.loaded.findings if f["code"] != "torn_tail"]
    seq, expected = acked
    if found or [e.seq for e in session.events] != list(range(len(session.events))):
        return f"the log is damaged: {found}"
    if seq >= len(session.events) or (seq >= 0 and session.log.hash_at(seq) != expected):
        return f"seq {seq} was acknowledged; {len(session.events)} events are left"
    effects = path.with_name("effects")
    done = Counter(effects.read_text().split()) if effects.exists() else Counter[str]()
    starts = {e.id for e in session.events if isinstance(e, ToolStart)}
    if wrong := [call for call, n in done.items() if n > 1 or call not in starts]:
        return f"{wrong} ran twice, or without a tool/start"
    return ""


def killed(path: Path, times: int, seed: int) -> Iterator[str]:
    """Kill workers on one log again and again; yield "" or what is wrong after each."""
    chance = random.Random(seed)
    with driver() as load:
        for _ in range(times):
            acked = load.kill(path, chance.uniform(0.0, 0.12))
            yield after(path, acked)
