"""Cassette transport: between the client and its socket; every byte passes here once.

May not decide what is kept: the cassette does. Loaded with the client only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2  # noqa: TID253 - this module is imported where the client is

from agent_kernel.providers.cassette import Cassette
from agent_kernel.providers.cassette_file import Exchange, kept_headers

About = tuple[str, str, str, Any]  # key, method, path, canonical body
Chunks = list[tuple[int, bytes]]


class _Played(httpx2.AsyncByteStream):
    """A recorded body: the same chunks, then the same end."""

    def __init__(self, tape: Cassette, exchange: Exchange, request: httpx2.Request) -> None:
        self.tape = tape
        self.exchange = exchange
        self.request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        before = 0
        for ms, data in self.exchange.chunks:
            if self.tape.speed and ms > before:
                await self.tape.sleep((ms - before) / 1000 * self.tape.speed)
            before = ms
            yield data
        if self.exchange.end != "eof":
            raise _error(self.exchange.end, self.request)


class _Recorded(httpx2.AsyncByteStream):
    """A body on its way: each chunk is passed on as it comes, all are kept at its end."""

    def __init__(self, tape: Cassette, stream: Any, keep: Callable[[Chunks, str], None]) -> None:
        self.tape = tape
        self.stream = stream
        self.keep = keep
        self.begun = tape.clock()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks: Chunks = []
        try:
            async for data in self.stream:
                chunks.append((int((self.tape.clock() - self.begun) * 1000), data))
                yield data
        except httpx2.HTTPError as error:
            self.keep(chunks, type(error).__name__)
            raise
        self.keep(chunks, "eof")

    async def aclose(self) -> None:
        """Close the real stream."""
        await self.stream.aclose()


class Transport(httpx2.AsyncBaseTransport):
    """Plays from `tape`, or records what `inner` carries."""

    def __init__(self, tape: Cassette, inner: Any) -> None:
        self.tape = tape
        self.inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the recorded or the real answer. Raises ProviderError for a miss."""
        raw = await request.aread()
        path = request.url.raw_path.decode("ascii")
        key, body, found = self.tape.find(request.method, path, raw)
        if found is not None and self.tape.offline:
            return self._play(found, request)
        if self.tape.mode == "replay":
            raise self.tape.miss(key, body)
        return await self._record(request, (key, request.method, path, body), found)

    def _play(self, found: Exchange, request: httpx2.Request) -> httpx2.Response:
        if found.status is None:
            raise _error(found.end, request)
        stream = _Played(self.tape, found, request)
        return httpx2.Response(found.status, headers=found.headers, stream=stream)

    async def _record(
        self, request: httpx2.Request, about: About, old: Exchange | None
    ) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"  # packed text cannot be redacted
        try:
            response: httpx2.Response = await self.inner.handle_async_request(request)
        except httpx2.HTTPError as error:
            self.tape.keep(Exchange(*about, None, {}, (), type(error).__name__), old)
            raise
        headers = kept_headers(iter(response.headers.items()))

        def keep(chunks: Chunks, end: str) -> None:
            made = Exchange(*about, response.status_code, headers, tuple(chunks), end)
            self.tape.keep(made, old)

        response.stream = _Recorded(self.tape, response.stream, keep)
        return response

    async def aclose(self) -> None:
        """Close the real transport."""
        await self.inner.aclose()


def _error(name: str, request: httpx2.Request) -> Exception:
    kind = getattr(httpx2, name, httpx2.ReadError)
    made: Exception = kind(f"recorded {name}", request=request)
    return made
