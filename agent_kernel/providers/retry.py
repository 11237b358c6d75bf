"""Retry: asks again after a failure that may pass, never sooner than the host asked.

May not change a request, and never retries once a message is done: a tool may have started then.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field

from agent_kernel.core.model import (
    Attempt,
    ErrorKind,
    ProviderError,
    Request,
    Retry,
    StreamEvent,
)
from agent_kernel.providers.wrapper import Wrapper

FIRST, CAP = 0.5, 32.0  # seconds of the first wait and of the longest
JITTER = 0.25  # share of a wait that chance may add
LONGEST = 60.0  # seconds a host may ask for; more is said to the person instead
ATTEMPTS = 8  # a request
TURN_RETRIES, TURN_WAIT = 20, 300.0  # a turn: retries, and seconds of waiting
TWICE: frozenset[ErrorKind] = frozenset({"stall", "protocol"})  # at most 2 retries each


@dataclass
class Spent:
    """What the retries of one turn have cost so far."""

    retries: int = 0
    waited: float = 0.0


_SPENT: ContextVar[Spent | None] = ContextVar("agent_kernel_retries_of_turn", default=None)


@dataclass
class Retrying(Wrapper):
    """A provider that repeats attempts.

    `sleep` takes seconds, `chance(a, b)` is uniform, `wall` is in seconds since the epoch.
    """

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[float, float], float] = random.uniform
    wall: Callable[[], float] = time.time
    attempts: int = field(default=ATTEMPTS)

    def begin_turn(self) -> None:
        """Give the turn that runs in this context its own budget of retries and waiting."""
        _SPENT.set(Spent())

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Yield Attempt, the events, Retry before each repeat. Raises the last ProviderError."""
        spent = _SPENT.get() or Spent()
        counts: Counter[ErrorKind] = Counter()
        why = "first"
        for n in range(1, self.attempts + 1):
            yield Attempt(n, why)
            try:
                events = self.inner.stream(request)
                async with aclosing(events):
                    async for event in events:
                        yield event
                return
            except ProviderError as error:
                counts[error.kind] += 1
                wait = self._wait(error, n, counts, spent)
                if wait is None:
                    raise
                why = error.kind
                yield Retry(n, error.kind, error.status, wait, error.partial)
                await self.sleep(wait)
                spent.retries += 1
                spent.waited += wait

    def _wait(
        self, error: ProviderError, n: int, counts: Counter[ErrorKind], spent: Spent
    ) -> float | None:
        """Seconds before the next attempt; None, the reason in the error, when there is none."""
        if not error.retryable:
            return None
        if error.after is not None and error.after > LONGEST:
            error.text = f"{error.text}; limited until {self._until(error.after)}"
            return None
        wait = self._delay(n) if error.after is None else error.after + self.chance(0.0, 1.0)
        stop = self._limit(error.kind, n, counts, spent, wait)
        if stop is not None:
            error.text = f"{error.text}; gave up: {stop}"
            return None
        return wait

    def _limit(
        self, kind: ErrorKind, n: int, counts: Counter[ErrorKind], spent: Spent, wait: float
    ) -> str | None:
        if n >= self.attempts:
            return f"{n} attempts at this request"
        if kind in TWICE and counts[kind] > 2:
            return f"{kind} {counts[kind]} times"
        if spent.retries >= TURN_RETRIES:
            return f"{spent.retries} retries in this turn"
        if spent.waited + wait > TURN_WAIT:
            return f"{spent.waited:.0f} s waited in this turn"
        return None

    def _delay(self, n: int) -> float:
        return float(min(CAP, FIRST * 2 ** (n - 1)) * (1 + self.chance(0.0, JITTER)))

    def _until(self, after: float) -> str:
        when = time.localtime(self.wall() + after)
        return f"{time.strftime('%H:%M', when)} ({after / 60:.0f} min)"
