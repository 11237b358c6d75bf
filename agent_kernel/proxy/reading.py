"""Reading: a response's bytes as the message they carry, piece by piece as they came.

May not raise: bytes nobody can read are a failure with its reason.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.core.messages import Json, Usage
from agent_kernel.core.model import Done, ProviderError
from agent_kernel.providers.assemble import Assembly
from agent_kernel.providers.errors import kind_of, wait_of
from agent_kernel.proxy.exchange import Exchange

_ANY_ZLIB = 47  # gzip or zlib, as the header says
_ENDINGS = {
    "cut": ("protocol", "the connection ended inside the answer"),
    "reset": ("connection", "the upstream reset the connection"),
    "left": ("cancelled", "the client went away before the answer was whole"),
    "refused": ("connection", "no upstream answered"),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that got no message: kind, words, status, the wait asked for in seconds."""

    kind: str
    text: str
    status: int | None
    wait: float
    partial: Json = field(hash=False)


class Reading:
    """One exchange's response; `pull()` takes what came since, `outcome()` what it amounts to."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.raw = bytearray()  # decoded
        self._taken = 0
        self._at = exchange.sent
        self._lines = bytearray()
        self._data: list[str] = []
        self._inflate: Any = None
        self._bad = ""
        self._error: Json | None = None
        self._assembly = Assembly(lambda: self._at, exchange.sent)

    @property
    def streamed(self) -> bool:
        """Tell whether the answer comes as server-sent events."""
        return self.exchange.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def stopped(self) -> bool:
        """Tell whether a stream's message is whole, though its connection may still be open."""
        return self.streamed and self._assembly.stopped and not self._bad

    def pull(self) -> None:
        """Take the pieces that came since the last call."""
        while self._taken < len(self.exchange.chunks):
            at, data = self.exchange.chunks[self._taken]
            self._taken += 1
            self._at = at
            if not self._bad:
                self._take(self._decoded(data))

    def _decoded(self, data: bytes) -> bytes:
        encoding = self.exchange.headers.get("content-encoding", "identity").lower()
        if encoding in ("identity", ""):
            return data
        if encoding not in ("gzip", "deflate", "x-gzip"):
            self._bad = f"the answer's encoding {encoding!r} cannot be read here"
            return b""
        self._inflate = self._inflate or zlib.decompressobj(_ANY_ZLIB)
        try:
            made: bytes = self._inflate.decompress(data)
        except zlib.error as error:
            self._bad = f"the answer cannot be unpacked: {error}"
            return b""
        return made

    def _take(self, data: bytes) -> None:
        self.raw += data
        if not self.streamed:
            return
        self._lines += data
        *lines, rest = self._lines.split(b"\n")
        self._lines = bytearray(rest)
        try:
            for line in lines:
                self._line(line.removesuffix(b"\r").decode("utf-8"))
        except ProviderError as error:
            self._bad = error.text
        except (ValueError, RecursionError) as error:
            self._bad = f"an event of the stream is not JSON: {error}"

    def _line(self, line: str) -> None:
        if line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        elif not line and self._data:
            event = json.loads("\n".join(self._data))
            self._data.clear()
            if isinstance(event, dict) and event.get("type") == "error":
                self._error = event
            else:
                self._feed(event)

    def _feed(self, event: Any) -> None:
        for _ in self._assembly.feed(event):
            pass

    # ---- what it amounts to --------------------------------------------------------------------

    def outcome(self) -> Done | Failure:
        """Return the message, or why there is none."""
        if self.exchange.status == 200 and not self.streamed and self.exchange.ending == "whole":
            self._whole()
        if self.exchange.status != 200 or self._error is not None:
            return self._refused()
        try:
            if not self._bad:
                self._assembly.request_id = self.exchange.headers.get("request-id")
                return self._assembly.done()
        except ProviderError as error:
            self._bad = error.text
        kind, text = _ENDINGS.get(self.exchange.ending, ("protocol", self._bad))
        return self._failure(kind, self.exchange.note or text)

    @property
    def message_id(self) -> str | None:
        """The id the host gave its message."""
        found = (self._assembly.begun or {}).get("id")
        return found if isinstance(found, str) else None

    def _whole(self) -> None:
        """Feed a message that came in one piece as the events of its stream."""
        try:
            for event in _events_of(json.loads(self.raw)):
                self._feed(event)
        except ProviderError as error:
            self._bad = error.text
        except (ValueError, TypeError, RecursionError) as error:
            self._bad = f"the answer is no message: {error}"

    def _refused(self) -> Failure:
        """The failure of an error answer, or of an error event inside a stream."""
        said: Any = self._error
        if said is None:
            try:
                said = json.loads(self.raw)
            except (ValueError, RecursionError):
                said = {}
        error = said.get("error") if isinstance(said, dict) else None
        error = error if isinstance(error, dict) else {}
        text = str(
            error.get("message")
            or self.exchange.note
            or bytes(self.raw[:200]).decode("utf-8", "replace")
        )
        if self.exchange.ending == "refused":
            return self._failure("connection", text)
        if not self.exchange.status:
            kind, words = _ENDINGS.get(self.exchange.ending, ("protocol", "no answer came"))
            return self._failure(kind, self.exchange.note or words)
        return self._failure(
            kind_of(self.exchange.status, str(error.get("type") or ""), text), text
        )

    def _failure(self, kind: str, text: str) -> Failure:
        partial = self._assembly.partial()
        usage = Usage.of_api(self._assembly.usage)
        if usage != Usage():
            partial["usage"] = usage.wire()
        if self.message_id:
            partial["id"] = self.message_id
        wait = wait_of(self.exchange.headers, time.time()) or 0.0
        return Failure(kind, text[:500], self.exchange.status or None, wait, partial)


def _events_of(message: Any) -> Iterator[Json]:
    content = message["content"]
    yield {"type": "message_start", "message": {**message, "content": []}}
    for index, block in enumerate(content):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    delta = {
        key: message.get(key)
        for key in ("stop_reason", "stop_sequence", "stop_details", "container")
    }
    yield {"type": "message_delta", "delta": delta, "usage": message.get("usage")}
    yield {"type": "message_stop"}
