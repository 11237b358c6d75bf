"""Messages: the frozen values a model is sent and answers with, in the Messages API's own shapes.

May not know about logs, providers or tools; a block it has no class for travels as `Raw`,
unchanged.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Role = Literal["user", "assistant", "system"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A text block."""

    text: str

    def wire(self) -> Json:
        """Return the block as the Messages API writes it."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class Thinking:
    """A thinking block; `signature` is the provider's and is sent back unchanged."""

    thinking: str
    signature: str

    def wire(self) -> Json:
        """Return the block as the Messages API writes it."""
        return {"type": "thinking", "thinking": self.thinking, "signature": self.signature}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A model's call of a client tool: `input` is read, never changed; tools get a copy."""

    id: str
    name: str
    input: Json = field(hash=False)

    def wire(self) -> Json:
        """Return the block as the Messages API writes it."""
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.input}


@dataclass(frozen=True, slots=True)
class Image:
    """An image by its base64 bytes and media type (image/png, image/jpeg, image/gif,
    image/webp)."""

    media_type: str
    data: str

    @classmethod
    def of(cls, media_type: str, raw: bytes) -> Image:
        """Return the image block of `raw` bytes."""
        return cls(media_type, base64.b64encode(raw).decode("ascii"))

    def wire(self) -> Json:
        """Return the block as the Messages API writes it."""
        source = {"type": "base64", "media_type": self.media_type, "data": self.data}
        return {"type": "image", "source": source}


@dataclass(frozen=True, slots=True)
class Raw:
    """A block the core has no type for (`redacted_thinking`, `server_tool_use`, …), kept
    verbatim."""

    data: Json = field(hash=False)

    def wire(self) -> Json:
        """Return the block exactly as it came."""
        return self.data


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one `ToolUse`, by its id."""

    tool_use_id: str
    content: tuple[Block, ...]
    is_error: bool = False

    def wire(self) -> Json:
        """Return the block as the Messages API writes it; `content` is always a list."""
        out: Json = {"type": "tool_result", "tool_use_id": self.tool_use_id}
        out["content"] = [block.wire() for block in self.content]
        if self.is_error:
            out["is_error"] = True
        return out


Block = Text | Thinking | ToolUse | ToolResult | Image | Raw


def block_of(wire: Mapping[str, Any]) -> Block:
    """Return the typed block of a wire object, or `Raw` when a typed one could not give it back
    equal."""
    made = _typed(wire)
    if made is not None and made.wire() == wire:
        return made
    return Raw(copy.deepcopy(dict(wire)))


def _typed(wire: Mapping[str, Any]) -> Block | None:
    match wire.get("type"):
        case "text" if isinstance(wire.get("text"), str):
            return Text(wire["text"])
        case "thinking" if isinstance(wire.get("signature"), str):
            return Thinking(wire.get("thinking", ""), wire["signature"])
        case "tool_use" if isinstance(wire.get("input"), dict):
            return ToolUse(str(wire.get("id")), str(wire.get("name")), wire["input"])
        case "tool_result" if isinstance(wire.get("content"), list):
            content = tuple(block_of(b) for b in wire["content"])
            return ToolResult(str(wire.get("tool_use_id")), content, bool(wire.get("is_error")))
        case "image" if isinstance(wire.get("source"), dict):
            source = wire["source"]
            return Image(str(source.get("media_type")), str(source.get("data")))
    return None


def blocks_of(content: str | Iterable[Any]) -> tuple[Block, ...]:
    """Return the blocks of a message's content: a string, wire objects, blocks, or a mix of the
    two."""
    if isinstance(content, str):
        return (Text(content),)
    items: Iterable[Any] = content
    return tuple(b if isinstance(b, Block) else block_of(b) for b in items)


def text_of(content: Iterable[Block]) -> str:
    """Return the readable text of blocks joined by newlines; images and thinking are left out."""
    parts: list[str] = []
    for block in content:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, ToolResult):
            parts.append(text_of(block.content))
        elif isinstance(block, Raw) and isinstance(block.data.get("text"), str):
            parts.append(block.data["text"])
    return "\n".join(parts)


def dumps(value: Any) -> bytes:
    """Return compact JSON bytes, ASCII-escaped, keys in given order. Raises ValueError on NaN."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode("ascii")


def canonical(value: Any) -> bytes:
    """Return JSON bytes with sorted keys and no blanks: equal values give equal bytes."""
    text = json.dumps(
        value, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True
    )
    return text.encode("ascii")


class Message:
    """One message: a role and its blocks. Frozen; its wire bytes are made once and kept."""

    __slots__ = ("_bytes", "content", "role")

    role: Role
    content: tuple[Block, ...]
    _bytes: bytes | None

    def __init__(self, role: Role, content: str | Sequence[Block]) -> None:
        object.__setattr__(self, "role", role)
        object.__setattr__(self, "content", blocks_of(content))
        object.__setattr__(self, "_bytes", None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Message is frozen: {name!r} cannot be set; make a new Message")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Message is frozen: {name!r} cannot be deleted; make a new Message")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self.role == other.role and self.content == other.content

    def __hash__(self) -> int:
        return hash((self.role, self.content))

    def __repr__(self) -> str:
        return f"Message(role={self.role!r}, content={self.content!r})"

    def wire(self) -> Json:
        """Return the message as the Messages API writes it; `content` is always a list."""
        return {"role": self.role, "content": [block.wire() for block in self.content]}

    @property
    def bytes(self) -> bytes:
        """The compact JSON bytes of `wire()`, made at first use."""
        if self._bytes is None:
            object.__setattr__(self, "_bytes", dumps(self.wire()))
        made = self._bytes
        assert made is not None
        return made


def message_of(wire: Mapping[str, Any]) -> Message:
    """Return the Message of a wire object. Raises ValueError when role or content is missing."""
    role, content = wire.get("role"), wire.get("content")
    if role not in ("user", "assistant", "system") or not isinstance(content, (str, list)):
        raise ValueError(f"message {dict(wire)!r:.120} has no role or content; give both")
    return Message(role, blocks_of(content))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request in five buckets; None = the provider did not say. `input` excludes
    cache."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the sum by bucket; unknown + known = known, so a sum may be a lower bound."""
        return Usage(*(_plus(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))

    @property
    def context(self) -> int:
        """Tokens the model was given: input + both writes + read, unknown counted as none."""
        parts = (self.input, self.cache_read, self.cache_write_5m, self.cache_write_1h)
        return sum(part or 0 for part in parts)

    @property
    def total(self) -> int:
        """All tokens, unknown counted as none."""
        return self.context + (self.output or 0)

    @property
    def known(self) -> bool:
        """True when the provider said at least input and output."""
        return self.input is not None and self.output is not None

    def wire(self) -> Json:
        """Return the five buckets by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def of(cls, wire: Mapping[str, Any] | None) -> Usage:
        """Return Usage from the log's own five buckets; missing ones are None."""
        return cls(**{f.name: (wire or {}).get(f.name) for f in fields(cls)})

    @classmethod
    def of_api(cls, wire: Mapping[str, Any] | None) -> Usage:
        """Return Usage from the Messages API's `usage`; a write sum without a split counts as 5
        m."""
        w = wire or {}
        split = w.get("cache_creation") or {}
        five, hour = split.get("ephemeral_5m_input_tokens"), split.get("ephemeral_1h_input_tokens")
        if five is None and hour is None:
            five = w.get("cache_creation_input_tokens")
        return cls(
            w.get("input_tokens"),
            w.get("output_tokens"),
            w.get("cache_read_input_tokens"),
            five,
            hour,
        )


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
