"""Gate: how many attempts run at once, and a host's "later" holds for all of them.

May not retry or change anything: an attempt waits here, then goes through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from agent_kernel.core.model import (
    ProviderError,
    Request,
    StreamEvent,
)
from agent_kernel.providers.wrapper import Wrapper

AT_ONCE = 8  # features.md F7.4, setting requests_at_once
LONGEST = 60.0  # seconds: retry.py gives up beyond
HOLD = 0.5  # seconds after a 429 that names no wait: the first wait of retry.py


@dataclass
class Gate(Wrapper):
    """A provider shared by all agents of a session: `at_once` attempts, the others wait in order.

    `sleep` takes seconds, `clock` gives them.
    """

    at_once: int = AT_ONCE
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    held_until: float = field(default=0.0, init=False)
    running: int = field(default=0, init=False)
    _room: asyncio.Semaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Open the gate."""
        self._room = asyncio.Semaphore(self.at_once)

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Yield the attempt's events once there is room and no wait holds. Raises as the inner."""
        async with self._room:
            while (left := self.held_until - self.clock()) > 0:
                await self.sleep(left)
            self.running += 1
            try:
                async with aclosing(self.inner.stream(request)) as events:
                    async for event in events:
                        yield event
            except ProviderError as error:
                if error.kind == "rate_limit":
                    wait = HOLD if error.after is None else error.after
                    wait = wait if wait <= LONGEST else 0.0  # such a wait is told, not slept
                    self.held_until = max(self.held_until, self.clock() + wait)
                raise
            finally:
                self.running -= 1
