"""DeepSeek requests: the Messages API requests of a v3 or v4 log, rebuilt from its events alone.

May not guess: a request's own parts are what the log's surface and last header say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_kernel.transcripts.fields import count, items, mapping, text

Json = dict[str, Any]
_ANSWERS = ("assistant/message", "assistant/attempt")


def requests(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Json]]:
    """Yield (seq of the answer, request) for each main call, in order.

    A request is {"model", "max_tokens", "system", "tools", "messages"} as the harness sent it; one
    that failed is there when the log has its attempt. Source: genuine logs of 0.2.1rc2.
    """
    surface: list[Mapping[str, Any]] = []
    header: Mapping[str, Any] = {}
    for event in events:
        kind = text(event.get("type"))
        if kind == "request/header":
            header = mapping(mapping(event.get("data")).get("header"))
        elif kind in _ANSWERS:
            yield count(event.get("seq")) or 0, _request(header, surface)
        if event.get("surfaceOp"):
            surface = _joined(surface, event)


def _joined(surface: list[Mapping[str, Any]], event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the surface with an event at its end, or in the place of the span it names."""
    op = mapping(event.get("surfaceOp"))
    first, last = (_at(surface, op.get(name)) for name in ("startSeq", "endSeq"))
    if first is None or last is None:
        return [*surface, event]
    return [*surface[: min(first, last)], event, *surface[max(first, last) + 1 :]]


def _at(surface: list[Mapping[str, Any]], seq: object) -> int | None:
    return next((at for at, event in enumerate(surface) if event.get("seq") == seq), None)


def _request(header: Mapping[str, Any], surface: Iterable[Mapping[str, Any]]) -> Json:
    config, system, messages = mapping(header.get("config")), [], list[Json]()
    for event in surface:
        said = _said(event)
        if said.get("role") == "system":
            system += [str(block.get("text")) for block in items(said.get("content"))]
            continue
        role = "assistant" if said.get("role") == "assistant" else "user"
        content = list(_blocks(said))
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        elif content:
            messages.append({"role": role, "content": content})
    return {
        "model": config.get("model"),
        "max_tokens": config.get("maxTokens"),
        "system": "\n\n".join(system),
        "tools": [_tool(mapping(each)) for each in items(header.get("tools"))],
        "messages": messages,
    }


def _said(event: Mapping[str, Any]) -> Mapping[str, Any]:
    data = mapping(event.get("data"))
    return mapping(data.get("message")) or data


def _tool(given: Mapping[str, Any]) -> Json:
    schema = given.get("parameters", given.get("inputSchema"))
    return {
        "name": given.get("name"), "description": given.get("description"), "input_schema": schema
    }  # fmt: skip


def _blocks(said: Mapping[str, Any]) -> Iterator[Json]:
    """Yield a message's blocks in the API's form."""
    if said.get("role") == "tool":
        yield {
            "type": "tool_result",
            "tool_use_id": said.get("toolCallId"),
            "content": said.get("content"),
            "is_error": said.get("isError") is True,
        }
        return
    state = mapping(mapping(said.get("source")).get("replayState"))
    replayed = items(state.get("blocks"))
    for at, block in enumerate(items(said.get("content"))):
        kept = mapping(replayed[at]) if at < len(replayed) else {}
        match block.get("type"):
            case "reasoning":
                signed = {"signature": kept["signature"]} if "signature" in kept else {}
                yield {"type": "thinking", "thinking": block.get("text"), **signed}
            case "tool-call":
                given = json.loads(block.get("arguments") or "{}")
                name = block.get("name")
                yield {"type": "tool_use", "id": block.get("id"), "name": name, "input": given}
            case _:
                yield dict(block)
