"""MCP: tools of other people's servers as ours: deferred, fenced, pinned by hash.

May not believe a server about itself, and may not hide that one was lost: that is said once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import agent_kernel.tools.mcp_content as mcp_content
from agent_kernel.core.messages import Json
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError
from agent_kernel.guard.process import child_env
from agent_kernel.tools.mcp_config import ServerConfig
from agent_kernel.tools.mcp_listen import listening

if TYPE_CHECKING:
    from mcp import Client

CONNECT, CALL = 30.0, 60.0  # seconds
RESTARTS = 3
PAGES = 50  # of a listing
Notice = Callable[["Server"], None]


@dataclass(frozen=True)
class State:
    """A server as people and the section `deferred_tools` see it; `detail`: why it is not up."""

    name: str
    status: str  # connecting, connected, failed, lost
    tools: tuple[str, ...] = ()
    instructions: str = ""
    detail: str = ""


class ReadInput(Input):
    """Input of `mcp__server__read_resource`."""

    uri: str


@dataclass
class Server:
    """One server's connection, kept by a task of its own on the loop that connected it."""

    config: ServerConfig
    log_folder: Path | None
    notice: Notice
    status: str = "connecting"
    detail: str = ""
    instructions: str = ""
    listed: tuple[Any, ...] = ()  # the server's own tool objects
    resources: tuple[Any, ...] | None = None  # None: it has no resources
    restarts: int = 0
    pins: dict[str, str] = field(default_factory=dict)
    _client: Client | None = None
    _task: asyncio.Task[None] | None = None
    _end: asyncio.Event = field(default_factory=asyncio.Event)
    _relisting: asyncio.Task[None] | None = None

    # ---- connecting ------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect within 30 s; afterwards the status is connected or failed, never an exception."""
        self._end = asyncio.Event()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready), name=f"mcp {self.config.name}")
        try:
            await asyncio.wait_for(asyncio.shield(ready), CONNECT)
            self._become("connected")
        except TimeoutError:
            self._become("failed", f"no answer within {CONNECT:.0f} s")
            await self.close()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's server does, others go on
            self._become("failed", words(error))
            await self.close()

    async def _live(self, ready: asyncio.Future[None]) -> None:
        """Hold the connection open until `close`: enter and exit in one task, as anyio wants it."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = await self._entered(stack)
                self._client = client
                await self.refresh()
                self.instructions = mcp_content.description(client.instructions)
                if not ready.done():
                    ready.set_result(None)
                async with listening(client, self._relist):
                    await self._end.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error if isinstance(error, Exception) else ConnectionError("ended"))
        finally:
            self._client = None

    async def _entered(self, stack: contextlib.AsyncExitStack) -> Client:
        from mcp import Client  # half a second: only when a server is configured

        return await stack.enter_async_context(
            Client(
                self._transport(stack),
                read_timeout_seconds=CALL,
                message_handler=self._heard,
                cache=None,
            )
        )

    def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        config = self.config
        if config.server is not None:
            return config.server
        if config.url is not None:
            return _http(config, stack)
        from mcp import StdioServerParameters, stdio_client

        assert config.command is not None
        parameters = StdioServerParameters(
            command=config.command,
            args=list(config.args),
            env=child_env(dict(config.env)),
            cwd=config.cwd,
            encoding_error_handler="replace",
        )
        return stdio_client(parameters, errlog=self._errlog(stack))

    def _errlog(self, stack: contextlib.AsyncExitStack) -> TextIO:
        """Where the server's stderr goes: its own file, never ours."""
        path = Path(os.devnull)
        if self.log_folder is not None:
            self.log_folder.mkdir(parents=True, exist_ok=True)
            path = self.log_folder / f"{self.config.name}.log"
        return stack.enter_context(path.open("a", encoding="utf-8"))

    async def close(self) -> None:
        """End the connection and what was started for it."""
        self._end.set()
        task, self._task = self._task, None
        if task is None:
            return
        patience = 5.0 if self._client is not None else 0.0  # one that never came up is cut off
        done, _ = await asyncio.wait({task}, timeout=patience)
        if not done:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _become(self, status: str, detail: str = "") -> None:
        self.status, self.detail = status, detail
        self.notice(self)

    # ---- listing ---------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Ask for the server's tools and resources anew."""
        client = self._client
        assert client is not None
        self.listed = tuple(await _pages(client.list_tools, "tools"))
        if client.server_capabilities.resources is not None:
            self.resources = tuple(await _pages(client.list_resources, "resources"))
        for each in self.listed:
            name = mcp_content.tool_name(self.config.name, each.name)
            self.pins.setdefault(name, _pin(each))

    async def _heard(self, message: Any) -> None:
        """Take a notification: a changed list is read again, and said."""
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            asyncio.get_running_loop().call_soon(self._relist)

    def _relist(self) -> None:
        async def work() -> None:
            await self.refresh()
            self._become(self.status)

        if self._client is not None:
            self._relisting = asyncio.create_task(work())

    @property
    def state(self) -> State:
        """The server as it is now."""
        names = tuple(tool.name for tool in self.tools())
        return State(self.config.name, self.status, names, self.instructions, self.detail)

    def tools(self) -> list[Tool]:
        """Return the server's tools as ours, by name; a lost server keeps its own."""
        made = {tool.name: tool for tool in map(self._tool, self.listed)}
        if self.resources is not None:
            reader = self._reader()
            made[reader.name] = reader
        return [made[name] for name in sorted(made)]

    def changed(self) -> list[str]:
        """Return the names of tools that are no longer as they were accepted."""
        now = {mcp_content.tool_name(self.config.name, each.name): each for each in self.listed}
        return [name for name, each in now.items() if self.pins.get(name) != _pin(each)]

    def accept(self, name: str) -> None:
        """Take a tool as it is now: a person has seen its changed description or schema."""
        for each in self.listed:
            if mcp_content.tool_name(self.config.name, each.name) == name:
                self.pins[name] = _pin(each)

    def _tool(self, listed: Any) -> Tool:
        name = mcp_content.tool_name(self.config.name, listed.name)
        read_only = listed.name in self.config.read_only

        async def run(value: Json, ctx: ToolContext) -> Answer:
            if self.pins.get(name) != _pin(listed):
                raise ToolError(
                    f"{self.config.name!r} changed the description or schema of {name!r} since it "
                    "was first listed; a person has to accept it",
                    {"error_kind": "changed_tool"},
                )
            return await self.call(listed.name, value, ctx)

        return Tool(
            name,
            mcp_content.description(listed.description),
            dict(listed.input_schema),
            run,
            concurrent=read_only,
            read_only=read_only,
            deferred=not self.config.always_load,
            timeout=CALL + CONNECT + 10,
        )

    def _reader(self) -> Tool:
        lines = [f"{each.uri} ({each.name})" for each in self.resources or ()]
        known = mcp_content.description("; ".join(lines))

        async def run(value: ReadInput, _ctx: ToolContext) -> Answer:
            found = await self._guarded(lambda client: client.read_resource(value.uri))
            text = "\n".join(map(mcp_content.resource, found.contents))
            return Answer(mcp_content.blocks(self.config.name, [], text), self._meta(value.uri))

        return Tool(
            f"mcp__{self.config.name}__read_resource",
            f"Read a resource of the server {self.config.name}: {known or 'none listed'}",
            ReadInput,
            run,
            deferred=not self.config.always_load,
            timeout=CALL + CONNECT + 10,
        )

    # ---- calling ---------------------------------------------------------------------------------

    async def call(self, name: str, value: Json, ctx: ToolContext) -> Answer:
        """Call a tool. Raises ToolError when the server says so, is silent, or is gone."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            of = f"/{total:g}" if total else ""
            ctx.progress(f"{progress:g}{of} {message or ''}".strip())

        found = await self._guarded(
            lambda client: client.call_tool(name, value, CALL, progress_callback=told)
        )
        content = mcp_content.blocks(
            self.config.name, found.content, getattr(found, "structured_content", None)
        )
        if found.is_error:
            text = "\n".join(getattr(block, "text", "") for block in content).strip()
            raise ToolError(text, {**self._meta(name), "error_kind": "mcp"})
        return Answer(content, self._meta(name))

    def _meta(self, name: str) -> Json:
        return {"provider": self.config.name, "mcp": name, "taint": "mcp"}

    async def _guarded(self, ask: Callable[[Client], Any]) -> Any:
        """Ask a live server; one that is gone is restarted, at most 3 times in all."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if self._client is None:
            await self._restart()
        client = self._client
        if client is None:
            raise ToolError(f"the server {self.config.name!r} is gone: {self.detail}")
        try:
            return await ask(client)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                said = mcp_content.description(error.message)
                raise ToolError(f"{self.config.name!r} answers: {said}") from None
            await self._lost(words(error))
        except (OSError, RuntimeError) as error:
            await self._lost(words(error))
        raise ToolError(
            f"the server {self.config.name!r} was lost during this call, its outcome is unknown; "
            "look before you repeat it"
        )

    async def _lost(self, why: str) -> None:
        self._become("lost", why)
        await self.close()

    async def _restart(self) -> None:
        if self.restarts >= RESTARTS:
            raise ToolError(
                f"the server {self.config.name!r} is gone ({self.detail}) after {RESTARTS} restarts"
            )
        self.restarts += 1
        await self.connect()


def _pin(listed: Any) -> str:
    return mcp_content.pin(listed.name, listed.description, dict(listed.input_schema))


def words(error: BaseException) -> str:
    """Return the innermost reason of an error, also of a group."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:300]


async def _pages(ask: Callable[..., Any], key: str) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await ask(cursor=cursor)
        found += getattr(page, key)
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _http(config: ServerConfig, stack: contextlib.AsyncExitStack) -> Any:
    """The streamable HTTP transport, with the headers a person set."""
    from mcp.client.streamable_http import streamable_http_client

    assert config.url is not None
    if not config.headers:
        return streamable_http_client(config.url)
    from mcp.shared._httpx_utils import create_mcp_http_client

    client = create_mcp_http_client(headers=dict(config.headers))
    stack.push_async_callback(client.aclose)
    return streamable_http_client(config.url, http_client=client)


class Servers:
    """All configured servers, connected together and listed by name."""

    def __init__(
        self,
        configs: Iterable[ServerConfig],
        log_folder: Path | None = None,
        notice: Notice = lambda _server: None,
    ) -> None:
        """Hold the servers; `notice` is called at every change of one's status or list.

        Raises ValueError when two have one name.
        """
        found: dict[str, Server] = {}
        for config in sorted(configs, key=lambda each: each.name):
            if config.name in found:
                raise ValueError(f"two MCP servers are called {config.name!r}; rename one")
            found[config.name] = Server(config, log_folder, notice)
        self.servers = found

    async def connect(self) -> None:
        """Connect all at once, each within 30 s; the failed ones say why in their state."""
        await asyncio.gather(*(server.connect() for server in self.servers.values()))

    async def close(self) -> None:
        """End every connection."""
        await asyncio.gather(*(server.close() for server in self.servers.values()))

    def states(self) -> list[State]:
        """Return every server as it is now, by name."""
        return [server.state for server in self.servers.values()]

    def tools(self) -> list[Tool]:
        """Return all servers' tools, by server then tool."""
        return [tool for server in self.servers.values() for tool in server.tools()]

    def changed(self) -> frozenset[str]:
        """Return the tools whose description or schema is not the one that was accepted."""
        return frozenset(name for server in self.servers.values() for name in server.changed())

    def pins(self) -> dict[str, str]:
        """Return the accepted hash of every tool, by its full name."""
        return {n: p for server in self.servers.values() for n, p in sorted(server.pins.items())}
