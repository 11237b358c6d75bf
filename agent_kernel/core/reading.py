"""Reading: a log's bytes taken apart line by line, whatever happened to them.

May not write; what is damaged is named as a finding and what is whole is loaded.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field

from pydantic import ValidationError

from agent_kernel.core.events import Event, UnknownEvent, event_of
from agent_kernel.core.messages import Json, dumps

VERSION = 1
_TAIL = re.compile(rb',"h":"([0-9a-f]{32})"\}$')
GENESIS = b""


def chain_hash(previous: bytes, payload: bytes) -> bytes:
    """Return the 16 bytes of BLAKE2b over the previous hash and a line without its `h` (log.md
    §1)."""
    return hashlib.blake2b(previous + payload, digest_size=16).digest()


def line_of(event: Event, previous: bytes) -> tuple[bytes, bytes]:
    """Return one log line with its newline, and its hash. Raises ValueError on NaN or non-JSON."""
    payload = dumps(event.wire())
    h = chain_hash(previous, payload)
    return payload[:-1] + b',"h":"' + h.hex().encode() + b'"}\n', h


@dataclass
class Loaded:
    """What a log file gave: its events in seq order, the hash of each, and what was wrong."""

    events: list[Event] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    findings: list[Json] = field(default_factory=list)
    good_end: int = 0  # bytes; everything after is a torn tail
    torn: bytes = b""
    read_only: str | None = None

    def find(self, code: str, text: str, **where: int) -> None:
        """Note one finding."""
        self.findings.append({"code": code, "text": text, **where})


def read_log(data: bytes, previous: bytes = GENESIS, first_seq: int = 0) -> Loaded:
    """Return what the bytes of a log hold; `previous` and `first_seq` continue a parent's chain."""
    out = Loaded()
    lines = _split(data, out)
    seen: set[int] = set()
    expected = first_seq
    for number, (offset, raw) in enumerate(lines, 1):
        event = _event(raw, number, offset, out)
        if event is None:
            continue
        previous = _check_hash(raw, event, previous, out)
        if event.seq in seen:
            out.find(
                "repeated_seq", f"seq {event.seq} stands again; the first is kept", seq=event.seq
            )
            continue
        if event.seq != expected:
            out.find("seq_gap", f"seq {event.seq} where {expected} was expected", seq=event.seq)
        expected = event.seq + 1
        seen.add(event.seq)
        out.events.append(event)
        out.hashes.append(previous)
    _order(out)
    return out


def _split(data: bytes, out: Loaded) -> list[tuple[int, bytes]]:
    """Cut at byte newline only; the torn tail is what follows the last whole, readable line."""
    if data.startswith(b"\xef\xbb\xbf"):
        out.find("bom", "the file begins with a byte order mark; it is passed over")
    lines: list[tuple[int, bytes]] = []
    offset = 0
    while (end := data.find(b"\n", offset)) >= 0:
        lines.append((offset, data[offset:end]))
        offset = end + 1
    while lines and not _readable(lines[-1][1]):
        offset = lines.pop()[0]
    out.good_end, out.torn = offset, data[offset:]
    if out.torn:
        out.find("torn_tail", f"{len(out.torn)} bytes after the last whole line", offset=offset)
    return lines


def _clean(raw: bytes) -> bytes:
    return raw.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r")


def _readable(raw: bytes) -> bool:
    raw = _clean(raw)
    if not raw.strip():
        return not raw  # a blank line is whole; blanks or NULs are not
    try:
        return isinstance(json.loads(raw), dict)
    except (ValueError, RecursionError):
        return False


def _event(raw: bytes, number: int, offset: int, out: Loaded) -> Event | None:
    raw = _clean(raw)
    if not raw:
        return None
    try:
        wire = json.loads(raw)
        seq = wire.get("seq") if isinstance(wire, dict) else None
        if not isinstance(seq, int):
            raise ValueError("no event: an object with seq is needed")  # noqa: TRY004
        event = event_of(wire)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = "does not fit its type" if isinstance(error, ValidationError) else str(error)
        out.find("bad_line", f"line {number} was put aside: {why:.200}", line=number, offset=offset)
        return None
    if isinstance(event, UnknownEvent) and not event.ignorable:
        out.read_only = f"event type {event.type!r} (seq {event.seq}) is unknown to this version"
    if event.type == "session/header" and getattr(event, "version", 0) > VERSION:
        out.read_only = f"the log is of format version {event.version}, this reads {VERSION}"  # type: ignore[attr-defined]
    return event


def _check_hash(raw: bytes, event: Event, previous: bytes, out: Loaded) -> bytes:
    raw = _clean(raw)
    found = _TAIL.search(raw)
    if found is None:
        out.find("no_hash", f"seq {event.seq} carries no h", seq=event.seq)
        return chain_hash(previous, raw)
    recorded = bytes.fromhex(found[1].decode())
    if chain_hash(previous, raw[: found.start()] + b"}") != recorded:
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
