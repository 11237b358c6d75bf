"""Worker: the process that keeps a session's Python namespace where there is no kernel.

May not run code in this process; a worker that does not answer in time is interrupted, then killed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.guard.process import child_env
from agent_kernel.tools.cell_result import CellResult

MAIN = Path(__file__).with_name("worker_main.py")
KEPT = 1 << 20  # characters of stdout, and of stderr, kept at each end
GRACE = 2.0  # seconds between interrupt and kill
TICK = 0.05
DRAIN = 0.2  # seconds of reading after the cell has ended
GONE = "the Python process ended and its names are gone; the next call starts a new one"


class Kept:
    """The head and the tail of a stream; the middle of a flood is counted and dropped."""

    def __init__(self) -> None:
        self.head, self.tail, self.left_out = bytearray(), bytearray(), 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        room = KEPT - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        if len(self.tail) > 2 * KEPT:
            self.left_out += len(self.tail) - KEPT
            del self.tail[:-KEPT]

    @property
    def text(self) -> str:
        """What was kept, decoded, the gap named."""
        gap = f"\n[{self.left_out:,} bytes left out]\n".encode() if self.left_out else b""
        return (bytes(self.head) + gap + bytes(self.tail)).decode("utf-8", "replace")


class Worker:
    """One worker process; cells run one at a time."""

    def __init__(self, cwd: Path) -> None:
        """Start the process in `cwd`, with no secret in its environment."""
        self._turn = threading.Lock()
        self._stop = threading.Event()
        told, tell = os.pipe()
        self._told = told
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(MAIN), str(tell)],
            cwd=cwd,
            env=child_env({"MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1"}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(tell,),
            start_new_session=True,
        )
        os.close(tell)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._out, self._err = self._process.stdout.fileno(), self._process.stderr.fileno()
        self.timed_out = False

    @property
    def alive(self) -> bool:
        """Tell whether the process still runs."""
        return self._process.poll() is None

    def run(
        self, code: str, timeout: float, on_output: Callable[[str], None], protect: Collection[str]
    ) -> tuple[CellResult, list[str]]:
        """Run one cell, at most `timeout` seconds; its result, the protected names it changed."""
        with self._turn:
            self._stop.clear()
            stdin = self._process.stdin
            assert stdin is not None
            request = {"code": code, "protect": sorted(protect)}
            began = time.monotonic()
            with contextlib.suppress(BrokenPipeError):
                stdin.write(json.dumps(request).encode() + b"\n")
                stdin.flush()
            self.timed_out = False
            out, err = Kept(), Kept()
            said = self._serve(out, err, began + timeout, on_output)
        seconds = round(time.monotonic() - began, 3)
        result = _result(said, out.text, err.text, seconds)
        if self.timed_out:
            error = f"TimeoutError: stopped after {timeout:g} s"
            if said is None:
                error += f"; {GONE}"
            result = replace(result, error=error, traceback="")
        return result, list((said or {}).get("broken", ()))

    def interrupt(self) -> None:
        """Ask the running cell to stop; it is killed with its names when it does not."""
        self._stop.set()

    def close(self) -> None:
        """Kill the process and all it started."""
        if self.alive:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if self._told >= 0:
            os.close(self._told)
            self._told = -1

    def _serve(
        self, out: Kept, err: Kept, deadline: float, on_output: Callable[[str], None]
    ) -> Json | None:
        """Read until the worker says what came of the cell; None when it died or was killed."""
        streams = {self._out: out, self._err: err}
        line, kill_at, quit_at = b"", None, None
        while True:
            wait = 0.0 if quit_at else TICK
            readable, _, _ = select.select([*streams, self._told], [], [], wait)
            for fd in readable:
                chunk = os.read(fd, 1 << 16)
                if fd == self._told:
                    line += chunk
                    if not chunk:
                        self.close()
                        return None
                elif not chunk:
                    del streams[fd]
                else:
                    streams[fd].add(chunk)
                    on_output(chunk.decode("utf-8", "replace"))
            now = time.monotonic()
            if line.endswith(b"\n"):
                quit_at = quit_at or now + DRAIN
                if not readable or now >= quit_at:
                    made: Json = json.loads(line)
                    return made
            elif kill_at is None and (now >= deadline or self._stop.is_set()):
                kill_at = now + GRACE
                self.timed_out = now >= deadline
                self._process.send_signal(signal.SIGINT)
            elif kill_at is not None and now >= kill_at:
                self.close()
                return None


def _result(said: Json | None, stdout: str, stderr: str, seconds: float) -> CellResult:
    if said is None:
        return CellResult(stdout, stderr, error=f"WorkerEnded: {GONE}", seconds=seconds)
    images = tuple((kind, base64.b64decode(data)) for kind, data in said.get("images", ()))
    return CellResult(
        stdout,
        stderr,
        said.get("value_text"),
        images,
        said.get("error"),
        said.get("traceback", ""),
        said["seconds"],
        said["namespace_diff"],
    )


_WORKERS: weakref.WeakKeyDictionary[Any, Worker] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def worker_of(session: object, cwd: Path) -> Worker:
    """Return the live worker of a session, started when there is none; it ends with the session."""
    with _lock:
        found = _WORKERS.get(session)
        if found is None or not found.alive:
            found = Worker(cwd)
            _WORKERS[session] = found
            weakref.finalize(session, found.close)
        return found
