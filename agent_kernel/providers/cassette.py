"""Cassette: records what the transport carried and plays it back, below parsing and retry.

May not open a socket while replaying: a request it does not hold is an error naming the nearest.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import agent_kernel.providers.cassette_file as cassette_file
from agent_kernel.core.model import ProviderError
from agent_kernel.guard.redact import redact as mask
from agent_kernel.providers.cassette_clean import clean
from agent_kernel.providers.cassette_file import Exchange
from agent_kernel.providers.cassette_keys import (
    Canonicaliser,
    canonical_body,
    cut,
    first_difference,
    key_of,
    nearest,
    standard,
)

Mode = Literal["off", "record", "replay", "auto", "refresh"]
MODES: tuple[Mode, ...] = ("off", "record", "replay", "auto", "refresh")


def masked(text: str) -> str:
    """Return `text` with what looks like a secret replaced."""
    return mask(text)[0]


@dataclass(eq=False)  # the key of a kept provider: each is itself
class Cassette:
    """The exchanges of one file and how far they are used.

    `redact` masks secrets in all text that is kept; `more` adds canonicalisers by name; `speed` is
    0 for at once, 1 for as recorded; `report` is told what a refresh changed.
    """

    path: Path
    mode: Mode = "auto"
    redact: Callable[[str], str] = masked
    more: Mapping[str, Canonicaliser] = field(default_factory=dict)
    speed: float = 0.0
    report: Callable[[str], None] = lambda _line: None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"unknown cassette mode {self.mode!r}; one of {', '.join(MODES)}")
        self._canonicalisers = {**standard(), **self.more}
        self._old = [] if self.mode == "record" else cassette_file.read(self.path)
        self._used: set[int] = set()
        self._target = self.path
        if self.mode == "refresh":
            self._target = self.path.with_name(self.path.name + ".new")
        if self.mode in ("record", "refresh"):
            cassette_file.begin(self._target)

    @property
    def offline(self) -> bool:
        """Whether a request may be answered without a host, so that no key is needed."""
        return self.mode in ("replay", "auto")

    def wrap(self, transport: Any) -> Any:
        """Return the transport to use in place of the client's own."""
        if self.mode == "off":
            return transport
        # Its base class takes 0.2 s to import: loaded with the client, not with the kernel.
        module = importlib.import_module("agent_kernel.providers.cassette_transport")
        return module.Transport(self, transport)

    def find(self, method: str, path: str, raw: bytes) -> tuple[str, Any, Exchange | None]:
        """Return key, canonical body and the next unused recording of a request."""
        body = canonical_body(_parsed(raw), self._canonicalisers, self.redact)
        key = key_of(method, path, body)
        for at, each in enumerate(self._old):
            if each.key == key and at not in self._used:
                self._used.add(at)
                return key, body, each
        return key, body, None

    def miss(self, key: str, body: Any) -> ProviderError:
        """Return the error of a request that was not recorded."""
        times = sum(each.key == key for each in self._old)
        if times:
            text = f"this request was recorded {times} times and is asked once more"
        else:
            text = "no recording for this request"
            at = nearest(body, [each.body for each in self._old])
            if at is not None:
                text += f"; nearest is #{at + 1}" + _differs(self._old[at].body, body)
        return ProviderError("cassette_miss", f"{text} ({self.path.name})")

    def keep(self, exchange: Exchange, old: Exchange | None) -> None:
        """Write one exchange, its answer redacted; a refresh reports what changed."""
        kept = self._clean(exchange)
        cassette_file.add(self._target, kept)
        if self.mode == "refresh":
            about = f"{kept.method} {kept.path} {kept.key[:8]}"
            if old is None:
                self.report(f"new: {about}")
            elif (old.status, old.data) != (kept.status, kept.data):
                self.report(f"changed: {about}: {_changed(old, kept)}")

    def _clean(self, exchange: Exchange) -> Exchange:
        """The exchange without secrets: cut anew where one was found."""
        packed = "content-encoding" in exchange.headers
        data = exchange.data if packed else clean(exchange.data, self.redact)
        if data == exchange.data:
            return exchange
        cuts, at = [], 0
        for ms, chunk in exchange.chunks[:-1]:
            cuts.append((ms, data[at : at + len(chunk)]))
            at += len(chunk)
        cuts.append((exchange.chunks[-1][0], data[at:]))
        return Exchange(
            exchange.key, exchange.method, exchange.path, exchange.body, exchange.status,
            exchange.headers, tuple(cuts), exchange.end,
        )  # fmt: skip

    def finish(self) -> None:
        """End a refresh: report and drop what was not asked for, and put the new file in place."""
        if self.mode != "refresh" or not self._target.exists():
            return
        for at, each in enumerate(self._old):
            if at not in self._used:
                self.report(f"dropped: {each.method} {each.path} {each.key[:8]}, not asked for")
        self._target.replace(self.path)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode("utf-8", "replace")


def _differs(recorded: Any, asked: Any) -> str:
    found = first_difference(recorded, asked)
    if found is None:
        return ", another method or path"
    path, was, now = found
    if isinstance(was, str) and isinstance(now, str):
        was, now = _parted(was, now)
    return f", first difference at `{path}`: recorded {cut(was)}, asked {cut(now)}"


def _parted(was: str, now: str, before: int = 20, most: int = 80) -> tuple[str, str]:
    """Return two texts from a little before where they part, whole when that is in view."""
    pairs = enumerate(zip(was, now, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(was), len(now)))
    start = max(0, at - before) if at >= most - 1 else 0
    return ("…" + was[start:], "…" + now[start:]) if start else (was, now)


def _changed(old: Exchange, new: Exchange) -> str:
    if old.status != new.status:
        return f"status {old.status} -> {new.status}"
    return f"{len(old.data)} -> {len(new.data)} bytes"
