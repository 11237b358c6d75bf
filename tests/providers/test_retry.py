"""Retry: how long it waits, how often, and what it never repeats."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agent_kernel.core.model import (
    Attempt,
    Delta,
    Done,
    ErrorKind,
    ProviderError,
    Request,
    Retry,
    StreamEvent,
)
from agent_kernel.providers import Anthropic, Retrying, scripted
from agent_kernel.providers.errors import RETRYABLE, kind_of, wait_of
from tests.providers.kit import REQUEST, Time, collect, retries_of

DAY = "Thu, 01 Jan 1970"


def failing(kind: ErrorKind, **keywords: Any) -> ProviderError:
    keywords.setdefault("retryable", kind in RETRYABLE)
    return ProviderError(kind, "it failed", **keywords)


def retrying(answers: Any, time: Time, **keywords: Any) -> Retrying:
    keywords.setdefault("chance", lambda low, _high: low)
    return Retrying(scripted(answers), sleep=time.sleep, **keywords)


async def test_waits_double_up_to_32_seconds() -> None:
    time = Time()
    events, error = await collect(retrying([failing("server")] * 9, time).stream(REQUEST))
    assert time.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert [e.n for e in events if isinstance(e, Attempt)] == list(range(1, 9))
    assert error is not None
    assert "gave up: 8 attempts" in error.text


async def test_chance_adds_at_most_a_quarter() -> None:
    time = Time()
    seeded = random.Random(7)
    provider = retrying([failing("server")] * 6 + ["ok"], time, chance=seeded.uniform)
    await collect(provider.stream(REQUEST))
    for wait, base in zip(time.slept, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0], strict=True):
        assert base <= wait <= base * 1.25
        assert wait != base


async def test_a_wait_the_host_asks_for_is_never_shortened() -> None:
    for high in (False, True):
        time = Time()

        def chance(low: float, most: float, high: bool = high) -> float:
            return most if high else low

        answers = [failing("rate_limit", after=59.0), "ok"]
        await collect(retrying(answers, time, chance=chance).stream(REQUEST))
        assert time.slept == [60.0 if high else 59.0]


async def test_a_wait_over_a_minute_is_said_and_not_waited() -> None:
    time = Time()
    answers = [failing("rate_limit", after=720.0), "ok"]
    events, error = await collect(retrying(answers, time, wall=lambda: 0.0).stream(REQUEST))
    assert time.slept == []
    assert [type(e) for e in events] == [Attempt]
    assert error is not None
    assert "(12 min)" in error.text
    assert ":12 (" in error.text


@pytest.mark.parametrize(
    "kind", ["request", "auth", "payment", "not_found", "overflow", "cassette_miss", "cancelled"]
)
async def test_what_cannot_pass_is_asked_once(kind: ErrorKind) -> None:
    time = Time()
    provider = retrying([failing(kind), "ok"], time)
    events, error = await collect(provider.stream(REQUEST))
    assert error is not None
    assert error.kind == kind
    assert [type(e) for e in events] == [Attempt]


@pytest.mark.parametrize("kind", ["stall", "protocol"])
async def test_a_stall_and_a_broken_stream_are_repeated_twice(kind: ErrorKind) -> None:
    time = Time()
    events, error = await collect(retrying([failing(kind)] * 5, time).stream(REQUEST))
    assert len(retries_of(events)) == 2
    assert error is not None
    assert f"{kind} 3 times" in error.text


async def test_a_turn_has_20_retries() -> None:
    time = Time()
    answers: list[Any] = []
    for _ in range(7):
        answers += [failing("server")] * 3 + ["ok"]
    provider = retrying(answers, time)
    provider.begin_turn()
    errors = [(await collect(provider.stream(REQUEST)))[1] for _ in range(7)]
    assert errors[:6] == [None] * 6
    assert errors[6] is not None
    assert "20 retries in this turn" in errors[6].text
    provider.begin_turn()
    assert (await collect(provider.stream(REQUEST)))[1] is None


async def test_a_turn_waits_at_most_300_seconds() -> None:
    time = Time()
    provider = retrying([failing("rate_limit", after=58.0)] * 30, time)
    provider.begin_turn()
    _, error = await collect(provider.stream(REQUEST))
    assert error is not None
    assert "290 s waited in this turn" in error.text
    assert sum(time.slept) <= 300


async def test_turns_that_run_together_have_a_budget_each() -> None:
    time = Time()
    provider = retrying(lambda _request: failing("server"), time, attempts=3)

    async def turn() -> str:
        provider.begin_turn()
        out = ""
        for _ in range(12):
            error = (await collect(provider.stream(REQUEST)))[1]
            out = error.text if error else ""
        return out

    texts = await asyncio.gather(turn(), turn())
    assert all("20 retries in this turn" in text for text in texts)


async def test_a_message_that_is_done_is_never_asked_for_again() -> None:
    class Late:
        name = "late"
        calls = 0

        async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
            self.calls += 1
            yield Delta(0, "text", "x")
            async for event in scripted(["ok"]).stream(request):
                yield event

    late = Late()
    events, error = await collect(Retrying(late).stream(REQUEST))  # type: ignore[arg-type]
    assert error is None
    assert isinstance(events[-1], Done)
    assert late.calls == 1


async def test_the_wait_can_be_interrupted() -> None:
    provider = Retrying(scripted([failing("rate_limit", after=50.0), "ok"]))
    task = asyncio.ensure_future(collect(provider.stream(REQUEST)))
    await asyncio.sleep(0.05)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=0.2)
    assert done


async def test_what_came_before_the_failure_is_in_the_retry() -> None:
    time = Time()
    answers = [failing("connection", partial={"text": "half"}), "ok"]
    events, _ = await collect(retrying(answers, time).stream(REQUEST))
    assert [e for e in events if isinstance(e, Retry)] == [
        Retry(1, "connection", None, 0.5, {"text": "half"})
    ]


async def test_nobody_listening_on_this_machine_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    time = Time()
    provider = Retrying(Anthropic(f"http://127.0.0.1:{port}"), sleep=time.sleep)
    _, error = await collect(provider.stream(REQUEST))
    assert error is not None
    assert (error.kind, error.retryable) == ("connection", False)
    assert f"no server listens on http://127.0.0.1:{port}" in error.text
    assert time.slept == []


@pytest.mark.parametrize(
    "status,type_,text,kind",
    [
        (200, "overloaded_error", "", "overloaded"),
        (200, "api_error", "", "server"),
        (200, "", "", "server"),
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 5 maximum", "overflow"),
        (400, "invalid_request_error", "input and `max_tokens` exceed context limit", "overflow"),
        (500, "server_error", "the request exceeds the available context size", "overflow"),
        (400, "invalid_request_error", "messages: no", "request"),
        (409, "invalid_request_error", "", "conflict"),
        (413, "request_too_large", "", "overflow"),
        (422, "", "", "request"),
        (402, "billing_error", "", "payment"),
        (503, "", "", "server"),
        (529, "", "", "overloaded"),
        (418, "teapot", "", "request"),
    ],
)  # fmt: skip
def test_kinds_follow_type_then_status(status: int, type_: str, text: str, kind: str) -> None:
    assert kind_of(status, type_, text) == kind


@pytest.mark.parametrize(
    "headers,seconds",
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": f"{DAY} 00:00:10 GMT"}, 10.0),
        ({"retry-after": f"{DAY} 00:00:10 GMT", "date": f"{DAY} 00:00:04 GMT"}, 6.0),
        ({"retry-after": "Wed, 31 Dec 1969 23:00:00 GMT"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_wait_is_read_from_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_of(headers, 0.0) == seconds
