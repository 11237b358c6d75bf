"""Writer: one thread that does all of a log's writing, so that no signal lands inside a write.

May not know what it writes: it runs jobs in order and hands their results back.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

GROUP_SECONDS = 0.05  # guard.md §11: what does not gate is on disk within this time


class Writer:
    """One thread that does all of a log's writing, so that no signal lands inside a write."""

    def __init__(self, name: str, idle: Callable[[], None]) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._idle = idle
        self.dirty = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        """Queue a job; its result or exception comes through the future."""
        done: Future[Any] = Future()
        self._jobs.put((job, done))
        return done

    def close(self) -> None:
        """End the thread after the jobs already queued."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        while True:
            try:
                got = self._jobs.get(timeout=GROUP_SECONDS if self.dirty else None)
            except queue.Empty:
                self._idle()
                continue
            if got is None:
                return
            job, done = got
            try:
                done.set_result(job())
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits, never kept
                done.set_exception(error)
