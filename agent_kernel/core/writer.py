"""Writer: a thread that does one kind of a log's work, so that no signal lands inside a write.

May not know what it does: it runs jobs in order and hands their results back.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

GROUP_SECONDS = 0.05  # guard.md §11: what does not gate is on disk within this time
T = TypeVar("T")
Job = Callable[[], None] | None


def _nothing() -> None:
    return None


class Writer:
    """One thread and its queue; `idle` is called GROUP_SECONDS after the first `touch` since."""

    def __init__(self, name: str, idle: Callable[[], None] = _nothing) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._idle = idle
        self._due: float | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """True in the writer's own thread, where waiting for it would never end."""
        return threading.current_thread() is self._thread

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queue a job; its result or exception comes through the future."""
        done: Future[T] = Future()

        def work() -> None:
            if not done.set_running_or_notify_cancel():
                return  # whoever waited was cancelled first; from here on nobody can cancel it
            try:
                made = job()
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits, never kept
                done.set_exception(error)
            else:
                done.set_result(made)

        self._jobs.put(work)
        return done

    def touch(self) -> None:
        """Ask for `idle` soon, whatever jobs come meanwhile."""
        if self._due is None:
            self._due = time.monotonic() + GROUP_SECONDS
            self._jobs.put(_nothing)  # wakes the thread, which then waits no longer than that

    def close(self) -> None:
        """End the thread after the jobs already queued."""
        self._jobs.put(None)
        if not self.here:
            self._thread.join()

    def _work(self) -> None:
        while True:
            due = self._due
            try:
                job = self._jobs.get(timeout=max(0.0, due - time.monotonic()) if due else None)
            except queue.Empty:
                self._due = None
                self._idle()
                continue
            if job is None:
                return
            job()
