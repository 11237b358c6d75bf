"""Parts: wire objects and typed blocks made to look alike, for reading only.

May not judge what it reads and never raises: what has no readable shape gets an empty kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_kernel.core.messages import Image, Message, Raw, Text, Thinking, ToolResult, ToolUse

# (kind, id, what the kind's rule looks at, the wire object when there is one)
Part = tuple[str, str, Any, Mapping[str, Any] | None]


def _part(block: Any) -> Part:
    if isinstance(block, Text):
        return ("text", "", block.text, None)
    if isinstance(block, ToolUse):
        return ("tool_use", block.id, block.name, None)
    if isinstance(block, ToolResult):
        return ("tool_result", block.tool_use_id, block.content, None)
    if isinstance(block, Thinking):
        return ("thinking", "", block.signature, None)
    if isinstance(block, Raw):
        block = block.data
    if isinstance(block, Mapping):
        return _wire_part(block)
    return ("image", "", None, None) if isinstance(block, Image) else ("", "", None, None)


def _wire_part(wire: Mapping[str, Any]) -> Part:
    kind = wire.get("type")
    if not isinstance(kind, str):
        return ("", "", None, wire)
    match kind:
        case "text":
            return (kind, "", wire.get("text"), wire)
        case "tool_use" | "server_tool_use":
            return (kind, word(wire.get("id")), word(wire.get("name")), wire)
        case "thinking":
            return (kind, "", wire.get("signature"), wire)
        case "tool_reference":
            return (kind, "", word(wire.get("tool_name")), wire)
    return (kind, word(wire.get("tool_use_id")), wire.get("content"), wire)


def word(value: Any) -> str:
    """Return `value` when it is a string, else the empty one."""
    return value if isinstance(value, str) else ""


def parts_of(content: Any) -> list[Part] | None:
    """Return the parts of a content: a string is one text; None when it is neither."""
    if isinstance(content, str):
        return [("text", "", content, None)]
    if isinstance(content, (list, tuple)):
        return [_part(block) for block in content]
    return None


def role_of(message: Any) -> str:
    """Return the role of a message, empty when it has none that exists."""
    if isinstance(message, Message):
        return message.role
    role = message.get("role") if isinstance(message, Mapping) else None
    return role if role in ("user", "assistant", "system") else ""


def content_of(message: Any) -> Any:
    """Return the content of a message, None when it has none."""
    if isinstance(message, Message):
        return message.content
    return message.get("content") if isinstance(message, Mapping) else None


def use_ids(messages: Sequence[Any]) -> Iterable[str]:
    """Yield the ids of the tool calls in `messages`, in order."""
    for message in messages:
        if role_of(message) == "assistant":
            for kind, id, _, _ in parts_of(content_of(message)) or ():
                if kind == "tool_use":
                    yield id


def run_before(messages: Sequence[Any], start: int) -> int:
    """Return where the assistant run begins whose answers may still come at `start`."""
    at = min(max(start, 0), len(messages))
    if at == 0 or at != start:
        return at
    while at > 0 and role_of(messages[at - 1]) != "assistant":
        at -= 1
    while at > 0 and role_of(messages[at - 1]) == "assistant":
        at -= 1
    return at
