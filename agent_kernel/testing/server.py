"""Server: a Messages API on the loopback, in its own thread, with faults on demand.

May not reach any other host and may not load the client it serves.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from types import TracebackType
from typing import Any, Self

import agent_kernel.testing.cache as cache
import agent_kernel.testing.checks as checks
import agent_kernel.testing.faults as faults
import agent_kernel.testing.wire as wire
from agent_kernel.core.model import ModelProfile
from agent_kernel.testing.scenario import Answer, Json, Scenario, Script

PROFILE = ModelProfile(
    "loopback", thinking="adaptive", mid_system=True, deferred_tools=True, min_cacheable=1024
)
MODELS: tuple[Json, ...] = tuple(
    {
        "type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active", "max_input_tokens": window, "max_tokens": most,
    }
    for name, window, most in (
        ("claude-sonnet-5-5", 200_000, 64_000),
        ("claude-haiku-5-5", 200_000, 64_000),
        ("demo", 200_000, 8_192),
    )
)  # fmt: skip


@dataclass(slots=True)
class Recorded:
    """One request as it came: `n` from 0, `at` in seconds since the epoch, exact `body` bytes."""

    n: int
    at: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reply: str = ""
    closed_at: float | None = field(default=None)

    @property
    def json(self) -> Any:
        """The body parsed. Raises ValueError when it is no JSON."""
        return json.loads(self.body)


class MessagesServer:
    """`with MessagesServer(scenario) as s:` serves `s.base_url` and keeps `s.requests`.

    `scenario` is a Scenario, its JSON object or None; `answer(request_json)` gives the message
    where the scenario has none. `strict` refuses what the API refuses, read with `profile`;
    `min_cacheable` and `lookback_blocks` of the profile rule the prompt cache.
    """

    def __init__(
        self,
        scenario: Scenario | Mapping[str, Any] | None = None,
        answer: Answer | None = None,
        *,
        strict: bool = True,
        port: int = 0,
        profile: ModelProfile = PROFILE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        made = Scenario.of(scenario) if isinstance(scenario, Mapping) else scenario
        self.requests: list[Recorded] = []
        self.answer = answer
        self.strict = strict
        self.profile = profile
        self._script = Script(made)
        self._cache = cache.PrefixCache(profile.min_cacheable, profile.lookback_blocks, clock)
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self.base_url = ""

    def start(self) -> Self:
        """Serve from now on; returns itself with `base_url` set."""
        self._thread = threading.Thread(target=self._run, name="messages-server", daemon=True)
        self._thread.start()
        future = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        port = future.result(10)
        self.base_url = f"http://127.0.0.1:{port}"
        return self

    def stop(self) -> None:
        """Close every connection and end the thread."""
        if self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
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

    @property
    def messages(self) -> list[Recorded]:
        """The requests to POST /v1/messages, in order."""
        return [r for r in self.requests if r.path == "/v1/messages" and r.method == "POST"]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", self._port)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # ---- one connection -----------------------------------------------------------------------

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the server stops: what was sent is in `requests`
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; returns whether the connection may be used again."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        body = await reader.readexactly(int(headers.get("content-length") or 0))
        path = path.partition("?")[0]
        record = Recorded(len(self.requests), time.time(), method, path, headers, body)
        self.requests.append(record)
        plan = await self._plan(record)
        record.reply = plan.name
        try:
            kept = headers.get("connection", "").lower() != "close"
            return await _send(reader, writer, plan, record.n) and kept
        finally:
            record.closed_at = time.time()

    async def _plan(self, record: Recorded) -> faults.Plan:
        request_id = _request_id(record.n)
        if not _key_given(record.headers):
            return _error(
                "auth", 401, "authentication_error", "x-api-key header is required", request_id
            )
        route = f"{record.method} {record.path}"
        if route == "GET /v1/models":
            return _plain("models", {"data": list(MODELS), "has_more": False})
        if route not in ("POST /v1/messages", "POST /v1/messages/count_tokens"):
            return _error("not_found", 404, "not_found_error", f"{route}: Not Found", request_id)
        try:
            body = json.loads(record.body)
        except ValueError:
            text = "the request body is not valid JSON"
            return _error("bad_request", 400, "invalid_request_error", text, request_id)
        if route.endswith("count_tokens"):
            return _plain("count_tokens", {"input_tokens": cache.count(body)})
        why = checks.refusal(body, record.headers, self.profile) if self.strict else None
        if why is not None:
            return _error("strict", 400, "invalid_request_error", why, request_id)
        return await self._answer(body, record, request_id)

    async def _answer(self, body: Json, record: Recorded, request_id: str) -> faults.Plan:
        reply = self._script.next(body, record.body)
        if reply is None:
            given = self.answer(body) if self.answer else None
            reply = {"message": given} if given is not None else {}
        name = reply.get("fault")
        if name == "slow_headers":
            await asyncio.sleep(reply.get("seconds", 3600))
        if name in faults.HTTP:
            return faults.http_plan(reply, str(body.get("model")), request_id)
        message = faults.message_of(reply)
        usage = self._cache.usage(body)
        usage["output_tokens"] = cache.tokens_of(message.get("content", []))
        whole = wire.finished(message, record.n, str(body.get("model")), usage)
        if body.get("stream") is not True:
            return _plain("message", whole)
        return faults.stream_plan(reply, whole)


def _request_id(n: int) -> str:
    return f"req_{n:06d}"


def _key_given(headers: Mapping[str, str]) -> bool:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return bool(headers.get("x-api-key")) or (scheme.lower() == "bearer" and bool(token.strip()))


def _error(name: str, status: int, kind: str, text: str, request_id: str) -> faults.Plan:
    data = json.dumps(wire.error_body(kind, text, request_id)).encode()
    return faults.Plan(name, status, {}, (data,), stream=False)


def _plain(name: str, value: Json) -> faults.Plan:
    return faults.Plan(
        name, 200, {}, (json.dumps(value, ensure_ascii=False).encode(),), stream=False
    )


async def _send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plan: faults.Plan, n: int
) -> bool:
    """Send one plan; returns whether the connection may be used again."""
    headers = {
        "content-type": "text/event-stream; charset=utf-8" if plan.stream else "application/json",
        "request-id": _request_id(n),
        "date": formatdate(usegmt=True),
        **plan.headers,
    }
    if plan.stream:
        headers["transfer-encoding"] = "chunked"
    else:
        headers["content-length"] = str(sum(len(s) for s in plan.steps if isinstance(s, bytes)))
    lines = [f"HTTP/1.1 {plan.status} {_reason(plan.status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    for step in plan.steps:
        if isinstance(step, faults.Reset):
            _reset(writer)
            return False
        if isinstance(step, faults.Wait):
            await writer.drain()
            await _wait(reader, step.seconds)
        else:
            writer.write(b"%x\r\n%s\r\n" % (len(step), step) if plan.stream else step)
            await writer.drain()
    if plan.stream:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _wait(reader: asyncio.StreamReader, seconds: float) -> None:
    """Wait, but no longer than the client stays. Raises ConnectionError when it went away."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 0.02))
        if reader.at_eof():
            raise ConnectionResetError("the client closed the connection")


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _reason(status: int) -> str:
    names = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many"}
    return names.get(status, "Status")
