"""Kit of the proxy's tests: a raw client, a raw upstream, and a log read back."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_kernel.core.branches import open_log, session_folder
from agent_kernel.core.events import Event, RequestContext
from agent_kernel.core.files import Blobs
from agent_kernel.core.replay import Report, verify

KEY = "sk-" + "obviously-fake-key-of-a-test"
MODEL = "claude-sonnet-5-5"
TOOL = {"name": "read", "description": "Read.", "input_schema": {"type": "object"}}


def body_of(messages: list[Any], **more: Any) -> bytes:
    """A request's body as no client of ours would write it: blanks, own order, own escapes."""
    data = {"stream": True, "messages": messages, "model": MODEL, "max_tokens": 900, **more}
    return json.dumps(data, indent=1, ensure_ascii=False).encode()


def head_of(port: int, body: bytes, path: str = "/v1/messages", *lines: str) -> bytes:
    """The head a plain client sends."""
    first = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-api-key: {KEY}\r\n"
    more = "".join(f"{line}\r\n" for line in lines)
    return f"{first}{more}content-length: {len(body)}\r\n\r\n".encode()


def asked(base_url: str, body: bytes, path: str = "/v1/messages", *lines: str) -> bytes:
    """Everything a plain socket reads until the connection ends, `<reset>` when it was reset."""
    port = int(base_url.rpartition(":")[2])
    out = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head_of(port, body, path, "connection: close", *lines) + body)
        try:
            while piece := connection.recv(1 << 16):
                out += piece
        except ConnectionResetError:
            out += b"<reset>\n"
    return re.sub(rb"(?m)^date: [^\r\n]+GMT\r$", b"date: -\r", out)


@contextmanager
def upstream(serve: Callable[[socket.socket], None], count: int = 1) -> Iterator[str]:
    """The address of an upstream whose next `count` connections are handled by `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def work() -> None:
            for _ in range(count):
                connection, _ = listening.accept()
                with connection:
                    serve(connection)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(10)


def request_of(connection: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of one request read from a socket."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: *(\d+)", head)
    while found and len(body) < int(found[1]):
        body += connection.recv(1 << 16)
    return head, body


def read_back(path: Path) -> tuple[list[Event], Blobs, Report]:
    """What a log holds when it is opened anew, its blobs, and its verification."""
    log = open_log(path)
    blobs = Blobs(session_folder(path) / "blobs")
    return list(log.events), blobs, verify(log.events, log.loaded.findings, blobs)


def bodies(events: list[Event], blobs: Blobs) -> list[bytes]:
    """The exact bodies a log holds, in order."""
    return [blobs.get(e.body["blob"]) for e in events if isinstance(e, RequestContext) and e.body]


def of(events: list[Event], kind: type[Any], agent: str = "main") -> list[Any]:
    """The events of one class and agent."""
    return [event for event in events if isinstance(event, kind) and event.agent == agent]
