"""LSP server: one language server a workspace and language, started on call, stopped when idle.

May not start a program a person did not configure, but for `ty` of the extra `lsp`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import shutil
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import agent_kernel.tools.files as files
from agent_kernel.core.tool import ToolContext, ToolError
from agent_kernel.guard.process import child_env
from agent_kernel.tools.lsp_client import Client, RpcError, ServerEnded
from agent_kernel.tools.lsp_documents import Documents

IDLE = 600.0  # seconds without a call


def ty() -> list[str] | None:
    """Return the command of ty, beside this Python or on PATH; None when it is not installed."""
    try:
        found: Any = importlib.import_module("ty")
    except ImportError:
        program = shutil.which("ty", path=child_env()["PATH"])
        return [program, "server"] if program else None
    with contextlib.suppress(FileNotFoundError):
        return [found.find_ty_bin(), "server"]
    beside = Path(sys.executable).with_name("ty")
    return [str(beside), "server"] if beside.exists() else None


def command(ctx: ToolContext, language: str) -> Sequence[str]:
    """Return the command of a language's server. Raises ToolError saying how to get one."""
    given: Mapping[str, Sequence[str]] = ctx.services.get("lsp", {})
    if language in given:
        return given[language]
    if language == "python":
        if found := ty():
            return found
        raise ToolError("no language server for Python: pip install 'agent-kernel[lsp]'")
    known = ", ".join(sorted({"python", *given}))
    raise ToolError(f"no language server is configured for {language}; there are: {known}")


class Server:
    """A running server with the documents it was shown; it is closed after 10 idle minutes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.documents = Documents(client.notify)
        self.asked = 0  # questions so far: the first one finds it cold
        self._timer: threading.Timer | None = None

    def touch(self) -> None:
        """Count the idle time from now."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(IDLE, self.client.close)
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """Stop the server."""
        if self._timer is not None:
            self._timer.cancel()
        self.client.close()


_SERVERS: dict[tuple[Path, str, tuple[str, ...]], Server] = {}
_LOCKS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
    weakref.WeakKeyDictionary()
)


async def server_of(ctx: ToolContext, language: str, timeout: float) -> Server:
    """Return the live server of this workspace and language, started when there is none."""
    argv = command(ctx, language)
    key = (files.root(ctx), language, tuple(argv))
    lock = _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with lock:  # two calls of one batch must not start two servers
        found = _SERVERS.get(key)
        if found is None or not found.client.alive:
            found = _SERVERS[key] = Server(await _started(argv, files.root(ctx), timeout))
        found.touch()
        return found


async def _started(argv: Sequence[str], root: Path, timeout: float) -> Client:
    try:
        client = await asyncio.to_thread(Client, argv, root)
    except OSError as error:
        raise ToolError(f"{argv[0]!r} cannot be started: {error.strerror or error}") from None
    try:
        await client.start(timeout)
    except (RpcError, ServerEnded, TimeoutError) as error:
        client.close()
        words = str(error) or "no answer in time"
        raise ToolError(f"{argv[0]!r} did not start as a language server: {words}") from None
    except asyncio.CancelledError:
        client.close()
        raise
    return client


def close_all() -> None:
    """Stop every server."""
    for server in list(_SERVERS.values()):
        server.close()
    _SERVERS.clear()


atexit.register(close_all)
