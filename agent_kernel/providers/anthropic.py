"""Anthropic: the Messages API through the official client, the exact bytes of the request sent.

May not retry, wait or change a request; the client is imported at the first stream only.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib
import json
import time
import urllib.request
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.core.model import (
    Endpoint,
    ModelInfo,
    ProviderError,
    Request,
    StreamEvent,
)
from agent_kernel.providers.assemble import Assembly
from agent_kernel.providers.endpoints import ANTHROPIC_URL, endpoint_of, is_loopback
from agent_kernel.providers.errors import Where, of_event, provider_error
from agent_kernel.providers.keys import Key, looked_at

# Wraps the client's transport: a cassette records or replays below parsing and retry.
Wrap = Callable[[Any], Any]
_BETA_FIELDS = frozenset(
    {"billing_policy", "compaction", "context_management", "fallbacks", "mcp_servers", "thread"}
)
_COUNTED = ("model", "system", "tools", "messages", "thinking", "tool_choice")


class Anthropic:
    """A provider over HTTP: `key` None is allowed on this machine only, or when `keyless`.

    `wrap` is given the httpx2 transport and returns the one that is used; `clock` is in seconds.
    """

    name = "anthropic"

    def __init__(
        self,
        base_url: str | None = None,
        key: Key | None = None,
        *,
        endpoint: Endpoint | None = None,
        wrap: Wrap | None = None,
        keyless: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base_url = (base_url or ANTHROPIC_URL).rstrip("/")
        self.endpoint = endpoint or endpoint_of(self.base_url)
        self._key = key
        self._wrap = wrap
        self._keyless = keyless or is_loopback(self.base_url)
        self._clock = clock
        # A client's connections belong to one event loop; each loop has its own.
        self._clients: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Yield the events of one request. Raises ProviderError; closing ends the connection."""
        headers = self._headers(request)
        where = Where(self.base_url, self._key, request.model)
        client = await self._client()
        started = self._clock()
        assembly = Assembly(self._clock, started)
        try:
            async with aclosing(self._events(client, request, headers, assembly, where)) as events:
                async for event in events:
                    yield event
        except ProviderError as error:
            await self._name_models(error, request.model)
            raise
        yield assembly.done()

    async def _events(
        self, client: Any, request: Request, headers: Json, assembly: Assembly, where: Where
    ) -> AsyncGenerator[StreamEvent]:
        from anthropic import APIError, AsyncStream
        from httpx2 import HTTPError

        try:
            stream = await client.post(
                "/v1/messages",
                content=request.body,
                cast_to=object,
                options={"headers": headers},
                stream=True,
                stream_cls=AsyncStream[object],
            )
            assembly.request_id = stream.response.headers.get("request-id")
            async with stream:
                async for raw in stream:
                    if isinstance(raw, dict) and raw.get("type") == "error":
                        raise of_event(raw, where, assembly.request_id)
                    for event in assembly.feed(raw):
                        yield event
        except ProviderError as error:
            error.partial = error.partial or assembly.partial()
            raise
        except (APIError, HTTPError, json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
            made = provider_error(error, where, assembly.partial())
            made.request_id = made.request_id or assembly.request_id
            raise made from error

    def _headers(self, request: Request) -> Json:
        """The headers of one request; no beta leaves for a host that has none."""
        from anthropic import omit

        self._refuse(request)
        out: Json = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        out["anthropic-beta"] = ",".join(request.betas) if request.betas else omit
        if not self.endpoint.betas:
            out["anthropic-beta"] = omit
        key = self._key.value if self._key else "none"
        bearer = self.endpoint.auth != "x-api-key" or (self._key is not None and self._key.bearer)
        out["Authorization"] = f"Bearer {key}" if bearer else omit
        out["X-Api-Key"] = omit if self.endpoint.auth == "bearer" else key
        return out

    def _refuse(self, request: Request) -> None:
        """Raise ProviderError for what must not or cannot leave for this host."""
        if self._key is None and not self._keyless:
            raise ProviderError(
                "auth",
                f"no key for {self.base_url}: looked at {looked_at()}; set one of them, choose a "
                "local model with `%agent model local`, or use `%agent model demo`",
            )
        fields = sorted(_BETA_FIELDS.intersection(request.params))
        if fields and not self.endpoint.betas:
            raise ProviderError(
                "request",
                f"the field {fields[0]!r} is a beta that endpoint {self.endpoint.name!r} does not "
                "have; leave it out, or set endpoint.betas by hand",
            )

    async def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        held = self._clients.get(loop)
        if held is None:
            # Seconds of import: in a thread, so that the loop still hears an interrupt.
            await asyncio.to_thread(warm)
            held = self._clients.get(loop)  # another stream may have made it meanwhile
        if held is None:
            held = self._clients[loop] = self._make_client()
        return held

    def _make_client(self) -> Any:
        import httpx2
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        transport: Any = httpx2.AsyncHTTPTransport(proxy=_proxy_for(self.base_url))
        if self._wrap is not None:
            transport = self._wrap(transport)
        return AsyncAnthropic(
            api_key=self._key.value if self._key else "none",
            base_url=self.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(connect=10, read=None, write=60, pool=10),
            http_client=DefaultAsyncHttpxClient(transport=transport),
        )

    async def close(self) -> None:
        """Close the connections of the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def count(self, request: Request) -> int | None:
        """Return the request's input tokens, None when this host cannot or does not say."""
        if not self.endpoint.count_tokens:
            return None
        body = json.loads(request.body)
        counted = {name: body[name] for name in _COUNTED if name in body}
        try:
            answer = await self._ask("POST", "/v1/messages/count_tokens", request, counted)
        except ProviderError:
            return None  # a count is an estimate's better half: the meter goes on without it
        tokens = answer.get("input_tokens")
        return tokens if isinstance(tokens, int) else None

    async def models(self) -> list[ModelInfo]:
        """Return the host's models, [] when it cannot say. Raises ProviderError otherwise."""
        if not self.endpoint.models:
            return []
        try:
            answer = await self._ask("GET", "/v1/models", Request("", ()), None)
        except ProviderError as error:
            if error.kind in ("not_found", "request"):
                return []
            raise
        rows = [row for row in answer.get("data") or () if isinstance(row, dict)]
        return [
            ModelInfo(str(row.get("id")), row.get("max_input_tokens"), row.get("max_tokens"))
            for row in rows
        ]

    async def _ask(self, method: str, path: str, request: Request, body: Json | None) -> Json:
        client = await self._client()
        headers = {**self._headers(request), "Accept": "application/json"}
        from anthropic import APIError
        from httpx2 import HTTPError

        try:
            if method == "GET":
                answer = await client.get(path, cast_to=object, options={"headers": headers})
            else:
                answer = await client.post(
                    path, cast_to=object, body=body, options={"headers": headers}
                )
        except (APIError, HTTPError, json.JSONDecodeError, OSError) as error:
            raise provider_error(error, Where(self.base_url, self._key, request.model)) from error
        return answer if isinstance(answer, dict) else {}

    async def _name_models(self, error: ProviderError, wanted: str) -> None:
        """Add the nearest model ids to a 404, where the host lists its models."""
        if error.kind != "not_found":
            return
        try:
            known = [info.id for info in await self.models()]
        except ProviderError:
            return  # the first error is the one to show
        near = difflib.get_close_matches(wanted, known, 3, 0.3) or known[:3]
        if near:
            error.text += f"; the nearest it has: {', '.join(near)}"


def warm() -> None:
    """Import the client and its transport (seconds); a thread may do it before the first stream."""
    for name in ("anthropic", "httpx2"):
        importlib.import_module(name)


def _proxy_for(base_url: str) -> str | None:
    """The environment's proxy for this address; an own transport must ask for it itself."""
    if is_loopback(base_url):
        return None
    scheme, _, rest = base_url.partition("://")
    host = rest.partition("/")[0]
    if urllib.request.proxy_bypass(host.partition(":")[0]):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(scheme) or proxies.get("all")
