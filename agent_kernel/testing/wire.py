"""Wire: messages as the Messages API's events and bytes.

May not open a socket and may not decide what is answered.
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
Event = tuple[str, Json]


def text_message(text: str, stop_reason: str = "end_turn") -> Json:
    """Return a message object that holds one text."""
    return {"content": [{"type": "text", "text": text}], "stop_reason": stop_reason}


def finished(message: Json, n: int, model: str, usage: Json) -> Json:
    """Return `message` with what the API always sends: id, role, model, stop reason, usage.

    What the message says itself wins, field by field in `usage`; tool calls without an id get one.
    """
    content = []
    for at, block in enumerate(message.get("content", [])):
        if block.get("type") == "tool_use" and "id" not in block:
            block = {**block, "id": f"toolu_{n:06d}_{at}"}
        content.append(block)
    calls = any(block.get("type") == "tool_use" for block in content)
    out = {
        "id": f"msg_{n:06d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
    }
    given = message.get("usage", {})
    said = given if given is None else {**usage, **given}
    return {**out, **message, "content": content, "usage": said}


def events_of(message: Json, chars: int = 24, delta_usage: Json | None = None) -> list[Event]:
    """Return the events of a finished message; texts and inputs come in pieces of `chars`.

    `delta_usage` replaces the usage of message_delta (default: the message's output tokens).
    """
    usage = message.get("usage")
    begun = None if usage is None else {**usage, "output_tokens": 1}
    shell = {**message, "content": [], "stop_reason": None, "usage": begun}
    out: list[Event] = [("message_start", {"type": "message_start", "message": shell})]
    for index, block in enumerate(message["content"]):
        out += block_events(index, block, chars)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": message.get("stop_sequence")}
    last: Json = {"type": "message_delta", "delta": delta}
    if delta_usage is not None:
        last["usage"] = delta_usage
    else:
        last["usage"] = usage and {"output_tokens": usage.get("output_tokens")}
    return [*out, ("message_delta", last), ("message_stop", {"type": "message_stop"})]


def block_events(index: int, block: Json, chars: int = 24) -> list[Event]:
    """Return start, deltas and stop of one block; an unknown block comes whole at its start."""
    start, deltas = _opened(block, chars)
    out = [_event("content_block_start", index, content_block=start)]
    out += [_event("content_block_delta", index, delta=delta) for delta in deltas]
    out.append(_event("content_block_stop", index))
    return out


def _event(name: str, index: int, **more: Any) -> Event:
    return (name, {"type": name, "index": index, **more})


def _opened(block: Json, chars: int) -> tuple[Json, list[Json]]:
    match block.get("type"):
        case "text":
            texts = pieces(block.get("text", ""), chars)
            return {**block, "text": ""}, [{"type": "text_delta", "text": t} for t in texts]
        case "thinking":
            texts = pieces(block.get("thinking", ""), chars)
            deltas = [{"type": "thinking_delta", "thinking": t} for t in texts]
            deltas.append({"type": "signature_delta", "signature": block.get("signature", "")})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use":
            text = json.dumps(block.get("input", {}), ensure_ascii=False)
            deltas = [
                {"type": "input_json_delta", "partial_json": t} for t in ["", *pieces(text, chars)]
            ]
            return {**block, "input": {}}, deltas
    return block, []


def pieces(text: str, size: int) -> list[str]:
    """Return `text` cut into pieces of `size` characters, [] for an empty text."""
    step = max(size, 1)
    return [text[i : i + step] for i in range(0, len(text), step)]


def sse(event: Event) -> bytes:
    """Return the bytes of one server-sent event."""
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


PING: Event = ("ping", {"type": "ping"})


def error_body(kind: str, text: str, request_id: str) -> Json:
    """Return the API's JSON error object."""
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": request_id}
