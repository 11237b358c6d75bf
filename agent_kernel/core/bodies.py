"""Bodies: a request's exact bytes, as another harness wrote them, read as a Request.

May not change a byte of them: what has no typed shape stays in `exact`, `params` or a tool's
`more`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_kernel.core.events import AssistantMessage, Attachment, SurfaceEvent, UserMessage
from agent_kernel.core.messages import (
    Block,
    Json,
    Message,
    Text,
    ToolResult,
    Usage,
    block_of,
    blocks_of,
)
from agent_kernel.core.model import Mark, Request, SystemText, ToolSchema
from agent_kernel.core.surface import merged

_OWN = ("model", "max_tokens", "messages", "system", "tools")
_TOOL = ("name", "description", "input_schema", "defer_loading")
# What of a block counts; the rest (`caller`, nulls) comes and goes as clients echo an answer.
_FIELDS = {
    "text": ("type", "text", "citations"),
    "tool_use": ("type", "id", "name", "input"),
    "thinking": ("type", "thinking", "signature"),
}


def request_of(exact: bytes) -> Request:
    """Return the request a body is, its bytes in `exact`.

    Cache marks of system and messages become `marks`. Raises ValueError when it is no JSON object
    with a list of messages.
    """
    data = json.loads(exact)
    if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
        raise ValueError("the body is no JSON object with a list of messages")
    marks: list[Mark] = []
    params = {key: value for key, value in data.items() if key not in _OWN}
    if params.pop("stream", False) is not True:
        params["stream"] = False
    limit = data.get("max_tokens")
    return Request(
        model=str(data.get("model") or ""),
        messages=tuple(_messages(data["messages"], marks)),
        system=tuple(_system(data.get("system"), marks)),
        tools=tuple(_tool(tool) for tool in data.get("tools") or () if isinstance(tool, dict)),
        max_tokens=limit if isinstance(limit, int) else 0,
        params=params,
        marks=tuple(marks),
        exact=exact,
    )


def _messages(wires: Iterable[Any], marks: list[Mark]) -> Iterator[Message]:
    for at, wire in enumerate(wires):
        role = wire.get("role") if isinstance(wire, Mapping) else None
        if role not in ("user", "assistant", "system"):
            raise ValueError(f"message {at} has no role of the Messages API")
        content = wire.get("content")
        marks += [
            Mark("message", at, place, _ttl(block))
            for place, block in enumerate(content if isinstance(content, list) else ())
            if isinstance(block, Mapping) and block.get("cache_control")
        ]
        yield Message(role, _blocks(content))


def _blocks(content: Any) -> tuple[Block, ...]:
    if not isinstance(content, list):
        return blocks_of(content if isinstance(content, str) else "")
    return tuple(_block(b) if isinstance(b, Mapping) else Text(str(b)) for b in content)


def _block(wire: Mapping[str, Any]) -> Block:
    if wire.get("type") == "tool_result":
        inner = _blocks(wire.get("content"))
        return ToolResult(str(wire.get("tool_use_id")), inner, wire.get("is_error") is True)
    fields = _FIELDS.get(str(wire.get("type")))
    if fields is None:
        return block_of({key: value for key, value in wire.items() if key != "cache_control"})
    return block_of({key: wire[key] for key in fields if wire.get(key) is not None})


def _system(system: Any, marks: list[Mark]) -> Iterator[SystemText]:
    blocks = [{"text": system}] if isinstance(system, str) else system or ()
    for at, block in enumerate(block for block in blocks if isinstance(block, Mapping)):
        if block.get("cache_control"):
            marks.append(Mark("system", at, 0, _ttl(block)))
        yield SystemText(f"system {at}", str(block.get("text") or ""))


def _ttl(block: Mapping[str, Any]) -> Any:
    control = block["cache_control"]
    return "1h" if isinstance(control, Mapping) and control.get("ttl") == "1h" else "5m"


def _tool(wire: Json) -> ToolSchema:
    return ToolSchema(
        str(wire.get("name") or ""),
        str(wire.get("description") or ""),
        wire.get("input_schema") or {},
        wire.get("defer_loading") is True,
        {key: value for key, value in wire.items() if key not in _TOOL},
    )


def header_fields(request: Request) -> Json:
    """Return what a request/header says of a request, as JSON fields."""
    return {
        "model": request.model,
        "params": request.params,
        "system": [{"name": part.name, "text": part.text} for part in request.system],
        "tools": [tool.wire() for tool in request.tools],
        "beta": list(request.betas),
    }


def normal(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return messages as a surface would send them: neighbours merged, blank texts left out, a
    batch's results first and in the order of its calls."""
    return merged(map(_event, messages))


def _event(message: Message) -> SurfaceEvent:
    match message.role:
        case "assistant":
            return AssistantMessage.model_construct(
                content=message.content, model="", usage=Usage(), meta={}
            )
        case "system":
            meta = {"role": "system"}
            return Attachment.model_construct(
                kind="context", label="system", content=message.content, meta=meta
            )
        case _:
            return UserMessage.model_construct(content=message.content, meta={})
