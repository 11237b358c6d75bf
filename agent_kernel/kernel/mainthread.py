"""Main thread: runs an agent's Python through IPython as a cell would; gives back all it showed.

May not decide whether it may run; the folder, handlers and streams it changes are put back.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import TextIOBase
from pathlib import Path
from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.kernel import namespace, sigint
from agent_kernel.kernel.runtime import Runtime
from agent_kernel.tools.cell_result import CellResult

_FRAME_LINES = 60  # of a traceback, kept at each end
_PICTURES = ("image/png", "image/jpeg")


@dataclass
class Ran:
    """What one run showed: text, mime bundles (the last value last), error, changes."""

    stdout: str = ""
    stderr: str = ""
    outputs: list[Json] = field(default_factory=list)
    error: str | None = None
    traceback: str = ""
    seconds: float = 0.0
    changed: Json = field(default_factory=dict)
    interrupted: bool = False

    def result(self) -> CellResult:
        """Return what the model is told of it."""
        texts = [str(o["text/plain"]) for o in self.outputs if "text/plain" in o]
        pictures = [
            (kind, base64.b64decode(o[kind]))
            for o in self.outputs
            for kind in _PICTURES
            if kind in o
        ]
        return CellResult(
            stdout=self.stdout,
            stderr=self.stderr,
            value_text="\n".join(texts) if texts else None,
            images=tuple(pictures),
            error=self.error,
            traceback=self.traceback,
            seconds=self.seconds,
            namespace_diff=self.changed,
        )


class MainThread:
    """The service `run_cell` of the python tool: the live namespace, on the main thread.

    `shown` is called with the rich outputs of each run, for the person; `outputs` go to the model.
    """

    def __init__(self, runtime: Runtime, shell: Any, shown: Callable[[list[Json]], None]) -> None:
        self._runtime = runtime
        self._shell = shell
        self._shown = shown

    async def run_cell(
        self, code: str, timeout: int, progress: Callable[[str], None]
    ) -> CellResult:
        """Return what `code` gave; an interrupt of it cancels the caller, as the turn's does."""
        loop = asyncio.get_running_loop()

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(progress, text)

        run = _Run(self._shell, code, tell)
        alarm = loop.call_later(timeout, run.stop_late)
        try:
            ran: Ran = await self._runtime.on_main(run.start)
        except asyncio.CancelledError:
            run.stop()
            raise
        finally:
            alarm.cancel()
        if run.late:
            ran.error = ran.traceback = f"TimeoutError: stopped after {timeout} s"
        elif ran.interrupted:
            raise asyncio.CancelledError("Python was interrupted")
        self._shown(ran.outputs)
        return ran.result()


class _Run:
    """One run: started on the main thread, stopped from any other by a person's own signal."""

    def __init__(self, shell: Any, code: str, tell: Callable[[str], None]) -> None:
        self._shell, self._code, self._tell = shell, code, tell
        self._task: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()
        self._running = False
        self.late = False

    def start(self) -> Any:
        """Run the code now, or return the coroutine that does when it awaits."""
        transformed = self._shell.transform_cell(self._code)
        if self._shell.should_run_async(self._code, transformed_cell=transformed):
            return self._run_async()
        return self._run()

    def stop_late(self) -> None:
        """Stop the code because its time is over."""
        self.late = True
        self.stop()

    def stop(self) -> None:
        """Raise KeyboardInterrupt in running code; a run that is over is left alone."""
        with self._lock:
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            elif self._running:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _run(self) -> Ran:
        ran = Ran()
        with sigint.keyboard_interrupts() as pressed:
            try:
                self._set(True)
                with _watched(self._shell, ran, self._tell):
                    result = self._shell.run_cell(self._code, store_history=False)
            finally:
                self._set(False)
        _ended(self._shell, ran, result)
        ran.interrupted = ran.interrupted or pressed.seen
        return ran

    def _set(self, running: bool) -> None:
        with self._lock:
            self._running = running

    async def _run_async(self) -> Ran:
        ran = Ran()
        self._task = asyncio.current_task()
        with _watched(self._shell, ran, self._tell):
            result = await self._shell.run_cell_async(self._code, store_history=False)
            self._shell.events.trigger("post_execute")
        self._task = None
        return _ended(self._shell, ran, result)


def _ended(shell: Any, ran: Ran, result: Any) -> Ran:
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        lines = getattr(shell, "_last_traceback", None) or [str(error)]
        ran.error = f"{type(error).__name__}: {error}"
        ran.traceback = _short("\n".join(lines).split("\n"))
    ran.interrupted = isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    return ran


def _short(lines: list[str]) -> str:
    if len(lines) <= 2 * _FRAME_LINES:
        return "\n".join(lines)
    cut = f"[… {len(lines) - 2 * _FRAME_LINES} lines of the traceback left out …]"
    return "\n".join([*lines[:_FRAME_LINES], cut, *lines[-_FRAME_LINES:]])


@contextmanager
def _watched(shell: Any, ran: Ran, tell: Callable[[str], None]) -> Iterator[None]:
    """Capture what the body shows and changes by name into `ran`; put the rest back."""
    from IPython.utils.capture import capture_output

    before, began = namespace.snapshot(shell.user_ns), time.monotonic()
    captured: Any = None
    notes: list[str] = []
    try:
        with _put_back(notes), ExitStack() as stack:
            stack.enter_context(shell.builtin_trap)
            stack.enter_context(shell.display_trap)
            captured = stack.enter_context(capture_output())
            sys.stdout = _Tee(sys.stdout, tell)
            stack.enter_context(_quiet_errors(shell))
            yield
    finally:
        ran.seconds = round(time.monotonic() - began, 3)
        changed = namespace.changes(before, namespace.snapshot(shell.user_ns))
        ran.changed = namespace.worded(changed)
        if captured is not None:
            ran.stdout = captured.stdout
            ran.stderr = captured.stderr + "".join(f"[{note}]\n" for note in notes)
            ran.outputs = [dict(rich.data) for rich in captured.outputs if rich.data]


class _Tee(TextIOBase):
    """A text stream that keeps what is written and tells it as it comes."""

    def __init__(self, kept: Any, tell: Callable[[str], None]) -> None:
        self._kept, self._tell = kept, tell

    def write(self, text: str) -> int:
        """Keep `text` and tell it; returns its length."""
        self._tell(text)
        return int(self._kept.write(text))

    def getvalue(self) -> str:
        """Return all that was written."""
        return str(self._kept.getvalue())


@contextmanager
def _quiet_errors(shell: Any) -> Iterator[None]:
    """Keep a traceback out of the cell's own output: the model's code failed, not the cell."""

    def keep(_kind: Any, _value: Any, lines: list[str]) -> None:
        shell._last_traceback = lines

    shell._showtraceback = keep
    try:
        yield
    finally:
        del shell._showtraceback


@contextmanager
def _put_back(notes: list[str]) -> Iterator[None]:
    """Put folder, environment, streams and signal handlers back; say what was, and what runs on."""
    folder, environment = Path.cwd(), dict(os.environ)
    streams = sys.stdin, sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    threads = set(threading.enumerate())
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
                notes.append(f"put back: the handler of {signal.Signals(number).name}")
        if _folder() != folder:
            os.chdir(folder)
            notes.append("put back: the working directory; use absolute paths")
        names = {name for name, _ in environment.items() ^ os.environ.items()}
        if names:
            os.environ.clear()
            os.environ.update(environment)
            notes.append(f"put back: the environment ({', '.join(sorted(names)[:5])})")
        left = [t.name for t in threading.enumerate() if t not in threads and not t.daemon]
        if left:
            notes.append(f"still running: {len(left)} threads ({', '.join(left[:5])})")


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was removed
        return None
