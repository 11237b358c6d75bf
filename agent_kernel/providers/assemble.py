"""Assemble: the Messages API's stream events joined into one message, or named as broken.

May not read a socket: it is fed parsed events, and raises ProviderError of kind `protocol`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agent_kernel.core.messages import Json, Message, Usage, block_of
from agent_kernel.core.model import (
    BadInput,
    BlockDone,
    BlockStart,
    Delta,
    Done,
    MessageStart,
    ProviderError,
    StreamEvent,
)

_UNKNOWN_KEPT = 20  # unknown events kept in the meta of a message
_PLAIN_USAGE = frozenset(
    {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
    | {"cache_creation"}
)


@dataclass
class _Open:
    """A block that is still being written: its wire object and the raw text of its input."""

    block: Json
    raw: list[str] = field(default_factory=list)
    done: bool = False


class Assembly:
    """One stream being joined: `feed` its events in order, then ask for `done`.

    `clock` is in seconds, monotonic; `started` is its value when the request was sent.
    """

    def __init__(
        self, clock: Callable[[], float], started: float, request_id: str | None = None
    ) -> None:
        self.clock = clock
        self.started = started
        self.request_id = request_id
        self.begun: Json | None = None
        self.ended: Json = {}
        self.stopped = False
        self.ttft: float | None = None
        self.blocks: list[_Open] = []
        self.bad: list[BadInput] = []
        self.unknown: list[Json] = []
        self.usage: Json = {}
        self.output_said = False

    def feed(self, event: Any) -> Iterator[StreamEvent]:
        """Yield what one event means. Raises ProviderError(`protocol`) when its order is wrong."""
        if not isinstance(event, Mapping):
            self._broken(f"an event is no JSON object: {event!r:.80}")
        kind = event.get("type")
        if self.stopped or kind == "ping":
            return
        take = _TAKES.get(str(kind))
        if take is None:
            self._keep(event)
            return
        if self.begun is None and kind != "message_start":
            self._broken(f"{kind} came before message_start")
        yield from take(self, event)

    def done(self) -> Done:
        """Return the finished message. Raises ProviderError(`protocol`) without message_stop."""
        if not self.stopped or self.begun is None:
            self._broken("the stream ended without message_stop")
        content, unsent = _content(self.blocks)
        stop_reason = self.ended.get("stop_reason")
        return Done(
            Message("assistant", [block_of(block) for block in content]),
            self._usage(),
            stop_reason if isinstance(stop_reason, str) else None,
            self.request_id,
            self.ttft,
            self.clock() - self.started,
            str(self.begun.get("model") or ""),
            tuple(self._explained()),
            self._meta(unsent),
        )

    def partial(self) -> Json:
        """Return what came so far: `text`, and `calls` (id, name, finished) that never run."""
        text = "".join(b.block["text"] for b in self.blocks if _is(b.block, "text"))
        calls = [
            {"id": b.block.get("id"), "name": b.block.get("name"), "finished": b.done}
            for b in self.blocks
            if _is(b.block, "tool_use")
        ]
        out: Json = {}
        if text:
            out["text"] = text
        if calls:
            out["calls"] = calls
        return out

    # ---- one event --------------------------------------------------------------------------

    def _message_start(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        message = event.get("message")
        if self.begun is not None or not isinstance(message, Mapping):
            self._broken("a second message_start, or one without a message")
        self.begun = dict(message)
        self._count(message.get("usage"))
        yield MessageStart(Usage.of_api(self.usage), self.request_id)

    def _block_start(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        index, block = event.get("index"), event.get("content_block")
        if index != len(self.blocks) or not isinstance(block, Mapping):
            self._broken(f"block {index!r} begins where block {len(self.blocks)} is due")
        if self.blocks and not self.blocks[-1].done:
            self._broken(f"block {index} begins before block {index - 1} is complete")
        made = dict(block)
        if _is(made, "tool_use") and not (made.get("id") and made.get("name")):
            self._broken(f"block {index} is a tool_use without id or name")
        if _is(made, "text") and not isinstance(made.get("text"), str):
            made["text"] = ""
        self._first()
        self.blocks.append(_Open(made))
        kind, name, id = (str(made.get(key) or "") for key in ("type", "name", "id"))
        yield BlockStart(index, kind, name, id)

    def _block_delta(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        index, delta = event.get("index"), event.get("delta")
        if not isinstance(index, int) or not 0 <= index < len(self.blocks):
            self._broken(f"a delta for block {index!r}, which never began")
        held = self.blocks[index]
        if held.done or not isinstance(delta, Mapping):
            self._broken(f"a delta for block {index}, which is complete")
        self._first()
        match delta.get("type"):
            case "text_delta":
                yield self._grown(index, "text", "text", delta)
            case "thinking_delta":
                yield self._grown(index, "thinking", "thinking", delta)
            case "input_json_delta":
                piece = _text(delta.get("partial_json"))
                held.raw.append(piece)
                yield Delta(index, "input", piece)
            case "signature_delta":
                held.block["signature"] = _text(delta.get("signature"))
            case "citations_delta":
                held.block["citations"] = [*(held.block.get("citations") or []), delta["citation"]]
            case "compaction_delta":
                held.block.update({k: v for k, v in delta.items() if k != "type"})
            case _:
                self._keep(event)

    def _grown(self, index: int, kind: Any, key: str, delta: Mapping[str, Any]) -> StreamEvent:
        piece = _text(delta.get(key))
        block = self.blocks[index].block
        block[key] = _text(block.get(key)) + piece
        return Delta(index, kind, piece)

    def _block_stop(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        index = event.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self.blocks):
            self._broken(f"block {index!r} ends, which never began")
        held = self.blocks[index]
        if held.done:
            return  # an exact duplicate: nothing is lost by ignoring it
        held.done = True
        if held.block.get("type") in ("tool_use", "server_tool_use"):
            self._join_input(held)
        yield BlockDone(index, held.block)

    def _join_input(self, held: _Open) -> None:
        raw = "".join(held.raw)
        if not raw:
            value = held.block.get("input")
            value = {} if value is None else value
        else:
            value = _parsed(raw)
        if isinstance(value, dict):
            held.block["input"] = value
            return
        held.block["input"] = {}
        why = value if isinstance(value, ValueError) else "it is not a JSON object"
        text = f"the input is not usable: {why}; it began {raw[:120]!r}"
        self.bad.append(BadInput(_text(held.block.get("id")), text))

    def _message_delta(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        delta = event.get("delta")
        if isinstance(delta, Mapping):
            self.ended.update(delta)
        for key in ("context_management",):
            if event.get(key) is not None:
                self.ended[key] = event[key]
        usage = event.get("usage")
        self.output_said = isinstance(usage, Mapping) and usage.get("output_tokens") is not None
        self._count(usage)
        yield from ()

    def _message_stop(self, event: Mapping[str, Any]) -> Iterator[StreamEvent]:
        for index, held in enumerate(self.blocks):
            if not held.done:
                self._broken(f"the message ended before block {index} was complete")
        self.stopped = True
        yield from ()

    # ---- the rest ---------------------------------------------------------------------------

    def _first(self) -> None:
        if self.ttft is None:
            self.ttft = self.clock() - self.started

    def _keep(self, event: Mapping[str, Any]) -> None:
        if len(self.unknown) < _UNKNOWN_KEPT:
            self.unknown.append(dict(event))

    def _count(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            _grow(self.usage, usage)

    def _usage(self) -> Usage:
        said = dict(self.usage)
        if not self.output_said:
            said.pop("output_tokens", None)  # message_start's is a placeholder, not a count
        return Usage.of_api(said)

    def _explained(self) -> Iterator[BadInput]:
        cut = self.ended.get("stop_reason") == "max_tokens"
        for at, bad in enumerate(self.bad):
            if cut and at == len(self.bad) - 1:
                count = self.usage.get("output_tokens")
                yield BadInput(bad.id, f"input was cut at {count or 'max_tokens'} output tokens")
            else:
                yield bad

    def _meta(self, unsent: list[Json]) -> Json:
        out = {
            key: self.ended[key]
            for key in ("stop_sequence", "stop_details", "container", "context_management")
            if self.ended.get(key) is not None
        }
        more = {k: v for k, v in self.usage.items() if k not in _PLAIN_USAGE and v is not None}
        if more:
            out["usage"] = more
        for name, kept in (("unknown", self.unknown), ("unsent", unsent)):
            if kept:
                out[name] = list(kept)
        if self.begun and self.begun.get("diagnostics") is not None:
            out["diagnostics"] = self.begun["diagnostics"]
        return out

    def _broken(self, text: str) -> NoReturn:
        raise ProviderError(
            "protocol",
            f"the stream is not as the Messages API writes it: {text}",
            retryable=True,
            request_id=self.request_id,
            partial=self.partial(),
        )


_TAKES: dict[str, Callable[[Assembly, Mapping[str, Any]], Iterator[StreamEvent]]] = {
    "message_start": Assembly._message_start,
    "content_block_start": Assembly._block_start,
    "content_block_delta": Assembly._block_delta,
    "content_block_stop": Assembly._block_stop,
    "message_delta": Assembly._message_delta,
    "message_stop": Assembly._message_stop,
}


def _is(block: Json, kind: str) -> bool:
    return block.get("type") == kind


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_FIELDS = {
    "text": ("type", "text", "citations"),
    "tool_use": ("type", "id", "name", "input"),
    "thinking": ("type", "thinking", "signature"),
}


def _content(blocks: list[_Open]) -> tuple[list[Json], list[Json]]:
    """The blocks that may be sent back, and those no host takes back (kept in the meta).

    An empty text, thinking without its signature and thinking that nothing follows are refused by
    the API when they come back (V6, V10); a client tool's `caller` and nulls say nothing.
    """
    out: list[Json] = []
    unsent: list[Json] = []
    for each in blocks:
        block = each.block
        fields = _FIELDS.get(str(block.get("type")))
        if fields is not None:
            block = {k: block[k] for k in fields if block.get(k) is not None}
        unsigned = _is(block, "thinking") and not block.get("signature")
        if unsigned:
            unsent.append(block)
        elif not (_is(block, "text") and block.get("text") == ""):
            out.append(block)
    while out and out[-1].get("type") in ("thinking", "redacted_thinking"):
        unsent.append(out.pop())
    return out, unsent


def _parsed(raw: str) -> Any:
    """The value of `raw`, or the ValueError that says why it has none."""
    try:
        return json.loads(raw, parse_constant=_no_constant)
    except ValueError as error:
        return error
    except RecursionError:
        return ValueError("it is nested too deep")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _grow(held: Json, said: Mapping[str, Any]) -> None:
    """Cumulative usage: per field the larger of what was said; null says nothing."""
    for key, value in said.items():
        before = held.get(key)
        if isinstance(value, Mapping):
            inner = dict(before) if isinstance(before, Mapping) else {}
            _grow(inner, value)
            held[key] = inner
        elif _counts(value) and _counts(before):
            held[key] = max(before, value)
        elif value is not None and not (isinstance(value, int) and value < 0):
            held[key] = value


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
