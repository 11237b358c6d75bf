"""Connections: the MCP servers of this kernel: which a person said yes to, connected, and told.

May not start one of a project's file before it is trusted; each change of a state is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_kernel.core.events import McpConnected
from agent_kernel.tools import mcp_config
from agent_kernel.tools.mcp import Server, Servers

if TYPE_CHECKING:
    from agent_kernel.kernel.workbench import Workbench

PROJECT_FILE = ".mcp.json"
PATIENCE = 5.0  # seconds a turn waits for servers; later ones join at a step boundary
CLOSING_SECONDS = 8.0


class Connections:
    """The servers that may run; they are connected at the first turn, on the runtime's loop."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self.servers: Servers | None = None
        self.problems: list[str] = []
        self._known: list[mcp_config.ServerConfig] = []
        self._serving: Callable[[], None] = lambda: None
        self._logged: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._connecting: asyncio.Future[None] | None = None

    def configs(self) -> list[mcp_config.ServerConfig]:
        """Return the servers of files that count; what is wrong with others is in `problems`."""
        settings, self.problems = self._bench.settings, []
        found: dict[str, mcp_config.ServerConfig] = {}
        for source in settings.counting("mcpServers"):
            try:
                configs, problems = mcp_config.read(Path(source.path), settings.env)
            except ValueError as error:
                self.problems.append(str(error))
                continue
            self.problems += problems
            found.update({config.name: config for config in configs})
        return [found[name] for name in sorted(found)]

    def waiting(self) -> list[str]:
        """Return the names of servers in a project's file that nobody trusts yet."""
        trusted = self._bench.settings.trusted()
        return [
            str(name)
            for source in self._bench.settings.sources()
            if source.project and source.path not in trusted
            for name in sorted(source.data.get("mcpServers") or {})
        ]

    async def ready(self) -> None:
        """Connect what may be connected and is not; one that takes long joins later."""
        wanted = self.configs()
        if wanted != self._known:
            await self._replace(wanted)
        if self.servers is not None and self._connecting is not None:
            await asyncio.wait([self._connecting], timeout=PATIENCE)

    async def _replace(self, wanted: list[mcp_config.ServerConfig]) -> None:
        if self.servers is not None:
            await self.servers.close()
        self._known = wanted
        folder = self._bench.session.folder
        self.servers = Servers(wanted, folder / "mcp" if folder else None, self._changed)
        self._connecting = asyncio.ensure_future(self.servers.connect())

    def serve(self, again: Callable[[], None]) -> None:
        """Call `again` when a list of tools changes, while this turn runs."""
        self._serving = again
        for server in self.servers.servers.values() if self.servers is not None else ():
            self._log(server)

    def _changed(self, server: Server) -> None:
        """Take a server's news: logged, and the running turn's tools made anew."""
        self._log(server)
        self._serving()

    def _log(self, server: Server) -> None:
        state, session = server.state, self._bench.session
        told = (state.status, state.tools, state.detail)
        key = (session.id, state.name)
        if state.status == "connecting" or self._logged.get(key) == told:
            return
        if not len(session.log) or session.log.read_only:
            return  # nothing is written before a turn is
        self._logged[key] = told
        session.append(
            McpConnected(
                server=state.name,
                status=state.status,
                tools=state.tools,
                detail=state.detail or None,
            )
        )

    def close(self) -> None:
        """End every connection, from the main thread."""
        if self.servers is None:
            return
        work = asyncio.run_coroutine_threadsafe(self.servers.close(), self._bench.runtime.loop)
        with suppress(TimeoutError):
            work.result(CLOSING_SECONDS)
