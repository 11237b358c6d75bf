"""Upstream: the Messages API the requests go on to, and the one head line that must differ.

May not send anything but what the client sent; TLS is always verified.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agent_kernel.proxy.framing import Head

PUBLIC = "https://api.anthropic.com"
CONNECT_SECONDS = 60.0
_READABLE = ("gzip", "deflate", "identity")  # what a recorder with the standard library can read


class UpstreamError(ValueError):
    """An address nothing can be sent to: names it and says what to give instead."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where requests go: an address taken apart; `prefix` comes before every target."""

    host: str
    port: int
    tls: ssl.SSLContext | None = field(repr=False)
    prefix: bytes
    named: bytes  # the Host field

    @classmethod
    def of(cls, url: str) -> Upstream:
        """Return the upstream of `http(s)://host[:port][/prefix]`. Raises UpstreamError."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UpstreamError(f"upstream {url!r} is no address: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UpstreamError(f"upstream {url!r} is no http or https address")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UpstreamError(
                "the upstream's address may hold no user, password, query or fragment; "
                "keys go into the harness's own settings"
            )
        secure = parts.scheme == "https"
        return cls(
            parts.hostname,
            port or (443 if secure else 80),
            _verified() if secure else None,
            parts.path.rstrip("/").encode("ascii"),
            parts.netloc.encode("idna" if not parts.netloc.isascii() else "ascii"),
        )

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open one connection. Raises OSError (ssl.SSLError is one) or TimeoutError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(
                self.host,
                self.port,
                ssl=self.tls,
                server_hostname=self.host if self.tls else None,
                happy_eyeballs_delay=None if is_loopback(self.host) else 0.25,
            )

    def head(self, head: Head) -> bytes:
        """Return a request's head as it goes on: the target under the prefix, Host, encodings.

        All else is the client's, byte for byte and in its order. Of the encodings the client takes
        those remain that can be read here, so that the bodies are the same on both sides.
        """
        method, target, version = head.first.split(b" ", 2)
        if target.startswith((b"http://", b"https://")):
            target = b"/" + target.split(b"/", 3)[3] if target.count(b"/") > 2 else b"/"
        lines = [b" ".join((method, self.prefix + target, version))]
        for line, (name, _) in zip(head.raw[:-4].split(b"\r\n")[1:], head.fields, strict=True):
            match name.lower():
                case b"host":
                    lines.append(name + b": " + self.named)
                case b"accept-encoding":
                    lines.append(name + b": " + _readable(head.get(b"accept-encoding") or b""))
                case _:
                    lines.append(line)
        return b"\r\n".join(lines) + b"\r\n\r\n"


def _verified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _readable(asked: bytes) -> bytes:
    """Keep the encodings of an Accept-Encoding that the recorder can read."""
    kept = [
        item.strip()
        for item in asked.decode("latin-1").split(",")
        if item.partition(";")[0].strip().lower() in _READABLE
    ]
    return ", ".join(kept or ["identity"]).encode("latin-1")


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address is this machine's loopback."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
