"""The watchdog: fed by content alone, on a clock the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from agent_kernel.core.messages import Text
from agent_kernel.core.model import Delta, Endpoint, ProviderError, Request, Stall, StreamEvent
from agent_kernel.providers import Watchdog, scripted
from agent_kernel.testing import MessagesServer
from tests.providers.kit import REQUEST, anthropic_of, collect

OK = {"message": {"content": [{"type": "text", "text": "Done."}]}}


class ManualTime:
    """A clock that stands still until the test moves it; sleepers wake when their time has come."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now + seconds, future))
        await future

    async def advance(self, seconds: float) -> None:
        self.now += seconds
        for at, future in self.sleepers:
            if at <= self.now and not future.done():
                future.set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)


async def _pinged(server: MessagesServer, events: int) -> tuple[Any, list[StreamEvent], ManualTime]:
    """A stream under the watchdog that has given `events` events and only pings from then on."""
    time = ManualTime()
    stream = Watchdog(anthropic_of(server), clock=time.clock, sleep=time.sleep).stream(REQUEST)
    seen = [await anext(stream) for _ in range(events)]
    return stream, seen, time


@pytest.mark.parametrize("after,limit", [(0, 180.0), (3, 90.0)])
async def test_pings_alone_are_one_stall(
    messages_server: Callable[..., MessagesServer], after: int, limit: float
) -> None:
    reply = {**OK, "fault": "pings", "every_ms": 5, "seconds": 30, "after": after}
    server = messages_server({"replies": [reply]})
    stream, seen, time = await _pinged(server, after)
    rest = asyncio.ensure_future(collect(stream))
    await asyncio.sleep(0.3)  # dozens of pings go by
    await time.advance(limit - 1)
    assert not rest.done()
    await time.advance(1)
    events, error = await asyncio.wait_for(rest, 2)
    assert events == [Stall(limit)]
    assert error is not None
    assert (error.kind, error.retryable) == ("stall", True)
    assert len(seen) == after


async def test_every_content_event_moves_the_deadline() -> None:
    time = ManualTime()
    endpoint = Endpoint("slow", first=600.0, gap=90.0)

    async def events() -> AsyncGenerator[StreamEvent]:
        for _ in range(5):
            await time.sleep(80)
            yield Delta(0, "text", "x")
        await time.sleep(1_000)

    class Slow:
        name = "slow"

        def __init__(self) -> None:
            self.endpoint = endpoint

        def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
            return events()

    rest = asyncio.ensure_future(
        collect(Watchdog(Slow(), clock=time.clock, sleep=time.sleep).stream(REQUEST))  # type: ignore[arg-type]
    )
    await asyncio.sleep(0)
    for _ in range(9):
        await time.advance(50)
    assert not rest.done()
    for _ in range(9):
        await time.advance(50)
    seen, error = await asyncio.wait_for(rest, 2)
    assert [type(event) for event in seen] == [Delta] * 5 + [Stall]
    assert error is not None
    assert error.partial == {"text": "xxxxx"}


async def test_hidden_thinking_may_take_longer() -> None:
    request = Request("m", REQUEST.messages, params={"thinking": {"display": "omitted"}})
    dog = Watchdog(scripted([]))
    assert dog._gap(request) == 300.0
    assert dog._gap(REQUEST) == 90.0


async def test_a_stream_that_is_closed_leaves_no_timer() -> None:
    before = asyncio.all_tasks()
    async with aclosing(Watchdog(scripted(["hello"])).stream(REQUEST)) as stream:
        await anext(stream)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_errors_and_events_pass_through() -> None:
    events, error = await collect(Watchdog(scripted([[Text("hi")]])).stream(REQUEST))
    assert error is None
    assert len(events) == 5
    broken = scripted([ProviderError("request", "no")])
    events, error = await collect(Watchdog(broken).stream(REQUEST))
    assert (events, str(error)) == ([], "request: no")
