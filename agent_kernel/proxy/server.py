"""Server: the proxy on 127.0.0.1, any free port, in a thread of its own.

May not listen on any other address, and knows nothing of what is written.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from agent_kernel.proxy.relay import Relay, Tap
from agent_kernel.proxy.upstream import Upstream

_START_SECONDS = 10.0
_BACKLOG = 512


class Server:
    """`with Server(upstream, tap) as s:` relays what comes to `s.base_url`."""

    def __init__(self, upstream: Upstream, tap: Tap) -> None:
        self.base_url = ""
        self._upstream = upstream
        self._tap = tap
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None

    def start(self) -> Self:
        """Listen from now on; returns itself with `base_url` set."""
        self._thread = threading.Thread(target=self._run, name="proxy-relay", daemon=True)
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_START_SECONDS)
        self.base_url = f"http://127.0.0.1:{port}"
        return self

    def stop(self) -> None:
        """End every connection, then the thread."""
        if self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(
            self._connection, "127.0.0.1", 0, backlog=_BACKLOG
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # When the proxy stops, what passed is recorded and both sides are closed.
        with suppress(asyncio.CancelledError):
            await Relay((reader, writer), self._upstream, self._tap).serve()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
