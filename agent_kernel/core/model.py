"""Model: one request in, one message out: `Request`, the stream's events, the Provider protocol.

May not open a connection and may not know which provider answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from agent_kernel.core.messages import Json, Message, Thinking, Usage, dumps

ErrorKind = Literal[
    "rate_limit", "overloaded", "server", "timeout", "conflict", "connection", "stall", "protocol",
    "overflow", "request", "auth", "payment", "not_found", "cassette_miss", "cancelled",
]  # fmt: skip


RequestRepair = Literal["answer_open_calls", "drop_images"]


@dataclass(frozen=True, slots=True)
class SystemText:
    """One named block of the system prompt; the name is ours and is never sent."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """What the model is told of one tool: `schema` is JSON Schema of its input."""

    name: str
    description: str
    schema: Json = field(hash=False)
    defer_loading: bool = False
    more: Json = field(default_factory=dict, hash=False)  # fields of another harness's tool

    def wire(self) -> Json:
        """Return the tool as the Messages API writes it."""
        out: Json = {"name": self.name, "description": self.description}
        out["input_schema"] = self.schema
        if self.defer_loading:
            out["defer_loading"] = True
        return out | self.more


@dataclass(frozen=True, slots=True)
class Mark:
    """A cache breakpoint: the last block of `layer` ("system", index None = last) or of one
    message."""

    layer: Literal["system", "message"]
    index: int
    block: int
    ttl: Literal["5m", "1h"] = "5m"

    def wire(self) -> list[Any]:
        """Return the mark as the log writes it: [layer, index, block, ttl]."""
        return [self.layer, self.index, self.block, self.ttl]


@dataclass(frozen=True)
class Request:
    """One model request, whole: rebuilt from the log alone it gives the bytes that were sent.

    `params` holds further body fields (`thinking`, `tool_choice`, …) in the order they are sent;
    `max_tokens` is in tokens. There is no temperature: the API has none since SDK 2. `exact` holds
    the bytes another harness sent; the fields are then read from them.
    """

    model: str
    messages: tuple[Message, ...]
    system: tuple[SystemText, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    max_tokens: int = 8192
    params: Json = field(default_factory=dict, hash=False)
    betas: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    exact: bytes | None = field(default=None, repr=False)

    @cached_property
    def head(self) -> bytes:
        """The body's bytes before the messages: model, limits, parameters, tools, system."""
        out: Json = {"model": self.model, "max_tokens": self.max_tokens, "stream": True}
        out.update(self.params)
        if self.tools:
            out["tools"] = [tool.wire() for tool in self.tools]
        if self.system:
            out["system"] = self._system()
        return dumps(out)

    def _system(self) -> list[Json]:
        blocks: list[Json] = [{"type": "text", "text": part.text} for part in self.system]
        for mark in self.marks:
            if mark.layer == "system":
                blocks[mark.index]["cache_control"] = _control(mark)
        return blocks

    @cached_property
    def body(self) -> bytes:
        """The exact HTTP body: compact JSON, messages last so that a longer history is a longer
        prefix; `exact` when there is one."""
        if self.exact is not None:
            return self.exact
        marked = {m.index: m for m in self.marks if m.layer == "message"}
        parts = [
            _marked(message, marked[i]) if i in marked else message.bytes
            for i, message in enumerate(self.messages)
        ]
        return self.head[:-1] + b',"messages":[' + b",".join(parts) + b"]}"

    @cached_property
    def digest(self) -> str:
        """The first 32 hex digits of the body's SHA-256."""
        return hashlib.sha256(self.body).hexdigest()[:32]

    @property
    def prefix(self) -> bytes:
        """The body without cache marks: what consecutive requests share (house law 5)."""
        return replace(self, marks=(), exact=None).body


def _control(mark: Mark) -> Json:
    return {"type": "ephemeral"} if mark.ttl == "5m" else {"type": "ephemeral", "ttl": mark.ttl}


def _marked(message: Message, mark: Mark) -> bytes:
    wire = message.wire()
    block = dict(wire["content"][mark.block])
    block["cache_control"] = _control(mark)
    wire["content"][mark.block] = block
    return dumps(wire)


def place_marks(
    system: tuple[SystemText, ...], messages: tuple[Message, ...], previous: int | None
) -> tuple[Mark, ...]:
    """Return at most 3 breakpoints: last system block, last message, and `previous` again when far.

    `previous` is the message index marked by the last request; it is repeated when more than 18
    blocks came after it, because the server looks back only 20 blocks (models.md §8).
    """
    marks: list[Mark] = []
    if system:
        marks.append(Mark("system", len(system) - 1, 0))
    if previous is not None and 0 <= previous < len(messages) - 1:
        blocks_since = sum(len(m.content) for m in messages[previous + 1 :])
        if blocks_since > 18 and (at := _markable(messages[previous])) is not None:
            marks.append(Mark("message", previous, at))
    if messages and (last := _markable(messages[-1])) is not None:
        marks.append(Mark("message", len(messages) - 1, last))
    return tuple(marks)


def _markable(message: Message) -> int | None:
    """The last block that may carry a mark: never thinking, never empty text (V8)."""
    for at in range(len(message.content) - 1, -1, -1):
        block = message.content[at]
        empty = getattr(block, "text", "x") == ""
        if not isinstance(block, Thinking) and not empty:
            return at
    return None


# ---- what a stream yields ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attempt:
    """Attempt `n` (from 1) begins; `why` is "first" or the kind of the error before."""

    n: int
    why: str


@dataclass(frozen=True, slots=True)
class MessageStart:
    """The host began to answer; `usage` is what it says of the input so far."""

    usage: Usage
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of block `block`'s text, thinking or raw input JSON."""

    block: int
    kind: Literal["text", "thinking", "input"]
    text: str


@dataclass(frozen=True, slots=True)
class BlockStart:
    """Block `index` opened: for a tool call `name` and `id` are known already."""

    index: int
    kind: str
    name: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class BlockDone:
    """Block `index` is complete: its wire object."""

    index: int
    block: Json = field(hash=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """Attempt `n` failed and the next begins after `wait` seconds; `partial` never joins the
    surface."""

    n: int
    error: str
    status: int | None
    wait: float
    partial: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Stall:
    """No content event came for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BadInput:
    """A tool call whose input never became a JSON object: it is answered with an error, never
    run."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Done:
    """The one last event: the message, its usage and how it ended. `ttft`, `seconds` in seconds."""

    message: Message
    usage: Usage
    stop_reason: str | None
    request_id: str | None = None
    ttft: float | None = None
    seconds: float | None = None
    model: str = ""
    bad_inputs: tuple[BadInput, ...] = ()
    meta: Json = field(default_factory=dict, hash=False)


StreamEvent = Attempt | MessageStart | Delta | BlockStart | BlockDone | Retry | Stall | Done


class ProviderError(Exception):
    """A request that did not yield a message.

    `after` is the server's wait in seconds, or None; `repair` is what would mend the request.
    """

    def __init__(
        self,
        kind: ErrorKind,
        text: str,
        *,
        retryable: bool = False,
        overflow: bool = False,
        after: float | None = None,
        status: int | None = None,
        request_id: str | None = None,
        partial: Json | None = None,
        repair: RequestRepair | None = None,
    ) -> None:
        super().__init__(text)
        self.kind: ErrorKind = kind
        self.text = text
        self.retryable = retryable
        self.overflow = overflow
        self.after = after
        self.status = status
        self.request_id = request_id
        self.partial: Json = partial or {}
        self.repair: RequestRepair | None = repair

    def __str__(self) -> str:
        where = f" (status {self.status})" if self.status else ""
        return f"{self.kind}{where}: {self.text}"


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The limits of one model, in tokens; `assumed` says they were not given by a host or a
    table."""

    name: str
    window: int = 200_000
    max_output: int = 8_192
    thinking: Literal["none", "manual", "adaptive"] = "none"
    prefill: bool = False
    mid_system: bool = False
    deferred_tools: bool = False
    server_compaction: bool = False
    min_cacheable: int = 1_024
    breakpoints: int = 4
    lookback_blocks: int = 20
    assumed: bool = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a host can do, chosen by base_url (models.md §6); `first` and `gap` in seconds."""

    name: str
    auth: Literal["bearer", "x-api-key", "both"] = "both"
    betas: bool = False
    cache_control: bool = False
    count_tokens: bool = False
    models: bool = False
    thinking: bool = False
    tool_choice: bool = True
    first: float = 180.0
    gap: float = 90.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model a host lists; limits in tokens, None = not said."""

    id: str
    window: int | None = None
    max_output: int | None = None


class Provider(Protocol):
    """Anything that turns a Request into a stream: exactly one Done, last, or a ProviderError."""

    @property
    def endpoint(self) -> Endpoint:
        """What this host can do."""
        ...

    @property
    def name(self) -> str:
        """The provider's word in logs and footers: anthropic, demo, scripted."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Yield the events of one request; `aclose()` ends it within 100 ms."""
        ...

    async def count(self, request: Request) -> int | None:
        """Return the request's input tokens, or None when the host cannot say."""
        ...

    async def models(self) -> list[ModelInfo]:
        """Return the host's models, [] when it cannot say."""
        ...
