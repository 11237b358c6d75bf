"""Cache: the server's prompt cache, so that reported usage is true to what was sent.

May not answer requests; prices and limits of real hosts are not modelled beyond TTL and minimum.

Modelled on the public description of prompt caching: entries are written at marks only, at most 20
positions are looked up before a mark (the mark itself being the first), a prefix under the minimum
is not kept, and a hit renews the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.messages import canonical

Json = dict[str, Any]
LIFE = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True, slots=True)
class _Position:
    key: bytes  # hash of everything up to and with this block
    tokens: int  # of the same
    ttl: str | None  # of the mark on this block, None without


class PrefixCache:
    """Prefixes kept by mark: `usage(body)` returns what a request read, wrote and paid in full."""

    def __init__(self, minimum: int, lookback: int, clock: Callable[[], float]) -> None:
        self.minimum = minimum
        self.lookback = lookback
        self.clock = clock
        self._kept: dict[bytes, tuple[float, str]] = {}  # key -> (expires, ttl)

    def usage(self, body: Mapping[str, Any]) -> Json:
        """Return the API's input usage of one request, and keep its marked prefixes."""
        positions = list(_positions(body))
        total = positions[-1].tokens if positions else 0
        marks = [i for i, p in enumerate(positions) if p.ttl and p.tokens >= self.minimum]
        read_at = max((self._hit(positions, mark) for mark in marks), default=-1)
        read = positions[read_at].tokens if read_at >= 0 else 0
        written = {"5m": 0, "1h": 0}
        done = read
        for mark in marks:
            place = positions[mark]
            ttl = place.ttl or "5m"
            written[ttl] += max(0, place.tokens - done)
            done = max(done, place.tokens)
            self._keep(place.key, ttl)
        return {
            "input_tokens": total - done,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written["5m"] + written["1h"],
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }

    def _hit(self, positions: list[_Position], mark: int) -> int:
        """The nearest kept position at or before `mark`, -1 when none is in reach."""
        for at in range(mark, max(mark - self.lookback, -1), -1):
            kept = self._kept.get(positions[at].key)
            if kept is not None and kept[0] >= self.clock():
                self._keep(positions[at].key, kept[1])
                return at
        return -1

    def _keep(self, key: bytes, ttl: str) -> None:
        self._kept[key] = (self.clock() + LIFE[ttl], ttl)


def tokens_of(value: Any) -> int:
    """Return the server's count of `value`: a quarter of its canonical JSON's length."""
    return len(canonical(value)) // 4


def count(body: Mapping[str, Any]) -> int:
    """Return the input tokens of a request body: tools, system and messages."""
    positions = list(_positions(body))
    return positions[-1].tokens if positions else 0


def _positions(body: Mapping[str, Any]) -> Iterator[_Position]:
    digest = hashlib.sha256(str(body.get("model")).encode())
    size = 0
    for layer, block in _blocks(body):
        bare, ttl = block, None
        if isinstance(block, Mapping) and isinstance(block.get("cache_control"), Mapping):
            ttl = "1h" if block["cache_control"].get("ttl") == "1h" else "5m"
            bare = {k: v for k, v in block.items() if k != "cache_control"}
        made = canonical([layer, bare])
        digest.update(made)
        size += len(made)
        yield _Position(digest.digest(), size // 4, ttl)


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for tool in body.get("tools") or ():
        yield "tools", tool
    system = body.get("system")
    for block in _listed(system):
        yield "system", block
    for message in body.get("messages") or ():
        for block in _listed(message.get("content") if isinstance(message, Mapping) else message):
            yield str(message.get("role")), block


def _listed(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, list) else []
