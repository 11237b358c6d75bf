"""Sigint: an interrupt wakes a waiting cell at once, on our kernel and on a stock ipykernel.

May not touch any other handler: what was installed before is put back after each cell.
"""

from __future__ import annotations

import asyncio
import signal
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def cancel_on_sigint(_kernel: Any, future: asyncio.Future[Any]) -> Iterator[None]:
    """Cancel `future` when SIGINT comes while the body runs.

    ipykernel 7 adds its callback without waking the selector, so a quiet `await` slept for seconds.
    """
    loop = future.get_loop()

    def cancel() -> None:
        if not future.done():
            future.cancel()

    def handle(_number: int, _frame: Any) -> None:
        loop.call_soon_threadsafe(cancel)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def wake_on_interrupt(kernel: Any) -> bool:
    """Give a stock kernel the same interrupt; False when it has no such place."""
    if not hasattr(kernel, "_cancel_on_sigint"):
        return False
    kernel._cancel_on_sigint = types.MethodType(cancel_on_sigint, kernel)
    return True


class Pressed:
    """Whether an interrupt came, even where something in between swallowed it."""

    seen = False


@contextmanager
def keyboard_interrupts() -> Iterator[Pressed]:
    """Let SIGINT raise KeyboardInterrupt in the body, as in a plain cell; main thread only.

    IPython swallows one that comes while its own callbacks run: `seen` still tells of it.
    """
    pressed = Pressed()

    def handle(_number: int, _frame: Any) -> None:
        pressed.seen = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
