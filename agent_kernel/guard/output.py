"""Output: what a command wrote, its head and tail in memory and the rest in a bounded file.

It never blocks the writer: what does not fit is counted and discarded.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

KEEP = 128 << 10  # bytes of head, and of tail, held in memory
SPILL = 64 << 20  # bytes of a spill file


class Output:
    """The merged stdout and stderr of one command; written by one thread, read by any."""

    def __init__(
        self,
        spill: Path | None,
        *,
        eager: bool,
        on_output: Callable[[bytes], None] | None,
        external: bool = False,
    ) -> None:
        """Hold nothing yet; with `external` another process writes the file and we only read it."""
        self.total = 0
        self.head = bytearray()
        self.trouble = ""
        self.last = 0.0
        self._tail = bytearray()
        self._path = spill
        self._external = external
        self._on_output = on_output
        self._fd: int | None = None
        self._left = SPILL
        if spill is not None:
            spill.parent.mkdir(parents=True, exist_ok=True)
            if eager and not external:
                self._open()

    @property
    def spill(self) -> Path | None:
        """The file that holds the output, None while memory does."""
        return self._path if self._external or self._fd is not None else None

    @property
    def tail(self) -> bytes:
        """The last bytes, without those that are in `head` already."""
        return bytes(self._tail[-KEEP:])

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the command."""
        room = KEEP - len(self.head)
        if self._fd is None and self._path is not None and self.total + len(chunk) > KEEP:
            self._open()
        if self._fd is not None:
            self._write(chunk)
        self.total += len(chunk)
        self.head += chunk[:room]
        self._tail += chunk[room:][-KEEP:]
        if len(self._tail) > 2 * KEEP:
            del self._tail[:-KEEP]
        if self._on_output is not None:
            self._call(chunk)

    def read(self, since: int, limit: int) -> tuple[bytes, int]:
        """Return at most `limit` bytes from offset `since`, and the offset after them."""
        if self.spill is not None and self.spill.exists():
            with self.spill.open("rb") as file:
                file.seek(since)
                found = file.read(limit)
        else:
            found = bytes(self.head[since : since + limit])
        return found, since + len(found)

    def close(self) -> None:
        """Close the file; with an external writer, take head, tail and total from it."""
        if self._fd is not None:
            os.close(self._fd)
        if self._external and self._path is not None and self._path.exists():
            with self._path.open("rb") as file:
                self.head = bytearray(file.read(KEEP))
                self.total = os.fstat(file.fileno()).st_size
                file.seek(max(len(self.head), self.total - KEEP))
                self._tail = bytearray(file.read(KEEP))

    def _open(self) -> None:
        assert self._path is not None
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._write(bytes(self.head))

    def _write(self, chunk: bytes) -> None:
        assert self._fd is not None
        kept = memoryview(chunk)[: self._left]
        self._left -= len(kept)
        try:
            while kept:
                kept = kept[os.write(self._fd, kept) :]
        except OSError as error:  # a full disk must not stop the command: say so and go on counting
            self._left = 0
            self.trouble = f"{self._path!s} is incomplete: {error.strerror}"

    def _call(self, chunk: bytes) -> None:
        assert self._on_output is not None
        try:
            self._on_output(chunk)
        except Exception as error:  # noqa: BLE001 - a failing view must not stop the reading
            self._on_output = None
            self.trouble = f"live output stopped: {type(error).__name__}: {error}"


class Live:
    """The newest output, handed to a callback in an event loop's thread, never faster than it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_output: Callable[[bytes], None]) -> None:
        """Hold nothing yet."""
        self._loop = loop
        self._on_output = on_output
        self._lock = threading.Lock()
        self._pending = bytearray()

    def add(self, chunk: bytes) -> None:
        """Take bytes in any thread; at most one call of the loop is pending, with 128 KiB."""
        with self._lock:
            idle = not self._pending
            self._pending += chunk[-KEEP:]
            del self._pending[:-KEEP]
        if idle:
            self._loop.call_soon_threadsafe(self.flush)

    def flush(self) -> None:
        """Hand over what is pending; call it in the loop's thread."""
        with self._lock:
            chunk = bytes(self._pending)
            self._pending.clear()
        if chunk:
            self._on_output(chunk)
