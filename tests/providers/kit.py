"""Kit of the providers' tests: a client of the loopback server, a clock nobody waits for."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_kernel.core.messages import Message
from agent_kernel.core.model import Done, ProviderError, Request, Retry, StreamEvent, SystemText
from agent_kernel.providers import Anthropic, Key, Retrying, Watchdog, endpoint_of
from agent_kernel.testing import MessagesServer

KEY = Key("sk-" + "not-a-real-key", "ANTHROPIC_API_KEY")
REQUEST = Request(
    "claude-sonnet-5-5", (Message("user", "Read a.py"),), (SystemText("identity", "You help."),)
)


class Time:
    """A clock that jumps: a sleep lets the loop do what is ready, then moves the clock on."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.now += seconds


def anthropic_of(server: MessagesServer, **keywords: Any) -> Anthropic:
    """The real client's provider over the loopback server, with all that the API itself can do."""
    given = {"name": "anthropic", **keywords.pop("fields", {})}
    keywords.setdefault("endpoint", endpoint_of(server.base_url, given))
    return Anthropic(server.base_url, keywords.pop("key", KEY), **keywords)


def whole_of(server: MessagesServer, time: Time, **keywords: Any) -> Retrying:
    """retry(watchdog(anthropic)), its waits on the jumping clock, chance always at its least."""
    inner = Watchdog(anthropic_of(server, **keywords))
    return Retrying(inner, sleep=time.sleep, chance=lambda low, _high: low)


async def collect(stream: Any) -> tuple[list[StreamEvent], ProviderError | None]:
    """All events of a stream, and the error it ended with."""
    events: list[StreamEvent] = []
    try:
        async for event in stream:
            events += [event]
    except ProviderError as error:
        return events, error
    return events, None


def done_of(events: list[StreamEvent]) -> Done:
    """The Done of a stream that ended well."""
    assert isinstance(events[-1], Done), events[-3:]
    return events[-1]


def retries_of(events: list[StreamEvent]) -> list[Retry]:
    """The retries of a stream."""
    return [event for event in events if isinstance(event, Retry)]
