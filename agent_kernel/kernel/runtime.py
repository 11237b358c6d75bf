"""Runtime: the one thread whose event loop runs agents, and the way back to the main thread.

May not run a person's code itself: that goes to the main thread, one job at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

from agent_kernel.kernel.sigint import keyboard_interrupts

T = TypeVar("T")
CLOSING_SECONDS = 5.0  # how long a cancelled turn may take to close its log
_POLL = 0.1


class Runtime:
    """An event loop in a daemon thread. Agents live there, so a busy cell never stalls a stream."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._jobs: deque[tuple[Callable[[], Any], Context]] = deque()
        self._wake = threading.Event()
        self._main_loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._work, name="agent-runtime", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    @property
    def here(self) -> bool:
        """True on the runtime's own thread."""
        return threading.current_thread() is self._thread

    # ---- into the runtime ------------------------------------------------------------------------

    def submit(
        self,
        work: Coroutine[Any, Any, T],
        known: Callable[[Submitted[T]], None] = lambda _job: None,
    ) -> Submitted[T]:
        """Start `work` on the runtime's loop, in the caller's context; `known` hears of it first.

        Raises what `known` raises: then nothing was started.
        """
        made: Submitted[T] = Submitted(self)
        try:
            known(made)
        except BaseException:
            work.close()
            raise
        made.start(work)
        return made

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` from the main thread's loop; cancelled, wait until the work has closed."""
        return await self.wait(self.submit(work))

    async def wait(self, job: Submitted[T]) -> T:
        """Await what was submitted, from the main thread's loop; cancelled, it is cancelled too.

        Raises Left when it was left to go on by itself.
        """
        self._main_loop = asyncio.get_running_loop()
        done, left = asyncio.wrap_future(job.done), asyncio.wrap_future(job.left)
        both: set[asyncio.Future[Any]] = {done, left}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            job.cancel()
            await job.closed()
            raise
        if not done.done():
            raise Left(left.result())
        left.cancel()
        return done.result()

    def block_for(self, job: Submitted[Any]) -> None:
        """Block until `job` is done, serving its main-thread jobs; an interrupt cancels it."""
        job.done.add_done_callback(lambda _done: self._wake.set())
        try:
            with keyboard_interrupts():
                while not job.done.done():
                    self._wake.wait(_POLL)
                    self._wake.clear()
                    self._serve()
        except KeyboardInterrupt:
            job.cancel()
            job.settle()
            raise

    # ---- back to the main thread -----------------------------------------------------------------

    async def on_main(self, work: Callable[[], T | Coroutine[Any, Any, T]]) -> T:
        """Return what `work` gives, run on the main thread as soon as that is free.

        Raises what it raises; an interrupt of it cancels the caller.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def tell(value: Any, error: BaseException | None = None) -> None:
            loop.call_soon_threadsafe(_settle, done, value, error)

        def job() -> None:
            if done.cancelled():
                return
            try:
                made = work()
            except BaseException as error:  # noqa: BLE001  it is the awaiting task's to handle
                tell(None, error)
            else:
                self._deliver(made, tell)

        self._jobs.append((job, copy_context()))
        self._wake.set()
        if self._main_loop is not None and not self._main_loop.is_closed():
            self._main_loop.call_soon_threadsafe(self._serve)
        return await done

    def _deliver(self, made: Any, tell: Callable[..., None]) -> None:
        if asyncio.iscoroutine(made):
            self._follow(made, tell)
        else:
            tell(made)

    def _follow(self, work: Coroutine[Any, Any, Any], tell: Callable[..., None]) -> None:
        """Run a coroutine as a task of the main thread's loop, or to its end where none runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            tell(asyncio.run(work))
            return
        task = loop.create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                tell(None, asyncio.CancelledError())
            else:
                error = task.exception()
                tell(None if error else task.result(), error)

        task.add_done_callback(ended)

    def _serve(self) -> None:
        while self._jobs:
            job, context = self._jobs.popleft()
            context.run(job)

    def close(self) -> None:
        """Stop the loop and join the thread."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CLOSING_SECONDS)


def _settle(done: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
        done.cancel()
    elif error is not None:
        done.set_exception(error)
    else:
        done.set_result(value)


class Left(Exception):
    """Work was left to go on by itself; its text is the name it goes by."""


class Submitted(Generic[T]):
    """Work handed to the runtime: `done` carries its result; `cancel` ends it as an interrupt.

    `left` is set when its waiter is to go without it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.done: Future[T] = Future()
        self.left: Future[str] = Future()
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False
        self._ended = threading.Event()

    def start(self, work: Coroutine[Any, Any, T]) -> None:
        """Make the task on the runtime's loop."""

        def begin() -> None:
            self._task = self._runtime.loop.create_task(work)
            self._task.add_done_callback(self._finish)
            if self._cancelled:
                self._task.cancel()

        self._runtime.loop.call_soon_threadsafe(begin)

    def _finish(self, task: asyncio.Task[T]) -> None:
        self._ended.set()
        if self.done.done():
            return
        if task.cancelled():
            self.done.cancel()
            self.done.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(task.result())

    def cancel(self) -> None:
        """Cancel the task, from any thread."""

        def stop() -> None:
            self._cancelled = True
            if self._task is not None:
                self._task.cancel()

        self._runtime.loop.call_soon_threadsafe(stop)

    def settle(self) -> None:
        """Block until the task has closed, at most CLOSING_SECONDS."""
        self._ended.wait(CLOSING_SECONDS)

    async def closed(self) -> None:
        """Wait until the task has closed, at most CLOSING_SECONDS, whatever cancels the waiter."""
        until = asyncio.get_running_loop().time() + CLOSING_SECONDS
        # A thread's event, looked at: the runtime may end between two looks.
        while not self._ended.is_set() and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.01)
