"""Plugin: pytest fixtures for everybody who tests against the loopback server.

May not do anything unless a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_kernel.testing.server import MessagesServer

Serve = Callable[..., MessagesServer]


@pytest.fixture
def messages_server() -> Iterator[Serve]:
    """A function that starts a MessagesServer with its arguments; all are stopped at the end."""
    started: list[MessagesServer] = []

    def serve(*args: Any, **keywords: Any) -> MessagesServer:
        server = MessagesServer(*args, **keywords).start()
        started.append(server)
        return server

    yield serve
    for server in started:
        server.stop()
