"""Contract: what every provider keeps, as a class of tests to inherit.

May not know which provider it tests: a subclass says how to make one that answers, one that fails
and one that is slow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from agent_kernel.core.messages import Message, ToolUse
from agent_kernel.core.model import (
    BlockDone,
    BlockStart,
    Delta,
    Done,
    ModelInfo,
    ModelProfile,
    Provider,
    ProviderError,
    Request,
    StreamEvent,
    SystemText,
    ToolSchema,
)
from agent_kernel.core.validate import validate_messages

CLOSE_WITHIN = 0.1  # seconds that closing a stream may take


class ProviderContract:
    """Inherit it in a test module, with `answering`, `failing` and `slow` made for the provider."""

    def answering(self) -> Provider:
        """Return a provider that answers `request()` with a text and a tool call."""
        raise NotImplementedError

    def failing(self) -> Provider | None:
        """Return a provider that raises, None when this kind never does."""
        return None

    def slow(self) -> Provider:
        """Return a provider whose stream takes seconds."""
        raise NotImplementedError

    def request(self) -> Request:
        """Return the request all tests send."""
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        tool = ToolSchema("read", "Read a file.", schema)
        prompt = Message("user", "Read notes.md")
        return Request("a-model", (prompt,), (SystemText("identity", "You help."),), (tool,))

    def events(self) -> list[StreamEvent]:
        """Return all events of one answer."""

        async def run() -> list[StreamEvent]:
            async with _closing(self.answering()) as provider:
                return [event async for event in provider.stream(self.request())]

        return asyncio.run(run())

    def test_it_has_a_name_and_an_endpoint(self) -> None:
        provider = self.answering()
        assert provider.name
        assert provider.endpoint.name
        assert provider.endpoint.first > 0
        assert provider.endpoint.gap > 0

    def test_exactly_one_done_comes_and_it_is_last(self) -> None:
        events = self.events()
        assert [isinstance(event, Done) for event in events] == [False] * (len(events) - 1) + [True]

    def test_blocks_open_grow_and_end_in_order(self) -> None:
        opened: list[int] = []
        closed: list[int] = []
        for event in self.events():
            if isinstance(event, BlockStart):
                assert event.index == len(opened) == len(closed)
                opened.append(event.index)
            elif isinstance(event, Delta):
                assert event.block == opened[-1]
                assert event.block not in closed
            elif isinstance(event, BlockDone):
                closed.append(event.index)
        assert opened == closed

    def test_deltas_join_to_the_text_of_their_block(self) -> None:
        joined: dict[int, str] = {}
        for event in self.events():
            if isinstance(event, Delta) and event.kind == "text":
                joined[event.block] = joined.get(event.block, "") + event.text
            elif isinstance(event, BlockDone) and event.block.get("type") == "text":
                assert joined[event.index] == event.block["text"]
        assert joined

    def test_the_message_is_the_blocks_that_were_shown(self) -> None:
        events = self.events()
        blocks = [event.block for event in events if isinstance(event, BlockDone)]
        done = cast("Done", events[-1])
        assert [block.wire() for block in done.message.content] == blocks
        assert done.message.role == "assistant"

    def test_a_call_has_an_id_a_name_and_an_object_as_input(self) -> None:
        done = cast("Done", self.events()[-1])
        calls = [block for block in done.message.content if isinstance(block, ToolUse)]
        assert calls
        assert all(call.id and call.name and isinstance(call.input, dict) for call in calls)
        assert done.stop_reason == "tool_use"

    def test_the_answer_may_be_sent_back(self) -> None:
        request, done = self.request(), cast("Done", self.events()[-1])
        messages = [*request.messages, done.message]
        profile = ModelProfile(done.model, thinking="adaptive")
        found = validate_messages(messages, profile, tools=request.tools, sendable=False)
        assert [v for v in found if v.severity == "api"] == []

    def test_usage_is_known_and_no_bucket_is_negative(self) -> None:
        usage = cast("Done", self.events()[-1]).usage
        assert usage.known
        assert all(value is None or value >= 0 for value in usage.wire().values())

    def test_the_request_stays_as_it_was(self) -> None:
        async def run() -> tuple[bytes, bytes]:
            request = self.request()
            before = request.body
            async with _closing(self.answering()) as provider:
                async for _ in provider.stream(request):
                    pass
            return before, request.body

        before, after = asyncio.run(run())
        assert before == after

    def test_what_raises_yields_no_done(self) -> None:
        provider = self.failing()
        if provider is None:
            return

        async def run() -> tuple[list[StreamEvent], ProviderError | None]:
            events: list[StreamEvent] = []
            async with _closing(provider):
                try:
                    async for event in provider.stream(self.request()):
                        events += [event]
                except ProviderError as error:
                    return events, error
            return events, None

        events, error = asyncio.run(run())
        assert error is not None
        assert error.text
        assert not any(isinstance(event, Done) for event in events)

    def test_closing_a_stream_takes_less_than_100_ms(self) -> None:
        async def run() -> float:
            async with _closing(self.slow()) as provider:
                stream = provider.stream(self.request())
                await anext(stream)
                begun = time.perf_counter()
                await stream.aclose()
                return time.perf_counter() - begun

        assert asyncio.run(run()) < CLOSE_WITHIN

    def test_a_cancelled_stream_ends_in_less_than_100_ms(self) -> None:
        async def run() -> float:
            async with _closing(self.slow()) as provider:
                stream = provider.stream(self.request())
                await anext(stream)
                task = asyncio.ensure_future(_drain(stream))
                await asyncio.sleep(0.05)
                begun = time.perf_counter()
                task.cancel()
                await asyncio.wait({task})
                return time.perf_counter() - begun

        assert asyncio.run(run()) < CLOSE_WITHIN

    def test_a_count_is_tokens_or_nothing(self) -> None:
        async def run() -> int | None:
            async with _closing(self.answering()) as provider:
                return await provider.count(self.request())

        count = asyncio.run(run())
        assert count is None or count > 0

    def test_models_are_ids_with_their_limits(self) -> None:
        async def run() -> list[ModelInfo]:
            async with _closing(self.answering()) as provider:
                return await provider.models()

        for info in asyncio.run(run()):
            assert isinstance(info, ModelInfo)
            assert info.id
            assert info.window is None or info.window > 0


@asynccontextmanager
async def _closing(provider: Provider) -> AsyncIterator[Provider]:
    """The provider, its connections closed at the end where it has any."""
    yield provider
    close = getattr(provider, "close", None)
    if close is not None:
        await close()


async def _drain(stream: AsyncGenerator[StreamEvent]) -> None:
    async for _ in stream:
        pass
