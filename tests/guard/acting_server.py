"""Acting server: a loopback server that answers each path as a script says, and a network for it.

The network is what `fetch` is given: it resolves names as told and leads each dial to the server.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_kernel.guard.fetch import Fetched, Limits, fetch

PUBLIC = "93.184.215.14"  # an address that passes every check; nothing is ever sent there
Script = Callable[[socket.socket], None]


def ok(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """The bytes of a whole response."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def says(data: bytes) -> Script:
    """A script that sends `data` and closes."""
    return lambda sock: sock.sendall(data)


def redirects(to: str, status: str = "302 Found") -> Script:
    """A script that sends the client elsewhere."""
    return says(ok(b"", f"Location: {to}", status=status))


def drips(data: bytes, seconds: float) -> Script:
    """A script that sends one byte every so many seconds."""

    def send(sock: socket.socket) -> None:
        for byte in data:
            sock.sendall(bytes([byte]))
            time.sleep(seconds)

    return send


def floods(start: bytes, chunk: bytes, total: int) -> Script:
    """A script that sends `chunk` after `start` until `total` bytes are out."""

    def send(sock: socket.socket) -> None:
        sock.sendall(start)
        for _ in range(total // len(chunk)):
            sock.sendall(chunk)

    return send


@dataclass
class Server:
    """A listening server; `scripts` maps a path to what it does, `requests` is what it was sent."""

    scripts: dict[str, Script] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    port: int = 0
    context: ssl.SSLContext | None = None

    def serve(self, sock: socket.socket) -> None:
        """Answer one connection; a client that hangs up is no fault."""
        with contextlib.suppress(OSError), sock:
            sock.settimeout(20)
            if self.context is not None:
                sock = self.context.wrap_socket(sock, server_side=True)
            request = b""
            while b"\r\n\r\n" not in request:
                piece = sock.recv(65536)
                if not piece:
                    return
                request += piece
            self.requests.append(request.decode("latin-1"))
            self.scripts[request.split()[1].decode()](sock)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
                sock.recv(1)

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        """Listen on a free port of loopback while the block runs."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = listening.getsockname()[1]

            def accept() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        sock, _ = listening.accept()
                        threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

            threading.Thread(target=accept, daemon=True).start()
            yield self
            listening.shutdown(socket.SHUT_RDWR)


@dataclass
class Network:
    """Answers of a resolver by name, ports of servers by scheme port; `dials` is what was tried."""

    ports: dict[int, int]
    names: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    dials: list[tuple[str, int]] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)
    delay: float = 0.0

    def resolve(self, host: str, _port: int) -> Sequence[str]:
        """Return the next answer for `host`, the last one again and again."""
        time.sleep(self.delay)
        self.lookups.append(host)
        answers = self.names.get(host, [[PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def connect(self, address: str, port: int, timeout: float) -> socket.socket:
        """Record the dial and connect to the server that stands for it."""
        self.dials.append((address, port))
        return socket.create_connection(("127.0.0.1", self.ports[port]), timeout)


class Stage:
    """A server in the clear, one with TLS for ok.test, and the network that leads to both."""

    def __init__(self, plain: Server, secure: Server, trusted: ssl.SSLContext) -> None:
        self.plain = plain
        self.secure = secure
        self.trusted = trusted
        self.network = Network({80: plain.port, 443: secure.port})

    async def get(
        self,
        url: str,
        script: Script | None = None,
        limits: Limits | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> Fetched:
        """Fetch `url`; `script` is what the path / of both servers does."""
        if script is not None:
            self.plain.scripts["/"] = self.secure.scripts["/"] = script
        return await fetch(
            url,
            limits or Limits(seconds=20),
            resolve=self.network.resolve,
            connect=self.network.connect,
            context=trusted or self.trusted,
        )


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for one name and its key, made for this run."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", key, "-out", cert, "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName=DNS:{name}"),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key
