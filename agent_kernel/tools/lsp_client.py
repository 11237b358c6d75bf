"""LSP client: a language server spoken to by JSON-RPC over its stdin and stdout.

May not apply an edit a server asks for, and may not leave a server running when it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from agent_kernel.core.messages import Json
from agent_kernel.guard.process import child_env

STDERR_LINES = 20
SILENT = (  # requests whose answer is null
    "client/registerCapability",
    "client/unregisterCapability",
    "window/workDoneProgress/create",
    "window/showMessageRequest",
    "workspace/workspaceFolders",
)
CLIENT: Json = {
    "general": {"positionEncodings": ["utf-8", "utf-16"]},
    "workspace": {
        "workspaceFolders": True,
        "configuration": True,
        "symbol": {},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "diagnostics": {"refreshSupport": False},
    },
    "textDocument": {
        "synchronization": {"dynamicRegistration": False},
        "definition": {"linkSupport": False},
        "references": {},
        "implementation": {"linkSupport": False},
        "hover": {"contentFormat": ["plaintext", "markdown"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "publishDiagnostics": {"versionSupport": False},
        "diagnostic": {"dynamicRegistration": False},
        "callHierarchy": {},
    },
    "notebookDocument": {"synchronization": {}},
    "window": {"workDoneProgress": True},
}


class ServerEnded(Exception):
    """The server's process ended; the text holds the end of its stderr."""


class RpcError(Exception):
    """The server answered a request with an error, in its words; `code` as in LSP 3.17."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class Client:
    """One running server; requests may come from any event loop."""

    def __init__(self, argv: Sequence[str], root: Path) -> None:
        """Start the server in `root`. Raises FileNotFoundError when there is no such program."""
        self.argv = tuple(argv)
        self.root = root
        self.capabilities: Json = {}
        self.encoding = "utf-16"
        self.published: dict[str, list[Json]] = {}
        self.publications: defaultdict[str, int] = defaultdict(int)
        self._waiting: dict[int, Future[Any]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._errors: deque[str] = deque(maxlen=STDERR_LINES)
        self._process = subprocess.Popen(
            self.argv,
            cwd=root,
            env=child_env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for target in (self._read, self._read_errors):
            threading.Thread(target=target, name=f"lsp {self.argv[0]}", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Tell whether the server still runs."""
        return self._process.poll() is None

    def stderr(self) -> str:
        """Return the end of what the server wrote to stderr."""
        return "\n".join(self._errors)

    # ---- talking ---------------------------------------------------------------------------------

    async def start(self, timeout: float) -> None:
        """Introduce ourselves and keep what the server can do."""
        uri = self.root.as_uri()
        said = await self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "clientInfo": {"name": "agent_kernel"},
                "rootUri": uri,
                "workspaceFolders": [{"uri": uri, "name": self.root.name}],
                "capabilities": CLIENT,
            },
            timeout,
        )
        self.capabilities = said.get("capabilities") or {}
        self.encoding = self.capabilities.get("positionEncoding") or "utf-16"
        self.notify("initialized", {})

    async def request(self, method: str, params: Any, timeout: float) -> Any:
        """Return the server's result. Raises ServerEnded, RpcError, TimeoutError."""
        future: Future[Any] = Future()
        with self._lock:
            self._next += 1
            ident = self._next
            self._waiting[ident] = future
        try:
            self._send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout)
        except asyncio.CancelledError:
            if self.alive:
                self.notify("$/cancelRequest", {"id": ident})
            raise
        finally:
            self._waiting.pop(ident, None)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification. Raises ServerEnded when the server is gone."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def close(self) -> None:
        """Kill the server and all it started."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _send(self, message: Json) -> None:
        body = json.dumps(message).encode()
        stdin = self._process.stdin
        assert stdin is not None
        try:
            with self._lock:
                stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                stdin.flush()
        except (OSError, ValueError):
            raise ServerEnded(self._ending()) from None

    def _ending(self) -> str:
        return f"{self.argv[0]!r} ended: {self.stderr()[-500:] or 'without a word'}"

    # ---- listening -------------------------------------------------------------------------------

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while (message := read_message(stdout)) is not None:
            self._take(message)
        self._process.wait()
        stdout.close()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(ServerEnded(self._ending()))

    def _read_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                self._errors.append(line.decode("utf-8", "replace").rstrip())

    def _take(self, message: Json) -> None:
        if "method" in message and "id" in message:
            with contextlib.suppress(ServerEnded):
                self._send(answer_to(message))
        elif message.get("method") == "textDocument/publishDiagnostics":
            uri = message["params"]["uri"]
            self.published[uri] = message["params"].get("diagnostics") or []
            self.publications[uri] += 1
        elif "id" in message:
            future = self._waiting.get(message["id"])
            if future is None or future.done():
                return
            if "error" in message:
                error = message["error"]
                code = error.get("code") or 0
                future.set_exception(RpcError(str(error.get("message")), code))
            else:
                future.set_result(message.get("result"))


def read_message(stream: IO[bytes]) -> Json | None:
    """Return the next message, None at the end or when the frame is broken."""
    length = -1
    while line := stream.readline():
        if line in (b"\r\n", b"\n"):
            break
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
    if length < 0:
        return None
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def answer_to(request: Json) -> Json:
    """Return our answer to a server's request: settings are empty, edits are refused."""
    out: Json = {"jsonrpc": "2.0", "id": request["id"]}
    method, params = request["method"], request.get("params") or {}
    if method == "workspace/configuration":
        out["result"] = [None for _ in params.get("items", ())]
    elif method == "workspace/applyEdit":
        out["result"] = {"applied": False, "failureReason": "edits go through the edit tool"}
    elif method in SILENT:
        out["result"] = None
    else:
        out["error"] = {"code": -32601, "message": f"{method} is not supported"}
    return out
