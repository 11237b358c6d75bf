"""Gate: eight at once, in order; one 429 holds for all; a closed stream gives its place back."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_kernel.core.messages import Message, Text
from agent_kernel.core.model import ProviderError, Request
from agent_kernel.providers import Gate, scripted
from tests.providers.kit import REQUEST, Time, collect


async def test_eight_run_at_once_and_the_others_wait_in_order() -> None:
    most, order = 0, []

    async def answer(request: Request) -> Any:
        nonlocal most
        most = max(most, gate.running)
        order.append(request.model)
        await asyncio.sleep(0.01)
        return Message("assistant", (Text("ok"),))

    gate = Gate(scripted(answer))
    asked = [Request(f"m{n:02}", REQUEST.messages) for n in range(20)]
    seen = await asyncio.gather(*[collect(gate.stream(each)) for each in asked])
    assert all(error is None for _, error in seen)
    assert most == 8
    assert order == sorted(order)
    assert gate.running == 0


async def test_one_rate_limit_holds_for_every_agent() -> None:
    time = Time()
    answers = iter(
        [ProviderError("rate_limit", "later", retryable=True, after=3.0), "one", "two", "three"]
    )
    began: list[float] = []

    def answer(_request: Request) -> Any:
        began.append(time.now)
        return next(answers)

    gate = Gate(scripted(answer), sleep=time.sleep, clock=time.clock)
    _, error = await collect(gate.stream(REQUEST))
    assert error is not None
    await asyncio.gather(*[collect(gate.stream(REQUEST)) for _ in range(3)])
    assert began[0] == 1_000.0
    assert min(began[1:]) >= 1_003.0


async def test_a_wait_nobody_named_is_half_a_second_and_other_errors_hold_nobody() -> None:
    time = Time()
    gate = Gate(
        scripted([ProviderError("server", "x"), ProviderError("rate_limit", "x"), "ok"]),
        sleep=time.sleep,
        clock=time.clock,
    )
    await collect(gate.stream(REQUEST))
    assert gate.held_until == 0.0
    await collect(gate.stream(REQUEST))
    assert gate.held_until == time.now + 0.5


async def test_a_stream_that_is_closed_early_gives_its_place_back() -> None:
    gate = Gate(scripted(lambda _request: Message("assistant", (Text("x" * 500),))), at_once=1)
    stream = gate.stream(REQUEST)
    await anext(stream)
    await stream.aclose()
    _, error = await asyncio.wait_for(collect(gate.stream(REQUEST)), 5)
    assert error is None
    assert gate.running == 0
