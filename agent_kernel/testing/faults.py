"""Faults: every way in which an answer goes wrong, as the steps that send it.

May not open a socket; a step is bytes to send, a wait, or a reset of the connection.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agent_kernel.testing.wire import (
    PING,
    Event,
    Json,
    block_events,
    error_body,
    events_of,
    sse,
    text_message,
)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is sent for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset (RST): what is not read yet is lost."""


Step = bytes | Wait | Reset


@dataclass(frozen=True, slots=True)
class Plan:
    """One HTTP answer: status, headers, steps; `stream` sends them as server-sent events."""

    name: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    stream: bool = True


# fault -> (status, error type, message); the texts follow the API's own
HTTP: dict[str, tuple[int, str, str]] = {
    "rate_limit": (429, "rate_limit_error", "This request would exceed your rate limit."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "server": (500, "api_error", "Internal server error"),
    "overflow": (
        400,
        "invalid_request_error",
        "prompt is too long: 212345 tokens > 200000 maximum",
    ),
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "payment": (402, "billing_error", "Your credit balance is too low to access the API."),
    "forbidden": (403, "permission_error", "Your API key may not use this resource."),
    "not_found": (404, "not_found_error", "model: {model}"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
    "bad_request": (400, "invalid_request_error", "messages: bad request"),
    "bad_image": (
        400,
        "invalid_request_error",
        "messages.0.content.1.image.source.base64.data: image exceeds 5 MB maximum",
    ),
}


def http_plan(reply: Json, model: str, request_id: str) -> Plan:
    """Return the answer of an HTTP fault; `status`, `type`, `message`, `headers` may be given."""
    name = reply["fault"]
    status, kind, text = HTTP[name]
    text = reply.get("message") or text.replace("{model}", model)
    body = error_body(reply.get("type", kind), text, request_id)
    headers = {k.lower(): str(v) for k, v in reply.get("headers", {}).items()}
    for option, header in (("retry_after", "retry-after"), ("retry_after_ms", "retry-after-ms")):
        if option in reply:
            headers[header] = str(reply[option])
    data = json.dumps(body).encode()
    return Plan(name, reply.get("status", status), headers, (data,), stream=False)


def stream_plan(reply: Json, message: Json) -> Plan:
    """Return the streamed answer of `message`, with the reply's fault and timing."""
    name = reply.get("fault", "")
    headers = {k.lower(): str(v) for k, v in reply.get("headers", {}).items()}
    if name == "bad_gzip":
        headers["content-encoding"] = "gzip"
    shaped = SHAPES.get(name, _as_it_is)(reply, message)
    steps = ENDS.get(name, _whole)(reply, shaped)
    return Plan(name or "message", 200, headers, tuple(_timed(reply, steps)))


def _timed(reply: Json, steps: Iterable[Step]) -> Iterable[Step]:
    gap, size = reply.get("gap_ms", 0) / 1000, reply.get("split_bytes", 0)
    for step in steps:
        if not isinstance(step, bytes):
            yield step
            continue
        cuts = range(0, len(step), size) if size else [0]
        for at in cuts:
            yield step[at : at + size] if size else step
        if gap:
            yield Wait(gap)


# ---- shapes: what the events are -------------------------------------------------------------


def _as_it_is(reply: Json, message: Json) -> list[Event]:
    return events_of(message, reply.get("chars", 24), reply.get("delta_usage"))


def _duplicate(reply: Json, message: Json) -> list[Event]:
    wanted = reply.get("events", ["content_block_stop", "message_stop"])
    return [
        again
        for event in _as_it_is(reply, message)
        for again in ([event, event] if event[0] in wanted else [event])
    ]


def _out_of_order(reply: Json, message: Json) -> list[Event]:
    events = _as_it_is(reply, message)
    return [
        (name, {**data, "index": data["index"] + 1}) if "index" in data else (name, data)
        for name, data in events
    ]


def _no_start(reply: Json, message: Json) -> list[Event]:
    return [e for e in _as_it_is(reply, message) if e[0] != "content_block_start"]


def _unknown_event(reply: Json, message: Json) -> list[Event]:
    events = _as_it_is(reply, message)
    delta = {"type": "future_delta", "future": "x"}
    odd: list[Event] = [
        ("future_event", {"type": "future_event", "note": "unknown to clients of today"}),
        ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
    ]
    return [*events[:2], *odd, *events[2:]]


def _unknown_block(reply: Json, message: Json) -> list[Event]:
    odd = {"type": "future_block", "data": {"deep": [1, 2]}, "signature": "sig"}
    return _as_it_is(reply, {**message, "content": [odd, *message["content"]]})


def _usage_missing(reply: Json, message: Json) -> list[Event]:
    out = []
    for name, data in _as_it_is(reply, {**message, "usage": None}):
        data = {k: v for k, v in data.items() if k != "usage"}
        if name == "message_start" and not reply.get("null"):
            data["message"] = {k: v for k, v in data["message"].items() if k != "usage"}
        out.append((name, data))
    return out


def _tool(message: Json) -> Json:
    calls = [b for b in message["content"] if b.get("type") == "tool_use"]
    default = {"type": "tool_use", "id": "toolu_fault", "name": "read", "input": {"path": "a.py"}}
    return calls[0] if calls else default


def _tool_then_reset(reply: Json, message: Json) -> list[Event]:
    started = _as_it_is(reply, message)[:1]
    return [*started, *block_events(0, _tool(message), reply.get("chars", 24))]


def _broken_input(reply: Json, message: Json, stop_reason: str, text: str) -> list[Event]:
    call = _tool(message)
    events = block_events(0, {**call, "input": {}})
    delta = {"type": "input_json_delta", "partial_json": reply.get("partial", text)}
    broken: Event = (
        "content_block_delta",
        {"type": "content_block_delta", "index": 0, "delta": delta},
    )
    shell = _as_it_is(reply, {**message, "content": [], "stop_reason": stop_reason})
    return [shell[0], events[0], broken, events[-1], *shell[1:]]


def _tool_bad_json(reply: Json, message: Json) -> list[Event]:
    return _broken_input(reply, message, "tool_use", '{"path": "a.py", oops}')


def _tool_cut(reply: Json, message: Json) -> list[Event]:
    return _broken_input(reply, message, "max_tokens", '{"path": "a.p')


def _stops(reason: str) -> Callable[[Json, Json], list[Event]]:
    def shape(reply: Json, message: Json) -> list[Event]:
        return _as_it_is(reply, {**message, "stop_reason": reply.get("stop_reason", reason)})

    return shape


def _empty(reply: Json, message: Json) -> list[Event]:
    return _as_it_is(reply, {**message, "content": [], "stop_reason": "end_turn"})


SHAPES: dict[str, Callable[[Json, Json], list[Event]]] = {
    "duplicate": _duplicate,
    "out_of_order": _out_of_order,
    "no_start": _no_start,
    "unknown_event": _unknown_event,
    "unknown_block": _unknown_block,
    "usage_missing": _usage_missing,
    "tool_then_reset": _tool_then_reset,
    "tool_bad_json": _tool_bad_json,
    "tool_cut": _tool_cut,
    "refusal": _stops("refusal"),
    "max_tokens": _stops("max_tokens"),
    "window_exceeded": _stops("model_context_window_exceeded"),
    "pause": _stops("pause_turn"),
    "stop_unknown": _stops("future_stop"),
    "empty": _empty,
}


# ---- ends: how far the events come, and what then --------------------------------------------


def _whole(reply: Json, events: list[Event]) -> list[Step]:
    sent: list[Step] = [sse(event) for event in events]
    return sent if reply.get("fault") else [*sent[:1], sse(PING), *sent[1:]]


def _head(reply: Json, events: list[Event], default: int) -> list[Step]:
    return [sse(event) for event in events[: reply.get("after", default)]]


def _stall(reply: Json, events: list[Event]) -> list[Step]:
    return [*_head(reply, events, 3), Wait(reply.get("seconds", 3600)), Reset()]


def _pings(reply: Json, events: list[Event]) -> list[Step]:
    every = reply.get("every_ms", 1000) / 1000
    count = int(reply.get("seconds", 3600) / every)
    pings: list[Step] = []
    for _ in range(count):
        pings += [sse(PING), Wait(every)]
    return [*_head(reply, events, 0), *pings, Reset()]


def _slow_first(reply: Json, events: list[Event]) -> list[Step]:
    return [Wait(reply.get("seconds", 3600)), *(sse(event) for event in events)]


def _truncate(reply: Json, events: list[Event]) -> list[Step]:
    return _head(reply, events, 3)


def _reset(reply: Json, events: list[Event]) -> list[Step]:
    # The wait lets the client read what was sent: RST would take it from its socket's buffer.
    return [*_head(reply, events, 3), Wait(reply.get("linger_ms", 50) / 1000), Reset()]


def _all_then_reset(reply: Json, events: list[Event]) -> list[Step]:
    return _reset({"after": len(events), **reply}, events)


def _malformed(reply: Json, events: list[Event]) -> list[Step]:
    half = b'event: content_block_delta\ndata: {"type":"content_block_delta","ind\n\n'
    return [*_head(reply, events, 3), half]


def _error_event(reply: Json, events: list[Event]) -> list[Step]:
    kind = reply.get("type", "overloaded_error")
    error = {"type": kind, "message": reply.get("message", "Overloaded")}
    return [*_head(reply, events, 3), sse(("error", {"type": "error", "error": error}))]


def _bad_gzip(reply: Json, events: list[Event]) -> list[Step]:
    # Stored, not squeezed, and without the system's mark: the same bytes with every zlib.
    whole = gzip.compress(b"".join(sse(event) for event in events), compresslevel=0, mtime=0)
    whole = whole[:9] + b"\xff" + whole[10:]
    return [whole[: len(whole) // 2]]


ENDS: dict[str, Callable[[Json, list[Event]], list[Step]]] = {
    "stall": _stall,
    "pings": _pings,
    "slow_first": _slow_first,
    "truncate": _truncate,
    "reset": _reset,
    "tool_then_reset": _all_then_reset,
    "malformed": _malformed,
    "error_event": _error_event,
    "bad_gzip": _bad_gzip,
}
# `slow_headers` waits before the status line: the server does it.
ALL: tuple[str, ...] = tuple(dict.fromkeys((*HTTP, "slow_headers", *SHAPES, *ENDS)))


def message_of(reply: Json) -> Json:
    """Return the reply's own message, or a short text when it has none."""
    given = reply.get("message")
    return given if isinstance(given, dict) else text_message("Hello from the loopback server.")
