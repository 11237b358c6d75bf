"""Watchdog: ends a stream in which nothing of content comes any more.

May not retry, and is fed by content events alone: a ping never reaches it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from agent_kernel.core.messages import Json
from agent_kernel.core.model import (
    BlockDone,
    BlockStart,
    Delta,
    ProviderError,
    Request,
    Stall,
    StreamEvent,
)
from agent_kernel.providers.wrapper import Wrapper

HIDDEN_THINKING = 300.0  # seconds of quiet while thinking that is not shown


@dataclass
class Watchdog(Wrapper):
    """A provider whose streams raise kind `stall` after too much quiet.

    The first event may take `endpoint.first` seconds, each later one `endpoint.gap`; `clock` and
    `sleep` are in seconds.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Yield the inner events. Yields Stall and raises ProviderError(`stall`) on quiet."""
        gap = self._gap(request)
        quiet = _Quiet(self.clock, self.sleep, self.endpoint.first)
        events = self.inner.stream(request)
        partial = _Partial()
        async with aclosing(events):
            try:
                while True:
                    event = await quiet.next(events)
                    if event is None:
                        break
                    partial.take(event)
                    yield event
                    quiet.allow(gap)
            except _TooQuiet as stall:
                yield Stall(stall.seconds)
                text = f"nothing came for {stall.seconds:.0f} s"
                raise ProviderError("stall", text, retryable=True, partial=partial.wire()) from None
            finally:
                quiet.stop()

    def _gap(self, request: Request) -> float:
        thinking = request.params.get("thinking")
        hidden = isinstance(thinking, dict) and thinking.get("display") == "omitted"
        return max(self.endpoint.gap, HIDDEN_THINKING) if hidden else self.endpoint.gap


class _Partial:
    """What came before a stall: text, and calls that never run."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.calls: dict[int, Json] = {}

    def take(self, event: StreamEvent) -> None:
        """Note one event."""
        match event:
            case Delta(_, "text", text):
                self.text.append(text)
            case BlockStart(index, "tool_use", name, id):
                self.calls[index] = {"id": id, "name": name, "finished": False}
            case BlockDone(index, _) if index in self.calls:
                self.calls[index]["finished"] = True

    def wire(self) -> Json:
        """Return it as ProviderError.partial holds it."""
        out: Json = {}
        if self.text:
            out["text"] = "".join(self.text)
        if self.calls:
            out["calls"] = list(self.calls.values())
        return out


class _TooQuiet(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Quiet:
    """One timer for a whole stream: its deadline moves with every event."""

    def __init__(
        self,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        first: float,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._timer: asyncio.Task[None] | None = None
        self._begin = self._limit = 0.0
        self.allow(first)

    def allow(self, seconds: float) -> None:
        """Wait from now on for `seconds`: a timer that sleeps longer is set anew."""
        shorter = seconds < self._limit
        self._begin, self._limit = self._clock(), seconds
        if shorter:
            self.stop()

    async def next(self, events: AsyncGenerator[StreamEvent]) -> StreamEvent | None:
        """Return the next event, None at the end. Raises _TooQuiet at the deadline."""
        if self._timer is None or self._timer.done():
            self._timer = asyncio.ensure_future(self._run())
        coming = asyncio.ensure_future(_next(events))
        try:
            await asyncio.wait({coming, self._timer}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                raise _TooQuiet(self._limit)
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
        return coming.result()

    async def _run(self) -> None:
        while (left := self._begin + self._limit - self._clock()) > 0:
            await self._sleep(left)

    def stop(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _next(events: AsyncGenerator[StreamEvent]) -> StreamEvent | None:
    return await anext(events, None)
