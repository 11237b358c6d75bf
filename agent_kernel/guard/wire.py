"""Wires: sockets with one deadline for everything, and bodies read and decoded within a size.

It chooses no address and follows nothing: fetch.py does.
"""

import contextlib
import http.client
import io
import socket
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

CHUNK = 1 << 16
T = TypeVar("T")


class Deadline:
    """The end of one fetch: a point in time, or earlier when somebody ends it."""

    def __init__(self, seconds: float) -> None:
        """Begin now."""
        self._until = time.monotonic() + seconds
        self._sockets: list[socket.socket] = []

    def left(self) -> float:
        """Return the seconds left; raises TimeoutError when there are none."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for the whole fetch is over")
        return left

    def watch(self, sock: socket.socket) -> None:
        """End `sock` too when the fetch is ended."""
        self._sockets.append(sock)

    def end(self) -> None:
        """Let nothing go on; a blocked read returns at once."""
        self._until = 0.0
        for sock in self._sockets:
            with contextlib.suppress(OSError):  # closed already
                sock.shutdown(socket.SHUT_RDWR)


def in_thread(work: Callable[[], T], name: str) -> "Future[T]":
    """Start `work` in a daemon thread, which no shutdown waits for; its future."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def target() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=target, name=name, daemon=True).start()
    return future


class _Raw(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self.patience: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        left = self._deadline.left()
        self._sock.settimeout(left if self.patience is None else min(left, self.patience))
        try:
            return self._sock.recv_into(buffer)
        except TimeoutError:
            if self.patience is None:
                raise
            return None  # nothing has arrived


class Wire:
    """What http.client needs of a socket, each operation under the deadline of the fetch."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        """Use `sock`; whoever made it closes it."""
        self._sock = sock
        self._deadline = deadline
        deadline.watch(sock)

    def sendall(self, data: bytes) -> None:
        """Send all of `data`."""
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return the reading end."""
        return io.BufferedReader(_Raw(self._sock, self._deadline), CHUNK)

    def close(self) -> None:
        """Do nothing: http.client closes as soon as it has the head, the body is still to come."""


@dataclass(slots=True)
class Body:
    """The decoded bytes of a response, why it is not all ("" when it is), and if time ran out."""

    data: bytes = b""
    cut: str = ""
    late: bool = False


class _Gzip:
    """A gzip body decoded piece by piece, several members too, never more than asked for."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(47)
        self.broken = False
        self.used = False

    def feed(self, data: bytes, room: int) -> bytes:
        out = bytearray()
        try:
            while data and room > len(out):
                self.used = True
                out += self._inflate.decompress(data, room - len(out))
                data = self._inflate.unconsumed_tail or self._inflate.unused_data
                if self._inflate.eof:
                    self._inflate = zlib.decompressobj(47)
                    self.used = bool(data)
        except zlib.error:
            self.broken = True
        return bytes(out)


def read_body(response: http.client.HTTPResponse, limit: int) -> Body:
    """Return at most `limit` decoded bytes; what arrived before a failure is delivered."""
    body = Body()
    gzip = _Gzip() if response.getheader("Content-Encoding", "").lower() == "gzip" else None
    wire, left = 0, response.length
    out = bytearray()
    try:
        while len(out) <= limit and wire <= limit and left != 0:
            chunk = _piece(response, left)
            if not chunk:
                break
            wire += len(chunk)
            left = None if left is None else left - len(chunk)
            out += gzip.feed(chunk, limit + 1 - len(out)) if gzip is not None else chunk
            if gzip is not None and gzip.broken:
                break
        body.cut = _why(response, left, wire=max(wire, len(out)), limit=limit, gzip=gzip)
    except TimeoutError as error:
        body.cut, body.late = str(error) or "the time for the whole fetch is over", True
    except (OSError, http.client.HTTPException, ValueError) as error:
        body.cut = f"the connection broke: {type(error).__name__}: {error}"
    body.data = bytes(out[:limit])
    return body


def _piece(response: http.client.HTTPResponse, left: int | None) -> bytes:
    if response.chunked:
        return response.read1(CHUNK)
    assert response.fp is not None
    return response.fp.read1(CHUNK if left is None else min(CHUNK, left))


def _why(
    response: http.client.HTTPResponse,
    left: int | None,
    *,
    wire: int,
    limit: int,
    gzip: _Gzip | None,
) -> str:
    """Return why the body is not all there is, "" when it is."""
    if wire > limit:
        return f"longer than the limit of {limit:,} bytes"
    if gzip is not None and (gzip.broken or gzip.used):
        return "the compressed body is broken or ends early"
    if left:
        return f"the server closed {left:,} bytes too early"
    if left == 0 and _more(response.fp):
        return "the server sent more than it declared"
    return ""


def _more(stream: object) -> bool:
    """Tell whether bytes that belong to no body have arrived, hardly waiting for them."""
    if not isinstance(stream, io.BufferedReader) or not isinstance(stream.raw, _Raw):
        return False
    stream.raw.patience = 0.05
    return bool(stream.peek(1))
