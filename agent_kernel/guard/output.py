"""Output: what a command wrote, its head and tail in memory and the rest in a bounded file.

It never blocks the writer, and never keeps a secret: what is kept was masked before.
"""

import asyncio
import codecs
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from agent_kernel.guard.redact import Running, Secrets, redact

GATHER, SOON = 16 << 10, 0.1  # bytes, or seconds, that are masked together
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
        self._mask = Mask()
        self._lock = threading.RLock()
        self._new = bytearray()  # not masked yet
        self._since = 0.0
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
        return self._mask.whole(bytes(self._tail[-KEEP:]))

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the command."""
        if self._on_output is not None:
            self._call(chunk)
        with self._lock:
            self._since = self._since or time.monotonic()
            self._new += chunk
            if len(self._new) >= GATHER:
                self._take()
        self.settle()

    def due(self) -> float | None:
        """Return when (monotonic) what came is to be kept, None when nothing waits."""
        return self._since + SOON if self._since else None

    def settle(self) -> None:
        """Keep what came, once it is due."""
        with self._lock:
            if self._since and time.monotonic() >= self._since + SOON:
                self._take()

    def _take(self, end: bool = False) -> None:
        """Mask what came and keep it, but for a last word that may go on."""
        chunk, self._since = bytes(self._new), 0.0
        self._new.clear()
        if self.total < SPILL:  # later ones are in the tail alone, which is masked when asked for
            chunk = self._mask.feed(chunk)
        if end or self.total >= SPILL:
            chunk = (
                self._mask.close() + chunk if self.total >= SPILL else chunk + self._mask.close()
            )
        self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
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

    def read(self, since: int, limit: int) -> tuple[bytes, int]:
        """Return at most `limit` bytes from offset `since`, and the offset after them."""
        with self._lock:
            if self._since:
                self._take()
        if self.spill is not None and self.spill.exists():
            with self.spill.open("rb") as file:
                file.seek(since)
                found = file.read(limit)
        else:
            found = bytes(self.head[since : since + limit])
        return found, since + len(found)

    def close(self) -> None:
        """Close the file; with an external writer, take head, tail and total from it."""
        with self._lock:
            if not self._external:
                self._take(end=True)
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


class Mask:
    """The secrets of this process masked in bytes that come in pieces, other bytes unchanged."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._secrets = Secrets.from_env(os.environ)
        self._running = Running(self._secrets)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, chunk: bytes) -> bytes:
        """Return what may be kept by now."""
        return _bytes(self._running.feed(self._decoder.decode(chunk)))

    def close(self) -> bytes:
        """Return the rest."""
        rest = self._decoder.decode(b"", True)
        self._decoder.reset()
        return _bytes(self._running.feed(rest) + self._running.close())

    def whole(self, data: bytes) -> bytes:
        """Return bytes that were cut out of more, masked."""
        text = data.decode("utf-8", "surrogateescape")
        masked, found = redact(text, self._secrets)
        return _bytes(masked) if found else data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


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
