"""Fixtures of the providers' tests: a loopback server that plays replies, and what a client saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent_kernel.core.model import Done, ProviderError, Request, Retry, StreamEvent
from agent_kernel.testing import MessagesServer
from agent_kernel.testing.plugin import messages_server
from tests.providers.kit import REQUEST, Time, anthropic_of, collect, done_of, retries_of, whole_of

__all__ = ["messages_server"]


@dataclass
class Seen:
    """What one request gave: its events, its error, the server's record, the waits."""

    events: list[StreamEvent]
    error: ProviderError | None
    server: MessagesServer
    time: Time = field(default_factory=Time)

    @property
    def done(self) -> Done:
        assert self.error is None, self.error
        return done_of(self.events)

    @property
    def retries(self) -> list[Retry]:
        return retries_of(self.events)


Ask = Callable[..., Any]


@pytest.fixture
def ask(messages_server: Callable[..., MessagesServer]) -> Ask:
    """Sends a request by the bare client to a server playing `replies`."""

    async def run(*replies: Any, request: Request = REQUEST, **keywords: Any) -> Seen:
        server = messages_server({"scenario": "test", "replies": list(replies)})
        provider = anthropic_of(server, **keywords)
        events, error = await collect(provider.stream(request))
        await provider.close()
        return Seen(events, error, server)

    return run


@pytest.fixture
def ask_on(messages_server: Callable[..., MessagesServer]) -> Ask:
    """Sends a request through retry and watchdog, on a clock that jumps."""

    async def run(*replies: Any, request: Request = REQUEST, **keywords: Any) -> Seen:
        server = messages_server({"scenario": "test", "replies": list(replies)})
        time = Time()
        provider = whole_of(server, time, **keywords)
        events, error = await collect(provider.stream(request))
        await provider.close()
        return Seen(events, error, server, time)

    return run
