"""Framing: where HTTP/1.1 messages begin and end inside a stream of bytes that passes by.

May not change a byte: every part carries the bytes it was read from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

HEAD_BYTES = 1 << 20  # of one request or status line with its headers, or of one chunk's size line
_CHUNKED = b"chunked"


class FramingError(ValueError):
    """Bytes that are no HTTP/1.1: what follows them cannot be cut into messages."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request or status line and the header fields, names as they came."""

    raw: bytes
    first: bytes
    fields: tuple[tuple[bytes, bytes], ...]

    def get(self, name: bytes) -> bytes | None:
        """Return the values of a field by its lower-case name, joined by commas."""
        found = [value for key, value in self.fields if key.lower() == name]
        return b", ".join(found) if found else None

    @property
    def word(self) -> bytes:
        """The second word of the first line: a request's target, a response's status."""
        return self.first.split(b" ", 2)[1]

    @property
    def method(self) -> bytes:
        """The first word of the first line."""
        return self.first.split(b" ", 1)[0]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a body: `raw` as it came, `data` without chunk sizes."""

    raw: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """A message is complete; `raw` is what ended it (the last chunk's lines, or nothing)."""

    raw: bytes


Part = Head | Piece | End
Kind = Literal["request", "response"]


class Framing:
    """Feed it bytes, take parts; `expect(method)` tells a response's side what was asked.

    `tail` is what it could not cut when it raised FramingError, or after a switch of protocols.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.blind = False  # after 101 or an error: bytes pass uncut
        self._buffer = bytearray()
        self._asked: deque[bytes] = deque()
        self._step: Callable[[], Part | None] = self._head
        self._left = 0

    def expect(self, method: bytes) -> None:
        """Note that a request of this method was sent: its response comes next in order."""
        self._asked.append(method)

    @property
    def tail(self) -> bytes:
        """The bytes held back."""
        return bytes(self._buffer)

    @property
    def open(self) -> bool:
        """True when a message has begun and is not complete."""
        return self._step != self._head or bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[Part]:
        """Yield what `data` completes. Raises FramingError when it is no HTTP."""
        self._buffer += data
        while not self.blind and (part := self._step()) is not None:
            yield part

    def eof(self) -> bool:
        """Tell whether the stream's end completes the message that is open."""
        return self._step == self._until_close

    # ---- steps -------------------------------------------------------------------------------

    def _head(self) -> Part | None:
        while self._buffer[:2] == b"\r\n":
            del self._buffer[:2]  # RFC 9112 §2.2: a blank line before a request line says nothing
        raw = self._until(b"\r\n\r\n")
        if raw is None:
            return None
        first, *lines = raw[:-4].split(b"\r\n")
        if len(first.split(b" ", 2)) < 2:
            raise FramingError(f"{first[:80]!r} is no first line of HTTP/1.1")
        fields = tuple(_field(line) for line in lines)
        head = Head(raw, first, fields)
        self._step = self._body_of(head)
        return head

    def _until(self, mark: bytes) -> bytes | None:
        at = self._buffer.find(mark)
        if at < 0:
            if len(self._buffer) > HEAD_BYTES:
                raise FramingError(f"over {HEAD_BYTES:,} bytes without an end of their line")
            return None
        return self._take(at + len(mark))

    def _take(self, size: int) -> bytes:
        raw = bytes(self._buffer[:size])
        del self._buffer[:size]
        return raw

    def _body_of(self, head: Head) -> Callable[[], Part | None]:
        if self.kind == "response":
            status = head.word
            if status == b"101":
                self.blind = True
                return self._head
            if status.startswith(b"1"):
                return self._head  # an interim answer: the real one follows
            asked = self._asked.popleft() if self._asked else b""
            if asked == b"HEAD" or status in (b"204", b"304"):
                return self._end
        if (head.get(b"transfer-encoding") or b"").lower().endswith(_CHUNKED):
            return self._size
        length = head.get(b"content-length")
        if length is not None:
            self._left = _number(length.split(b",")[0].strip(), 10)
            return self._fixed
        return self._end if self.kind == "request" else self._until_close

    def _end(self) -> Part | None:
        self._step = self._head
        return End(b"")

    def _fixed(self) -> Part | None:
        if self._left == 0:
            return self._end()
        raw = self._take(min(self._left, len(self._buffer)))
        self._left -= len(raw)
        return Piece(raw, raw) if raw else None

    def _until_close(self) -> Part | None:
        raw = self._take(len(self._buffer))
        return Piece(raw, raw) if raw else None

    def _size(self) -> Part | None:
        raw = self._until(b"\r\n")
        if raw is None:
            return None
        self._left = _number(raw.split(b";")[0].strip(), 16)
        self._step = self._chunk if self._left else self._trailer
        return Piece(raw, b"")

    def _chunk(self) -> Part | None:
        if self._left == 0:
            raw = self._until(b"\r\n")
            if raw is None:
                return None
            self._step = self._size
            return Piece(raw, b"")
        raw = self._take(min(self._left, len(self._buffer)))
        self._left -= len(raw)
        return Piece(raw, raw) if raw else None

    def _trailer(self) -> Part | None:
        raw = self._until(b"\r\n")
        if raw is None:
            return None
        if raw == b"\r\n":
            self._step = self._head
            return End(raw)
        return Piece(raw, b"")


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon:
        raise FramingError(f"{line[:80]!r} is no header field")
    return name.strip(), value.strip()


def _number(text: bytes, base: int) -> int:
    try:
        found = int(text, base)
    except ValueError:
        raise FramingError(f"{text[:40]!r} is no length") from None
    if found < 0:
        raise FramingError(f"{text[:40]!r} is no length")
    return found
