"""Reading: a log's bytes taken apart line by line, whatever happened to them.

May not write; what is damaged is named as a finding and what is whole is loaded.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from pydantic import ValidationError

from agent_kernel.core.events import Event, UnknownEvent, event_of
from agent_kernel.core.messages import Json, dumps

VERSION = 1
LINE_BYTES = 64 << 20  # of one line, written or read: twice what the Messages API takes at once
_PIECE = 1 << 20
_BOM = b"\xef\xbb\xbf"
_TAIL = re.compile(rb',"h":"([0-9a-f]{32})"\}$')
GENESIS = b""


def chain_hash(previous: bytes, payload: bytes) -> bytes:
    """Return the 16 bytes of BLAKE2b over the previous hash and a line without its `h` (log.md
    §1)."""
    return hashlib.blake2b(previous + payload, digest_size=16).digest()


def payload_of(event: Event) -> bytes:
    """Return an event's line without its `h`. Raises ValueError on NaN or non-JSON."""
    return dumps(event.wire())


def chained(payload: bytes, previous: bytes) -> tuple[bytes, bytes]:
    """Return one log line with its newline, and its hash."""
    h = chain_hash(previous, payload)
    return payload[:-1] + b',"h":"' + h.hex().encode() + b'"}\n', h


@dataclass
class Loaded:
    """What a log file gave: its events in seq order, the hash of each, and what was wrong."""

    events: list[Event] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    findings: list[Json] = field(default_factory=list)
    last_hash: bytes = GENESIS  # of the last line as it stands: the next line chains to it
    good_end: int = 0  # bytes; everything after is a torn tail
    torn: int = 0  # bytes of it
    read_only: str | None = None

    def find(self, code: str, text: str, **where: int) -> None:
        """Note one finding."""
        self.findings.append({"code": code, "text": text, **where})


class Line(NamedTuple):
    """One line of the file without its newline; `whole` False = the file ends inside it."""

    number: int
    offset: int
    raw: bytes
    whole: bool
    size: int  # bytes; `raw` is cut to LINE_BYTES of them


def read_log(file: BinaryIO, previous: bytes = GENESIS, first_seq: int = 0) -> Loaded:
    """Return what a log holds; `previous` and `first_seq` continue a parent's chain.

    Memory is bounded by the events: a line over LINE_BYTES is put aside unread.
    """
    out = Loaded(last_hash=previous)
    reader = _Reader(out, first_seq)
    end = 0
    for line in _lines(file):
        end = line.offset + line.size + line.whole
        reader.take(line)
    reader.end(end)
    _order(out)
    return out


def _lines(file: BinaryIO) -> Iterator[Line]:
    """Yield the lines, cut at byte newline only."""
    number, offset, size = 1, 0, 0
    parts: list[bytes] = []
    while piece := file.read(_PIECE):
        start = 0
        while (at := piece.find(b"\n", start)) >= 0:
            parts.append(piece[start:at])
            size += at - start
            yield Line(number, offset, b"".join(parts), True, size)
            number, offset, size, start, parts = number + 1, offset + size + 1, 0, at + 1, []
        if size <= LINE_BYTES:
            parts.append(piece[start:])
        size += len(piece) - start
    if size:
        yield Line(number, offset, b"".join(parts), False, size)


class _Reader:
    """Takes line by line; an unreadable line is in the middle once a readable one follows it."""

    def __init__(self, out: Loaded, first_seq: int) -> None:
        self.out = out
        self._expected = first_seq
        self._seen: set[int] = set()
        self._bad: list[tuple[Line, str]] = []  # may be the torn tail

    def take(self, line: Line) -> None:
        """Take the next line."""
        raw = line.raw
        if line.number == 1 and raw.startswith(_BOM):
            self.out.find("bom", "the file begins with a byte order mark; it is passed over")
        raw = raw.removeprefix(_BOM).removesuffix(b"\r")
        try:
            wire = _object(line, raw)
        except (ValueError, RecursionError) as error:
            self._bad.append((line._replace(raw=b""), str(error)))
            return
        if wire is None:  # blank: nothing is lost with it, and it says nothing of what is before
            self.out.good_end += 0 if self._bad else line.size + 1
            return
        for bad, why in self._bad:
            self._aside(bad, why)
        self._bad.clear()
        self.out.good_end = line.offset + line.size + 1
        self._event(line, raw, wire)

    def end(self, size: int) -> None:
        """What was unreadable to the end is the torn tail."""
        self.out.torn = size - self.out.good_end
        if self.out.torn:
            text = f"{self.out.torn} bytes after the last whole line"
            self.out.find("torn_tail", text, offset=self.out.good_end)

    def _aside(self, line: Line, why: str) -> None:
        text = f"line {line.number} (byte {line.offset}) was put aside: {why:.200}"
        self.out.find("bad_line", text, line=line.number, offset=line.offset)

    def _event(self, line: Line, raw: bytes, wire: Json) -> None:
        seq = wire.get("seq")
        try:
            if type(seq) is not int or seq < 0:
                raise ValueError("no event: an object with seq is needed")
            event = event_of(wire)
        except (ValueError, KeyError, TypeError) as error:
            why = "does not fit its type" if isinstance(error, ValidationError) else str(error)
            self._aside(line, why)
            return
        self._readable(event)
        self.out.last_hash = _check_hash(raw, event, self.out)
        if seq in self._seen:
            text = f"seq {seq} stands again; the first is kept"
            self.out.find("repeated_seq", text, seq=seq)
            return
        if seq != self._expected:
            text = f"seq {seq} where {self._expected} was expected"
            self.out.find("seq_gap", text, seq=seq)
        self._expected = seq + 1
        self._seen.add(seq)
        self.out.events.append(event)
        self.out.hashes.append(self.out.last_hash)

    def _readable(self, event: Event) -> None:
        if isinstance(event, UnknownEvent) and not event.ignorable:
            self.out.read_only = (
                f"event type {event.type!r} (seq {event.seq}) is unknown to this version"
            )
        version = getattr(event, "version", 0)
        if event.type == "session/header" and version > VERSION:
            self.out.read_only = f"the log is of format version {version}, this reads {VERSION}"


def _object(line: Line, raw: bytes) -> Json | None:
    """Return the line's JSON object, None when it is blank. Raises ValueError on any other."""
    if not line.whole:
        raise ValueError("the file ends inside it")
    if line.size > LINE_BYTES:
        raise ValueError(f"it has {line.size:,} bytes; a line may have {LINE_BYTES:,}")
    if not raw:
        return None
    found = json.loads(raw.decode("utf-8"))  # never guess another encoding
    if not isinstance(found, dict):
        raise ValueError("no event: an object with seq is needed")
    return found


def _check_hash(raw: bytes, event: Event, out: Loaded) -> bytes:
    found = _TAIL.search(raw)
    if found is None:
        out.find("no_hash", f"seq {event.seq} carries no h", seq=event.seq)
        return chain_hash(out.last_hash, raw)
    recorded = bytes.fromhex(found[1].decode())
    if chain_hash(out.last_hash, raw[: found.start()] + b"}") != recorded:
        out.find("broken_hash", f"seq {event.seq} or the line before it was changed", seq=event.seq)
    return recorded


def _order(out: Loaded) -> None:
    seqs = [event.seq for event in out.events]
    if seqs == sorted(seqs):
        return
    out.find("out_of_order", "lines do not stand in seq order; seq rules")
    order = sorted(range(len(seqs)), key=seqs.__getitem__)
    out.events = [out.events[i] for i in order]
    out.hashes = [out.hashes[i] for i in order]
