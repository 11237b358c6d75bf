"""Fetches: one web page over connections to addresses that were checked, and nothing else.

It sends no credentials or cookies, uses no proxy, follows redirects only within an origin.
"""

import asyncio
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote, urljoin

import agent_kernel.guard.media as media
from agent_kernel.guard.addresses import (
    Address,
    LocalGrants,
    Refusal,
    Url,
    check_answers,
    check_url,
    stays,
)
from agent_kernel.guard.wire import Body, Deadline, Wire, in_thread, read_body

Verdict = Literal["allow", "block", "report", "truncate", "timeout", "error"]
Resolve = Callable[[str, int], Sequence[str]]
Connect = Callable[[str, int, float], socket.socket]
REDIRECTS = frozenset({301, 302, 303, 307, 308})
AGENT = "agent_kernel (a notebook kernel; it fetches single pages when a person's agent asks)"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one fetch: seconds for all of it and for each lookup, hops, bytes, characters."""

    seconds: float = 30.0
    lookup_seconds: float = 5.0
    redirects: int = 5
    bytes: int = 5 << 20
    characters: int = 100_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch came to.

    `truncate` and `timeout` deliver what arrived, `report` says what was not done (a redirect that
    leaves the origin is in `redirect`), `block` was never dialled. `text` is a stranger's.
    """

    verdict: Verdict
    url: str
    reason: str = ""
    status: int | None = None
    content_type: str = ""
    text: str = ""
    size: int = 0
    redirect: str | None = None
    dialled: tuple[str, ...] = ()


def system_lookup(host: str, port: int) -> Sequence[str]:
    """Return the addresses of `host` in the order of the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


def system_connect(address: str, port: int, timeout: float) -> socket.socket:
    """Return a TCP connection to an address, never to a name."""
    return socket.create_connection((str(ipaddress.ip_address(address)), port), timeout)


async def fetch(
    url: str,
    limits: Limits = Limits(),
    *,
    raw: bool = False,
    resolve: Resolve = system_lookup,
    connect: Connect = system_connect,
    context: ssl.SSLContext | None = None,
    allow_local: LocalGrants = frozenset(),
) -> Fetched:
    """Fetch `url` within `limits` and return its text; HTML becomes Markdown unless `raw`.

    Never raises on what a server does. Cancelled, it closes its connection and raises
    CancelledError. `resolve` and `connect` are what touches the network.
    """
    deadline = Deadline(limits.seconds)
    one = _Fetch(limits, deadline, raw, resolve, connect, context, allow_local)
    try:
        return await asyncio.wrap_future(in_thread(lambda: one.run(url), "agent_kernel fetch"))
    finally:
        deadline.end()


@dataclass(slots=True)
class _Fetch:
    limits: Limits
    deadline: Deadline
    raw: bool
    resolve: Resolve
    connect: Connect
    context: ssl.SSLContext | None
    allow_local: LocalGrants

    def run(self, text: str) -> Fetched:
        """Follow the URL to its end."""
        dialled: list[str] = []
        origin: Url | None = None
        for _ in range(self.limits.redirects + 1):
            target = self._checked(text, origin)
            if isinstance(target, Fetched):
                return replace(target, dialled=tuple(dialled))
            result = self._hop(target, dialled)
            if result.redirect is None:
                return replace(result, dialled=tuple(dialled))
            origin, text = target, result.redirect
        reason = f"more than {self.limits.redirects} redirects"
        return Fetched("block", text, reason, dialled=tuple(dialled))

    def _checked(self, text: str, origin: Url | None) -> Url | Fetched:
        answered = self.resolve is not system_lookup
        target = check_url(text, answered=answered, allow_local=self.allow_local)
        where = "the redirect to " if origin else ""
        if isinstance(target, Refusal):
            return Fetched("block", text, f"{where}{text!r} is blocked: {target.reason}")
        if origin is not None and not stays(origin, target):
            reason = f"{origin} redirects to {target}, another origin; it was not followed"
            return Fetched("report", str(origin), reason, redirect=str(target))
        return target

    def _hop(self, target: Url, dialled: list[str]) -> Fetched:
        """Do one request; a redirect to look at next is in `redirect`."""
        try:
            addresses = self._addresses(target)
            if isinstance(addresses, Refusal):
                return Fetched("block", str(target), addresses.reason)
            sock = self._dial(target, addresses, dialled)
            try:
                return self._exchange(target, Wire(sock, self.deadline))
            finally:
                sock.close()
        except TimeoutError as error:
            return Fetched(
                "timeout", str(target), str(error) or "the server did not answer in time"
            )
        except ssl.SSLError as error:
            return Fetched("block", str(target), f"TLS: {error}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Fetched("error", str(target), f"{type(error).__name__}: {error}")

    def _addresses(self, target: Url) -> list[Address] | Refusal:
        if target.literal is not None:
            return [target.literal]
        lookup = in_thread(lambda: self.resolve(target.host, target.port), "agent_kernel lookup")
        try:
            answers = lookup.result(min(self.limits.lookup_seconds, self.deadline.left()))
        except TimeoutError:
            raise TimeoutError(f"{target.host!r} was not resolved in time") from None
        return check_answers(target.host, answers, port=target.port, allow_local=self.allow_local)

    def _dial(self, target: Url, addresses: list[Address], dialled: list[str]) -> socket.socket:
        """Connect to the first checked address that answers; TLS is verified by name."""
        failure: OSError = ConnectionError("no address")
        for address in addresses:
            dialled.append(str(address))
            try:
                sock = self.connect(str(address), target.port, self.deadline.left())
                break
            except OSError as error:
                failure = error
        else:
            raise failure
        if target.scheme == "http":
            return sock
        context = self.context or ssl.create_default_context()
        sock.settimeout(self.deadline.left())
        try:
            return context.wrap_socket(sock, server_hostname=target.host)
        except OSError:
            sock.close()
            raise

    def _exchange(self, target: Url, wire: Wire) -> Fetched:
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.sock = wire
        path = quote(target.path, safe="%/:?#[]@!$&'()*+,;=~-._")
        headers = {
            "Host": str(replace(target, path="")).partition("//")[2],
            "User-Agent": AGENT,
            "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5",
            "Accept-Encoding": "identity, gzip",
            "Connection": "close",
        }
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        location = response.getheader("Location")
        if response.status in REDIRECTS and location is not None:
            return Fetched("report", str(target), redirect=urljoin(str(target), location))
        return self._answer(target, response)

    def _answer(self, target: Url, response: http.client.HTTPResponse) -> Fetched:
        declared = response.getheader("Content-Type", "")
        kind = Fetched("allow", str(target), status=response.status, content_type=declared)
        if response.length is not None and response.length > self.limits.bytes:
            reason = f"it declares {response.length:,} bytes, {self.limits.bytes:,} is the limit"
            return replace(kind, verdict="block", reason=reason)
        encoding = response.getheader("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip", ""):
            return replace(kind, verdict="report", reason=f"encoded as {encoding!r}, not shown")
        return self._shown(kind, read_body(response, self.limits.bytes))

    def _shown(self, kind: Fetched, body: Body) -> Fetched:
        page = media.read(body.data, kind.content_type, raw=self.raw)
        kind = replace(kind, content_type=page.kind, size=len(body.data), reason=body.cut)
        verdict: Verdict = "timeout" if body.late else "truncate"
        if page.text is None:
            reason = f"{page.kind}, {len(body.data):,} bytes: not text, not shown"
            if not body.cut:
                return replace(kind, verdict="report", reason=reason)
            reason = f"{reason}; {body.cut}"
            return replace(kind, verdict=verdict, reason=reason, text=f"[{reason}]")
        text, cut = page.text, body.cut or page.cut
        if len(text) > self.limits.characters:
            cut = cut or f"longer than {self.limits.characters:,} characters"
            text = text[: self.limits.characters]
        if not cut:
            return replace(kind, text=text)
        return replace(kind, verdict=verdict, reason=cut, text=f"{text}\n[cut: {cut}]")
