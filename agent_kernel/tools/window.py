"""Window: some lines of an open file, however large the file and however long its lines.

May not hold more than the lines it returns: 1 GiB is counted through in chunks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

CHUNK = 1 << 20
LINE_CHARS = 2000
LINE_BYTES = LINE_CHARS * 4
HASHED = 64 << 20  # bytes: a larger file is neither hashed nor counted to its end


@dataclass
class Window:
    """Lines `first` to `last` (from 1) of a file; `total` and `sha256` are None for a huge file."""

    first: int
    lines: list[str] = field(default_factory=list)
    more: bool = False
    total: int | None = None
    sha256: str | None = None

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + len(self.lines) - 1


def shown(raw: bytes, length: int) -> str:
    """Return a line for the model: without its end, cut at 2,000 characters and said so."""
    text = raw.removesuffix(b"\r").decode("utf-8", "replace")
    if length > LINE_BYTES or len(text) > LINE_CHARS:
        return f"{text[:LINE_CHARS]} [line cut: it has {length:,} bytes]"
    return text


class Reader:
    """Collects lines from chunks; each chunk is looked at once."""

    def __init__(self, offset: int, limit: int, max_bytes: int) -> None:
        self.window = Window(offset)
        self._offset, self._limit, self._left = offset, limit, max_bytes
        self._line = 1  # the line the next byte belongs to
        self._current = bytearray()
        self._length = 0

    @property
    def full(self) -> bool:
        """Tell whether no further line may join."""
        return len(self.window.lines) >= self._limit or self._left <= 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        at = self._skip(chunk)
        while at < len(chunk):
            if self.full:
                self.window.more = True
                return
            end = chunk.find(b"\n", at)
            stop = len(chunk) if end < 0 else end
            room = max(0, LINE_BYTES + 1 - len(self._current))
            self._current += chunk[at : min(stop, at + room)]
            self._length += stop - at
            if end < 0:
                return
            self._finish()
            at = end + 1

    def _skip(self, chunk: bytes) -> int:
        """Pass the lines before the window; where in the chunk the rest begins."""
        need = self._offset - self._line
        if need <= 0:
            return 0
        if (count := chunk.count(b"\n")) < need:
            self._line += count
            return len(chunk)
        at = 0
        for _ in range(need):
            at = chunk.index(b"\n", at) + 1
        self._line = self._offset
        return at

    def _finish(self) -> None:
        line = shown(bytes(self._current), self._length)
        self._left -= len(line.encode("utf-8", "replace")) + 8
        if self._left >= 0 or not self.window.lines:
            self.window.lines.append(line)
        else:
            self.window.more = True
        self._current.clear()
        self._length = 0
        self._line += 1

    def close(self, ends_with_newline: bool) -> None:
        """Take the end of the file: a last line without a newline is a line too."""
        if not ends_with_newline and self._line >= self._offset and not self.full and self._length:
            self._finish()


def chunks_of(fd: int) -> Iterator[bytes]:
    """Yield the rest of an open file in chunks of 1 MiB."""
    while chunk := os.read(fd, CHUNK):
        yield chunk


def read_window(
    chunks: Iterable[bytes], size: int, offset: int, limit: int, max_bytes: int
) -> Window:
    """Return at most `limit` lines from line `offset`, together at most `max_bytes`."""
    reader = Reader(offset, limit, max_bytes)
    digest = hashlib.sha256() if size <= HASHED else None
    newlines, last = 0, b"\n"
    for chunk in chunks:
        last = chunk[-1:]
        if digest is not None:
            digest.update(chunk)
            newlines += chunk.count(b"\n")
        reader.feed(chunk)
        if digest is None and reader.window.more:
            return reader.window
    reader.close(last == b"\n")
    if digest is not None:
        reader.window.sha256 = digest.hexdigest()
        reader.window.total = newlines + (last != b"\n")
    return reader.window
