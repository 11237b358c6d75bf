"""Children: one running command with everything below it, and the thread that serves it.

It decides nothing, and never waits for the end of a pipe.
"""

import asyncio
import atexit
import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

import agent_kernel.guard.launch as launch
from agent_kernel.guard.endings import Finished, Limits
from agent_kernel.guard.output import SPILL, Output
from agent_kernel.guard.sandbox import Sandbox, stand_ins

if sys.platform != "win32":
    import fcntl

TASK_NAME = "AGENT_KERNEL_TASK"
DRAIN = 0.2  # seconds of reading after the command has ended
GRACE = 3.0  # seconds between TERM and KILL
STRAY_GRACE = 0.2  # the same when this process ends
PIPE = 1 << 20
LAUNCHER = Path(launch.__file__)


def marked(task: str) -> dict[int, int]:
    """Return {pid: start time} of the live processes whose environment names `task`."""
    needle = f"{TASK_NAME}={task}".encode()
    found: dict[int, int] = {}
    for pid in launch.pids():
        try:
            names = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        started = launch.start_time(pid)
        if needle in names and started is not None:
            found[pid] = started
    return found


class Child:
    """A running command and everything below it; made by `start`, alive beyond the call that did.

    All reading, waiting and killing is done by one thread of its own: a busy or closed event loop
    neither blocks the command nor lets it escape.
    """

    def __init__(
        self, argv: Sequence[str], output: Output, sandbox: Sandbox, task: str, keep: bool
    ) -> None:
        """Hold what `start` prepared; use `start`."""
        self.argv = tuple(argv)
        self.task = task
        self.owner = os.getpid()
        self.pid = 0
        self.started: int | None = None
        self.output = output
        self.future: Future[Finished] = Future()
        self._sandbox = sandbox
        self._began = time.monotonic()
        self._wake_read, self._wake_write = os.pipe()
        self._lock = threading.Lock()
        self._grace: float | None = None
        self._kill_at: float | None = None
        self._rounds = 0
        self._at_end = False
        self._keep = keep
        self.future.set_running_or_notify_cancel()  # a waiter that goes away cancels nothing

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        env: Mapping[str, str],
        spill: Path | None = None,
        on_output: Callable[[bytes], None] | None = None,
        sandbox: Sandbox | None = None,
        limits: Limits | None = None,
        eager: bool = True,
        keep: bool = False,
    ) -> "Child":
        """Start `argv` and return at once; it dies with this process unless `keep`.

        `on_output` is called in the child's thread. `eager` writes `spill` from the first byte,
        else only when memory overflows. `keep` needs `spill` and is then written by the launcher.
        Raises FileNotFoundError naming a program that is not on the child's PATH, and OSError
        when `cwd` is no directory or the process cannot be started.
        """
        sandbox = sandbox or Sandbox()
        program = shutil.which(argv[0], path=env.get("PATH", os.defpath))
        if program is None:
            raise FileNotFoundError(f"{argv[0]!r} is no program on the PATH of the command")
        if keep and spill is None:
            raise ValueError("keep=True needs a spill file: nobody else reads the output then")
        task = env.get(TASK_NAME, "none")
        task = secrets.token_hex(8) if task in ("", "none") else task
        output = Output(spill, eager=eager, on_output=on_output, external=keep)
        child = cls((program, *argv[1:]), output, sandbox, task, keep)
        ready: Future[None] = Future()
        thread = threading.Thread(
            target=child._run,
            args=(ready, Path(cwd), {**env, TASK_NAME: task}, limits or Limits()),
            name=f"agent_kernel child {task}",
            daemon=True,
        )
        thread.start()
        ready.result()
        return child

    def status(self) -> Literal["running", "completed", "failed", "stopped"]:
        """Return the state read from the process tree, never from what somebody said about it."""
        if not self.future.done():
            return "running"
        finished = self.future.result()
        if finished.stopped or finished.timed_out:
            return "stopped"
        return "completed" if finished.exit_code == 0 else "failed"

    def finished(self) -> Finished | None:
        """Return how it ended, None while it runs."""
        return self.future.result() if self.future.done() else None

    def read(self, since: int = 0, limit: int = 30_000) -> tuple[bytes, int]:
        """Return output bytes from offset `since`, at most `limit`, and the next offset."""
        return self.output.read(since, limit)

    async def wait(self, timeout: float | None = None) -> Finished | None:
        """Wait at most `timeout` seconds; how it ended, or None when it still runs."""
        waiter = asyncio.wrap_future(self.future)
        try:
            await asyncio.wait({waiter}, timeout=timeout)
        finally:
            waiter.cancel()
        return self.finished()

    def stop_soon(self, grace: float = GRACE) -> None:
        """Begin to stop the whole tree without waiting: TERM now, KILL after `grace` seconds."""
        with self._lock:
            if self._grace is None or grace < self._grace:
                self._grace = grace
                os.write(self._wake_write, b"s")

    async def stop(self, grace: float = GRACE) -> Finished:
        """Stop the whole tree and return how it ended; no process of it lives afterwards."""
        self.stop_soon(grace)
        finished = await self.wait()
        assert finished is not None
        return finished

    # ------------------------------------------------------------ the child's own thread
    def _run(
        self,
        ready: "Future[None]",
        cwd: Path,
        env: Mapping[str, str],
        limits: Limits,
    ) -> None:
        failure: BaseException | None = None
        try:
            with stand_ins(self._sandbox):
                process, out, status = self._spawn(cwd, env, limits)
                self.pid = process.pid
                self.started = launch.start_time(process.pid)
                _LIVE.add(self)
                ready.set_result(None)
                finished = self._live(process, out, status)
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            failure = error
        finally:
            self._close()
            _LIVE.discard(self)
        if failure is None:
            self.future.set_result(finished)
        else:
            (self.future if ready.done() else ready).set_exception(failure)

    def _live(self, process: "subprocess.Popen[bytes]", out: int, status: int) -> Finished:
        try:
            record = self._serve(out, status)
            code = process.wait()
            if "exit" not in record:  # the launcher was killed: its orphans are known by name
                for pid, at in marked(self.task).items():
                    launch.send(pid, at, signal.SIGKILL)
        finally:
            os.close(out)
            os.close(status)
        return self._result(record, code)

    def _spawn(
        self, cwd: Path, env: Mapping[str, str], limits: Limits
    ) -> tuple["subprocess.Popen[bytes]", int, int]:
        out, out_write = os.pipe()
        status, status_write = os.pipe()
        grow_pipe(out)
        config = {
            "status": status_write,
            "parent": os.getpid(),
            "die": not self._keep,
            "drain": str(self.output.spill) if self._keep else None,
            "drain_bytes": SPILL,
            "landlock": self._sandbox.landlock_paths(cwd),
            "network": self._sandbox.network,
            "file_bytes": limits.file_bytes,
            "processes": limits.processes,
            "memory_bytes": limits.memory_bytes,
        }
        command = self._sandbox.command(self.argv, cwd)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(config), "--", *command],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out_write,
                stderr=out_write,
                pass_fds=(status_write,),
                start_new_session=True,
            )
        except OSError:
            os.close(out)
            os.close(status)
            raise
        finally:
            os.close(out_write)
            os.close(status_write)
        return process, out, status

    def _serve(self, out: int, status: int) -> dict[str, Any]:
        """Read until the launcher reports the end, plus a short drain; what it reported."""
        poller = select.poll()
        for fd in (out, status, self._wake_read):
            poller.register(fd, select.POLLIN)
        pieces = b""
        drain_until: float | None = None
        short = 0
        while True:
            events = dict(poller.poll(self._patience(drain_until)))
            if out in events:
                size = self._take(out, poller)
                short = short + 1 if 0 < size < 4096 else 0
                if short > 3:  # tiny writes: let them gather instead of waking for each
                    time.sleep(0.004)
            if self._wake_read in events:
                os.read(self._wake_read, 64)
                self._terminate()
            if status in events:
                piece = os.read(status, 4096)
                pieces += piece
                if not piece:
                    poller.unregister(status)
                    drain_until = time.monotonic() + DRAIN
            self._escalate()
            self.output.settle()
            if drain_until is not None and (self._at_end or time.monotonic() >= drain_until):
                return {k: v for line in pieces.splitlines() for k, v in json.loads(line).items()}

    def _patience(self, drain_until: float | None) -> int | None:
        """Milliseconds to the next thing to do without an event; None: nothing but events."""
        times = [at for at in (drain_until, self._kill_at, self.output.due()) if at is not None]
        return max(0, int((min(times) - time.monotonic()) * 1000) + 1) if times else None

    def _take(self, out: int, poller: "select.poll") -> int:
        chunk = os.read(out, PIPE)
        if not chunk:
            poller.unregister(out)
            self._at_end = True
        elif not self._keep:
            self.output.add(chunk)
        return len(chunk)

    def _terminate(self) -> None:
        with self._lock:
            grace = self._grace or 0.0
        if self._kill_at is None:
            self._signal(signal.SIGTERM)
        self._kill_at = time.monotonic() + grace

    def _escalate(self) -> None:
        if self._kill_at is None or time.monotonic() < self._kill_at:
            return
        self._signal(signal.SIGKILL)
        self._rounds += 1
        self._kill_at = time.monotonic() + 0.01
        if self._rounds > 100:  # a second: the launcher itself does not answer
            launch.send(self.pid, self.started, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if launch.pids():
            launch.send_all(launch.descendants(self.pid), number)
        else:  # no /proc: macOS, or a bare container
            os.killpg(self.pid, number)

    def _result(self, record: dict[str, Any], code: int) -> Finished:
        self.output.close()
        return Finished(
            exit_code=record.get("exit", code),
            head=bytes(self.output.head),
            tail=self.output.tail,
            total=self.output.total,
            timed_out=False,
            seconds=time.monotonic() - self._began,
            spill=self.output.spill,
            pid=self.pid,
            strays=record.get("strays", 0),
            stopped=self._kill_at is not None,
            trouble=record.get("error", "") or self.output.trouble,
        )

    def _close(self) -> None:
        with self._lock:
            self._grace = 0.0  # stop_soon finds nothing left to do
            os.close(self._wake_read)
            os.close(self._wake_write)


_LIVE: set[Child] = set()


def stop_all(grace: float = STRAY_GRACE) -> None:
    """Stop every child that dies with this process; at most `grace` + 1 seconds."""
    children = [child for child in _LIVE if child.owner == os.getpid()]  # not those of a parent
    for child in children:
        child.stop_soon(grace)
    until = time.monotonic() + grace + 1
    for child in children:
        with contextlib.suppress(TimeoutError):
            child.future.result(max(0.0, until - time.monotonic()))


atexit.register(stop_all)


def grow_pipe(fd: int) -> None:
    """Make a pipe hold 1 MiB, so that fewer reads empty it; a refusal leaves 64 KiB."""
    if sys.platform == "linux":
        with contextlib.suppress(PermissionError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)
