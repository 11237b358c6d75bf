"""Cassette file: recorded exchanges as JSON lines, read, written, checked and shown.

May not open a socket; what it stores has passed redaction.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.guard.redact import redact
from agent_kernel.providers.cassette_clean import clean

FORMAT, VERSION = "agent-kernel-cassette", 1
# Headers that change what a client does; all others stay out of the file.
_KEPT = ("content-type", "content-encoding", "request-id", "retry-after", "retry-after-ms", "date")
_KEPT_TOO = ("x-should-retry",)
_KEPT_PREFIX = "anthropic-ratelimit-"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded exchange: `chunks` as (milliseconds since the request, bytes).

    `status` is None when no answer came; `end` is `eof` or the class name of the error.
    """

    key: str
    method: str
    path: str
    body: Any = field(hash=False)
    status: int | None
    headers: dict[str, str] = field(hash=False)
    chunks: tuple[tuple[int, bytes], ...]
    end: str

    def wire(self) -> Json:
        """Return the exchange as its line's JSON."""
        return {
            "key": self.key,
            "request": {"method": self.method, "path": self.path, "body": self.body},
            "status": self.status,
            "headers": self.headers,
            "chunks": [[ms, base64.b64encode(data).decode()] for ms, data in self.chunks],
            "end": self.end,
        }

    @classmethod
    def of(cls, wire: Json) -> Exchange:
        """Return the exchange of a line. Raises KeyError, TypeError or ValueError."""
        request = wire["request"]
        chunks = tuple((int(ms), base64.b64decode(data)) for ms, data in wire["chunks"])
        return cls(
            wire["key"],
            request["method"],
            request["path"],
            request["body"],
            wire["status"],
            dict(wire["headers"]),
            chunks,
            wire["end"],
        )

    @property
    def data(self) -> bytes:
        """The whole body of the answer."""
        return b"".join(data for _, data in self.chunks)


def kept_headers(headers: Iterator[tuple[str, str]]) -> dict[str, str]:
    """Return the headers a cassette keeps, lower-case, in name order."""
    named = {name.lower(): value for name, value in headers}
    return {
        name: named[name]
        for name in sorted(named)
        if name in _KEPT or name in _KEPT_TOO or name.startswith(_KEPT_PREFIX)
    }


def read(path: Path) -> list[Exchange]:
    """Return the exchanges of a file, [] when there is none. Raises ValueError naming the line."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    header = _parsed(path, 1, lines[0]) if lines else {}
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise ValueError(f"{path.name!r} is no cassette of version {VERSION}: {header!r:.80}")
    out = []
    for number, line in enumerate(lines[1:], 2):
        try:
            out.append(Exchange.of(_parsed(path, number, line)))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path.name!r}, line {number} is no exchange: {error!r}") from error
    return out


def _parsed(path: Path, number: int, line: str) -> Json:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path.name!r}, line {number} is no JSON object: {error}") from error


def begin(path: Path) -> None:
    """Write an empty cassette, replacing what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": FORMAT, "version": VERSION}) + "\n", encoding="utf-8")


def add(path: Path, exchange: Exchange) -> None:
    """Append one exchange; the file is begun when it is not there."""
    if not path.exists():
        begin(path)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(exchange.wire(), ensure_ascii=False) + "\n")


def show(path: Path) -> list[str]:
    """Return one line an exchange: number, request, model, messages, status, chunks, end."""
    return [
        f"#{at} {each.method} {each.path} {_about(each.body)} -> {each.status or 'no answer'}, "
        f"{len(each.chunks)} chunks, {len(each.data)} bytes, {each.end}"
        for at, each in enumerate(read(path), 1)
    ]


def _about(body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    return f"{body.get('model', '')} {len(body.get('messages') or ())} messages"


def check(path: Path) -> list[str]:
    """Return what is wrong with a cassette, [] when nothing is; secrets are named by kind."""
    try:
        exchanges = read(path)
    except ValueError as error:
        return [str(error)]
    found = []
    for at, each in enumerate(exchanges, 1):
        kinds: set[str] = set()

        def note(text: str, kinds: set[str] = kinds) -> str:
            masked, hits = redact(text)
            kinds.update(kind for kind, _ in hits)
            return masked

        note(json.dumps(each.body, ensure_ascii=False))
        clean(each.data, note)
        if kinds:
            found.append(f"#{at} holds what looks like a secret: {', '.join(sorted(kinds))}")
        if each.status is None and each.end == "eof":
            found.append(f"#{at} has neither an answer nor an error")
    return found
