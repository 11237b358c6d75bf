"""Fixtures of the kernel's tests: kernelspec, loopback model, kernels that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.kernel.install import install
from agent_kernel.testing import MessagesServer
from tests.kernel.live import Live, live


@pytest.fixture(scope="session", autouse=True)
def _kernelspec(_isolated: None) -> Path:
    """The kernelspec of this Python, in the tests' own Jupyter folder."""
    return install(user=True)


def env_of(server: MessagesServer) -> dict[str, str]:
    """The variables that send a kernel's requests to `server`."""
    return {
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "test-" + "key-not-a-secret",
        "ANTHROPIC_MODEL": "claude-sonnet-5-5",
    }


@pytest.fixture
def serve() -> Iterator[Callable[..., MessagesServer]]:
    """Start a loopback Messages API; all end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(MessagesServer(*args, **kwargs))


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Callable[..., Live]]:
    """Start a kernel in the test's folder, its model the given server (None = the demo)."""
    with ExitStack() as stack:

        def start(server: Any = None, name: str = "agent-kernel", **env: str) -> Live:
            given = env_of(server) if server is not None else {}
            return stack.enter_context(live(tmp_path, {**given, **env}, name))

        yield start
