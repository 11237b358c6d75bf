"""Scripted: a provider that replays given answers, for tests, docs and demonstrations.

May not think: what is not in its script is an error that says so.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_kernel.core.messages import (
    Block,
    Message,
    Text,
    Thinking,
    ToolUse,
    Usage,
    canonical,
)
from agent_kernel.core.model import (
    BlockDone,
    BlockStart,
    Delta,
    Done,
    Endpoint,
    MessageStart,
    ModelInfo,
    ProviderError,
    Request,
    StreamEvent,
)

SCRIPTED = Endpoint("scripted", auth="bearer", cache_control=True, thinking=True, note="no host")
# One answer: a message, its text or blocks, a Done with usage and stop reason, an error to raise.
Answer = Message | str | Block | Sequence[Block] | Done | ProviderError


@dataclass
class Scripted:
    """Answers in order, or `answers(request)` when it is a function; `requests` is what was asked.

    `delay` seconds pass before each event; `name` goes to logs.
    """

    answers: Iterable[Answer] | Callable[[Request], Any]
    name: str = "scripted"
    endpoint: Endpoint = SCRIPTED
    delay: float = 0.0
    requests: list[Request] = field(default_factory=list)
    _left: Iterator[Answer] | None = field(default=None, init=False, repr=False)

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Yield the next answer's events. Raises ProviderError as scripted, or at its end."""
        self.requests.append(request)
        done = await self._next(request)
        for event in events_of(done):
            await asyncio.sleep(self.delay)
            yield event

    async def _next(self, request: Request) -> Done:
        if callable(self.answers):
            given = self.answers(request)
            if inspect.isawaitable(given):
                given = await given
        else:
            if self._left is None:
                self._left = iter(self.answers)
            given = next(self._left, None)
        if given is None:
            n = len(self.requests)
            raise ProviderError("request", f"the script has no answer {n}; add one to it")
        if isinstance(given, ProviderError):
            raise given
        done = done_of(given, request)
        return done if done.model else replace(done, model=request.model)

    async def count(self, request: Request) -> int | None:
        """Return a quarter of the body's length."""
        return len(request.prefix) // 4

    async def models(self) -> list[ModelInfo]:
        """Return nothing: a script has no models."""
        return []


def scripted(answers: Iterable[Answer] | Callable[[Request], Any], **keywords: Any) -> Scripted:
    """Return a provider that replays `answers`; see Scripted for the keywords."""
    return Scripted(answers, **keywords)


def done_of(answer: Any, request: Request) -> Done:
    """Return the Done of an answer; its usage is estimated where the answer says none."""
    if isinstance(answer, Done):
        return answer
    message = answer
    if isinstance(answer, Block):
        message = Message("assistant", (answer,))
    elif not isinstance(answer, Message):
        message = Message("assistant", answer)
    calls = any(isinstance(block, ToolUse) for block in message.content)
    usage = Usage(len(request.prefix) // 4, len(canonical(message.wire())) // 4, 0, 0, 0)
    return Done(message, usage, "tool_use" if calls else "end_turn", meta={"estimated": True})


def events_of(done: Done, chars: int = 24) -> Iterator[StreamEvent]:
    """Yield the events of a finished message, texts in pieces of `chars`, its Done last."""
    yield MessageStart(replace(done.usage, output=None), done.request_id)
    for index, block in enumerate(done.message.content):
        wire = block.wire()
        name, id = str(wire.get("name") or ""), str(wire.get("id") or "")
        yield BlockStart(index, str(wire.get("type")), name, id)
        for piece in _pieces(block, chars):
            yield Delta(index, _kind(block), piece)
        yield BlockDone(index, wire)
    yield done


def _kind(block: Block) -> Any:
    if isinstance(block, ToolUse):
        return "input"
    return "thinking" if isinstance(block, Thinking) else "text"


def _pieces(block: Block, chars: int) -> Iterator[str]:
    text = ""
    if isinstance(block, Text):
        text = block.text
    elif isinstance(block, Thinking):
        text = block.thinking
    elif isinstance(block, ToolUse):
        text = json.dumps(block.input, ensure_ascii=False)
    for at in range(0, len(text), chars):
        yield text[at : at + chars]
