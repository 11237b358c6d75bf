"""Every provider keeps the one contract: scripted, demo, and the real client over the loopback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.core.messages import Text, ToolUse
from agent_kernel.core.model import Provider, ProviderError
from agent_kernel.providers import Demo, Gate, Retrying, Watchdog, scripted
from agent_kernel.testing import MessagesServer
from agent_kernel.testing.contract import ProviderContract
from tests.providers.kit import anthropic_of

BLOCKS = [Text("I read the notes."), ToolUse("toolu_1", "read", {"path": "notes.md"})]
ANSWER = {"content": [block.wire() for block in BLOCKS]}


class TestScripted(ProviderContract):
    def answering(self) -> Provider:
        return scripted([BLOCKS])

    def failing(self) -> Provider:
        return scripted([ProviderError("overloaded", "busy", retryable=True)])

    def slow(self) -> Provider:
        return scripted([BLOCKS], delay=0.5)


class TestDemo(ProviderContract):
    def answering(self) -> Provider:
        return Demo()

    def slow(self) -> Provider:
        return Demo(delay=0.5)


class TestAnthropic(ProviderContract):
    @pytest.fixture(autouse=True)
    def _serve(self, messages_server: Callable[..., MessagesServer]) -> None:
        self.serve = messages_server

    def _of(self, **reply: Any) -> Provider:
        server = self.serve({"replies": [reply], "otherwise": "repeat"})
        return anthropic_of(server)

    def answering(self) -> Provider:
        return self._of(message=ANSWER)

    def failing(self) -> Provider:
        return self._of(fault="bad_request")

    def slow(self) -> Provider:
        return self._of(message=ANSWER, gap_ms=2000)


class TestWrapped(TestAnthropic):
    """The wrappers keep the contract of what they wrap."""

    def answering(self) -> Provider:
        return Retrying(Gate(Watchdog(super().answering())))

    def failing(self) -> Provider:
        return Retrying(Gate(Watchdog(super().failing())))

    def slow(self) -> Provider:
        return Retrying(Gate(Watchdog(super().slow())))
