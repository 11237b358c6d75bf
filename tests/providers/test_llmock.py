"""llmock is the independent judge: it breaks the connection and grades what the client did."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.core.model import Done
from agent_kernel.providers import Anthropic, Key, Retrying, Watchdog, endpoint_of
from tests.providers.kit import REQUEST, collect, retries_of


async def judged(llmock: Any, strict: bool = True, **fields: Any) -> tuple[Any, Any]:
    """One request through the whole stack, on the real clock, then llmock's verdict."""
    url = f"{llmock.url}/anthropic"
    endpoint = endpoint_of(url, {"name": "anthropic", **fields})
    inner = Anthropic(url, Key("sk-" + "any", "ANTHROPIC_API_KEY"), endpoint=endpoint)
    provider = Retrying(Watchdog(inner))
    found = await collect(provider.stream(REQUEST))
    await provider.close()
    llmock.assert_resilient(strict=strict)
    return found


async def test_it_waits_as_long_as_it_is_told(llmock: Any) -> None:
    llmock.rate_limit(times=2, retry_after=0.5)
    events, error = await judged(llmock)
    assert error is None
    assert [retry.error for retry in retries_of(events)] == ["rate_limit"] * 2


async def test_it_backs_off_from_a_failing_server(llmock: Any) -> None:
    llmock.fail(503, times=3)
    events, error = await judged(llmock)
    assert error is None
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize("fault", ["truncate", "disconnect", "corrupt"])
async def test_it_takes_no_broken_stream_for_an_answer(llmock: Any, fault: str) -> None:
    getattr(llmock, fault)(after_chunks=3)
    # On a busy machine llmock takes a late retry for a second call and warns: counted here instead.
    events, error = await judged(llmock, strict=False)
    assert error is None
    assert len(retries_of(events)) == 1


async def test_it_does_not_sit_through_a_stall(llmock: Any) -> None:
    llmock.stall(seconds=5, after_chunks=3)
    events, error = await judged(llmock, first=2.0, gap=0.7)
    assert error is None
    assert [retry.error for retry in retries_of(events)] == ["stall"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_it_never_repeats_what_cannot_pass(llmock: Any, status: int) -> None:
    llmock.fail(status)
    _, error = await judged(llmock)
    assert error is not None
    assert not error.retryable
