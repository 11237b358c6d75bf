"""Processes: how a command is started, read, bounded and stopped, with its whole tree.

It decides nothing: rules and sandbox are chosen before; it never waits for the end of a pipe.
"""

import asyncio
import contextlib
import json
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from agent_kernel.guard import launch
from agent_kernel.guard.output import SPILL, Live, Output
from agent_kernel.guard.redact import SECRET_NAME
from agent_kernel.guard.sandbox import Sandbox, stand_ins

if sys.platform != "win32":
    import fcntl

TASK_NAME = "AGENT_KERNEL_TASK"
DRAIN = 0.2  # seconds of reading after the command has ended
GRACE = 3.0  # seconds between TERM and KILL
STRAY_GRACE = 0.2  # the same when this process ends
CANCEL_GRACE = 0.3  # the same when a person waits for the cell to come back
PIPE = 1 << 20
LAUNCHER = Path(launch.__file__)

_UNWANTED = re.compile(
    r"(?:ANTHROPIC_|LD_|BASH_FUNC_|GIT_).*|BASH_ENV|ENV|SHELLOPTS|PROMPT_COMMAND"
    r"|PYTHONSTARTUP|NODE_OPTIONS|RUBYOPT|PERL5OPT"
)
_QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
}


def child_env(extra: Mapping[str, str] = {}, pass_env: Collection[str] = ()) -> dict[str, str]:
    """Return the environment of a child: ours without secrets and names that make tools run code.

    Names in `pass_env` are given back; `extra` is laid over at the end. Relative and empty PATH
    entries are dropped, so no name is looked up in the working directory.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in pass_env or not (SECRET_NAME.search(name) or _UNWANTED.fullmatch(name))
    }
    path = env.get("PATH", os.defpath).split(os.pathsep)
    env["PATH"] = os.pathsep.join(part for part in path if Path(part).is_absolute())
    env.update({name: value for name, value in _QUIET.items() if name not in pass_env})
    env.setdefault(TASK_NAME, "none")
    return {**env, **extra}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command may use: bytes of one file, processes beyond today's, bytes of memory."""

    file_bytes: int = 4 << 30
    processes: int = 512
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    `exit_code` is negative for a signal, None when nobody knows; `head` and `tail` are the first
    and last 128 KiB of stdout and stderr as they came, `total` counts every byte, `spill` is the
    file with up to 64 MiB of them; `strays` processes were left behind and stopped.
    """

    exit_code: int | None
    head: bytes
    tail: bytes
    total: int
    timed_out: bool
    seconds: float
    spill: Path | None
    pid: int
    strays: int = 0
    stopped: bool = False
    trouble: str = ""

    def text(self) -> tuple[str, bool]:
        """Return the kept output decoded, and whether it is exact: nothing replaced or left out."""
        gap = self.total - len(self.head) - len(self.tail)
        middle = f"\n[{gap:,} bytes left out]\n".encode() if gap else b""
        raw = self.head + middle + self.tail
        decoded = raw.decode("utf-8", "replace")
        return decoded, not gap and decoded.encode() == raw

    def ending(self) -> str:
        """Return the end in words, for the model: exit code, signal and what it probably means."""
        if self.timed_out:
            return (
                f"timed out after {self.seconds:.0f} s; the command and its children were stopped"
            )
        return explain(self.exit_code)


_MEANING = {
    signal.SIGXFSZ: "a file grew past the size limit (RLIMIT_FSIZE)",
    signal.SIGKILL: "killed, perhaps for lack of memory",
    signal.SIGPIPE: "its output was closed",
    signal.SIGSEGV: "a crash; core dumps are off",
}


def explain(exit_code: int | None) -> str:
    """Return an exit code in words; 128 + N is how a shell reports signal N of its child."""
    if exit_code is None:
        return "ended; the exit code is not known"
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number not in set(signal.Signals):
        return f"exit code {exit_code}"
    name = signal.Signals(number)
    meaning = f": {_MEANING[name]}" if name in _MEANING else ""
    return f"exit code {exit_code} ({name.name}{meaning})"


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
        limits: Limits = Limits(),
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
            args=(ready, Path(cwd), {**env, TASK_NAME: task}, limits),
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
        with stand_ins(self._sandbox):
            try:
                process, out, status = self._spawn(cwd, env, limits)
            except OSError as error:
                self._close()
                ready.set_exception(error)
                return
            self._live(ready, process, out, status)

    def _live(
        self, ready: "Future[None]", process: "subprocess.Popen[bytes]", out: int, status: int
    ) -> None:
        self.pid = process.pid
        self.started = launch.start_time(process.pid)
        _LIVE.add(self)
        ready.set_result(None)
        try:
            record = self._serve(out, status)
            code = process.wait()
            if "exit" not in record:  # the launcher was killed: its orphans are known by name
                for pid, at in marked(self.task).items():
                    launch.send(pid, at, signal.SIGKILL)
        finally:
            os.close(out)
            os.close(status)
            self._close()
            _LIVE.discard(self)
        self.future.set_result(self._result(record, code))

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
            if drain_until is not None and (self._at_end or time.monotonic() >= drain_until):
                return {k: v for line in pieces.splitlines() for k, v in json.loads(line).items()}

    def _patience(self, drain_until: float | None) -> int | None:
        """Milliseconds to the next thing to do without an event; None: nothing but events."""
        times = [at for at in (drain_until, self._kill_at) if at is not None]
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
        if sys.platform == "linux":
            launch.send_all(launch.descendants(self.pid), number)
        else:
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
    children = list(_LIVE)
    for child in children:
        child.stop_soon(grace)
    until = time.monotonic() + grace + 1
    for child in children:
        with contextlib.suppress(TimeoutError):
            child.future.result(max(0.0, until - time.monotonic()))


def grow_pipe(fd: int) -> None:
    """Make a pipe hold 1 MiB, so that fewer reads empty it; a refusal leaves 64 KiB."""
    if sys.platform == "linux":
        with contextlib.suppress(PermissionError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)


async def run(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    timeout: float,
    env: Mapping[str, str],
    spill: Path | None = None,
    on_output: Callable[[bytes], None] | None = None,
    sandbox: Sandbox | None = None,
    limits: Limits = Limits(),
) -> Finished:
    """Run `argv` to its end, at most `timeout` seconds, and return how it ended.

    `on_output` is called in the loop's thread with what came since its last call, the newest
    128 KiB at most. `spill` is made only when the output is more than memory keeps. A cancelled
    call stops the tree within a second and raises CancelledError again. Raises as `Child.start`.
    """
    view = Live(asyncio.get_running_loop(), on_output) if on_output is not None else None
    child = Child.start(
        argv,
        cwd=cwd,
        env=env,
        spill=spill,
        on_output=view.add if view is not None else None,
        sandbox=sandbox,
        limits=limits,
        eager=False,
    )
    try:
        finished = await child.wait(timeout)
        if finished is None:
            finished = replace(await child.stop(), timed_out=True)
    except asyncio.CancelledError:
        await child.stop(CANCEL_GRACE)
        raise
    finally:
        child.stop_soon(0.0)
    if view is not None:
        view.flush()
    return finished
