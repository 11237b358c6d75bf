"""Relay: bytes between one client's connection and one of the upstream, as they come.

May not wait for whoever records, and may not mend, repeat or hide what an upstream did.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from typing import Protocol

from agent_kernel.proxy.exchange import Ending, Exchange, secrets_of
from agent_kernel.proxy.framing import End, Framing, FramingError, Head, Piece
from agent_kernel.proxy.upstream import Upstream, is_loopback

_PIECE = 1 << 16
MESSAGES = "/v1/messages"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Tap(Protocol):
    """Who is told what passed; every call returns at once."""

    def secrets(self, found: dict[str, str]) -> None:
        """Values that must never be written."""
        ...

    def asked(self, exchange: Exchange) -> None:
        """A request has passed whole."""
        ...

    def ended(self, exchange: Exchange) -> None:
        """Nothing more comes of an exchange."""
        ...


class Relay:
    """One client connection: `serve()` returns when either side has ended."""

    def __init__(self, client: Streams, upstream: Upstream, tap: Tap) -> None:
        self._reader, self._writer = client
        self._upstream = upstream
        self._tap = tap
        self._there: asyncio.StreamWriter | None = None
        self._answers = Framing("response")
        self._waiting: deque[Exchange | None] = deque()  # None: not to be recorded
        self._now: Exchange | None = None
        self._pump: asyncio.Task[None] | None = None
        self._asking: Exchange | None = None
        self._refusal: tuple[int, str] | None = None
        self._upstream_failed = False
        self._client_ended = False
        # A write waits until the system has it: a reset that follows takes nothing with it.
        self._writer.transport.set_write_buffer_limits(0)

    async def serve(self) -> None:
        """Pass requests on and answers back until one side ends; end the other alike."""
        try:
            await self._requests()
            await self._last_answers()
        except FramingError as error:
            self._abandon("cut", str(error))
        finally:
            if self._pump is not None:
                self._pump.cancel()
                await asyncio.gather(self._pump, return_exceptions=True)
            self._abandon("left")
            for writer in (self._writer, self._there):
                if writer is not None:
                    writer.close()

    async def _last_answers(self) -> None:
        """No more is sent: say so upstream where that can be said, and pass on what still comes."""
        self._client_ended = not self._upstream_failed
        if self._there is None or self._pump is None or self._reader.exception() is not None:
            return
        if self._waiting or self._now is not None or self._upstream_failed:
            if self._there.can_write_eof() and not self._upstream_failed:
                self._there.write_eof()
            await asyncio.wait({self._pump})

    # ---- requests ------------------------------------------------------------------------------

    async def _requests(self) -> None:
        framing = Framing("request")
        while data := await self._read():
            for part in framing.feed(data):
                if isinstance(part, Head):
                    await self._begin(part)
                elif not await self._continue(part):
                    return
            if self._there is not None and not await self._sent():
                return

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(_PIECE)
        except OSError:
            return b""  # the client reset its connection: `_reader.exception()` says so

    async def _sent(self) -> bool:
        """Wait until the upstream takes more; False when it takes nothing any more."""
        assert self._there is not None
        try:
            await self._there.drain()
        except OSError:
            self._upstream_failed = True  # what it answered before is still passed on
            return False
        return True

    async def _begin(self, head: Head) -> None:
        path = head.word.decode("latin-1").partition("?")[0]
        kept = head.method == b"POST" and path.endswith(MESSAGES)
        self._asking = exchange = Exchange() if kept else None
        self._tap.secrets(secrets_of(head))
        if exchange is not None:
            exchange.encoding = (head.get(b"content-encoding") or b"").decode("latin-1")
        self._refusal = None
        if not is_loopback(_host(head)):
            self._refusal = (421, "it serves this machine's own names and addresses only")
        elif self._there is None:
            await self._connect()
        if self._refusal is None:
            assert self._there is not None
            self._answers.expect(head.method)
            self._waiting.append(exchange)
            self._there.write(self._upstream.head(head))

    async def _connect(self) -> None:
        try:
            reader, self._there = await self._upstream.connect()
        except (OSError, TimeoutError) as error:
            where = self._upstream.named.decode()
            self._refusal = (502, f"upstream {where} cannot be reached: {error}")
        else:
            self._pump = asyncio.create_task(self._pass_answers(reader))

    async def _continue(self, part: Piece | End) -> bool:
        """Take the next part of a request; False when nothing may follow."""
        exchange = self._asking
        if self._refusal is None and part.raw:
            assert self._there is not None
            self._there.write(part.raw)
        if exchange is not None and isinstance(part, Piece):
            exchange.body += part.data
        if isinstance(part, Piece):
            return True
        if exchange is not None:
            exchange.asked()
            self._tap.asked(exchange)
        if self._refusal is not None:
            await self._refuse(*self._refusal, exchange)
        return self._refusal is None

    async def _refuse(self, status: int, why: str, exchange: Exchange | None) -> None:
        """Answer in the API's own form where there is no upstream that could."""
        error = {"type": "api_error", "message": f"agent-kernel proxy: {why}"}
        body = json.dumps({"type": "error", "error": error}).encode()
        lines = f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
        lines += f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(lines.encode() + body)
        if exchange is not None:
            exchange.status = status
            exchange.end("refused", why)
            self._tap.ended(exchange)
        await self._flushed()

    async def _flushed(self) -> bool:
        """Wait until the client's system has what was written; False when the client is gone."""
        try:
            await self._writer.drain()
        except OSError:
            return False
        return True

    # ---- answers -------------------------------------------------------------------------------

    async def _pass_answers(self, reader: asyncio.StreamReader) -> None:
        """Pass an upstream's bytes on before anything else is done with them."""
        try:
            while data := await reader.read(_PIECE):
                self._writer.write(data)
                there = await self._flushed()
                self._note(data)
                if not there:
                    self._abandon("left")
                    self._writer.transport.abort()
                    return
        except OSError:
            self._abandon("reset")
            _reset(self._writer)
            return
        if self._now is not None and self._answers.eof():
            self._finish()
        self._abandon("left" if self._client_ended else "cut")
        self._writer.close()  # ends the client's side; its reader then ends `serve`

    def _note(self, data: bytes) -> None:
        """Cut what passed into exchanges; what cannot be cut has passed all the same."""
        if self._answers.blind:
            return
        try:
            for part in self._answers.feed(data):
                self._take(part)
        except FramingError as error:
            self._answers.blind = True
            self._abandon("cut", str(error))

    def _take(self, part: Head | Piece | End) -> None:
        match part:
            case Head():
                if not part.word.startswith(b"1") and self._waiting:
                    self._now = self._waiting.popleft()
                if self._now is not None:
                    self._now.answered(part)
            case Piece() if self._now is not None and part.data:
                self._now.came(part.data)
            case End():
                self._finish()
            case _:
                pass

    def _finish(self) -> None:
        done, self._now = self._now, None
        if done is not None:
            done.end("whole")
            self._tap.ended(done)

    def _abandon(self, how: Ending, note: str = "") -> None:
        """End every exchange of this connection that is still open."""
        left = [self._now, *self._waiting]
        self._now = None
        self._waiting.clear()
        for exchange in left:
            if exchange is not None:
                exchange.end(how, note)
                self._tap.ended(exchange)


def _host(head: Head) -> str:
    """Return the name in the Host field, without a port."""
    named = (head.get(b"host") or b"").decode("latin-1")
    return named if named.endswith("]") else named.rpartition(":")[0] or named


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as an upstream that reset it did."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
