"""Own logs: agent-kernel-log files and live sessions as parts.

May not read another file: a fork's parent is found by the scan.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import agent_kernel.frames.own_rows as own_rows
from agent_kernel.frames.own_compactions import Compactions
from agent_kernel.frames.own_rows import Event, Row
from agent_kernel.frames.reader import PARTS, Columns, Part
from agent_kernel.frames.values import clean

_TORN = "the last line is cut; the next append may complete it"
_BAD = "the line is not JSON; it is kept as a record without fields"


class OwnLog:
    """The reader of agent-kernel-log files, version 1."""

    name = "agent_kernel"

    def sniff(self, path: str, head: bytes) -> tuple[float, str] | None:
        """Return (1.0, version) when line 1 is our session header."""
        first = head.split(b"\n", 1)[0]
        if b'"agent-kernel-log"' in first and b'"session/header"' in first:
            return 1.0, "1"
        return None

    @staticmethod
    def parent(path: str) -> tuple[str, int] | None:
        """Return (path, seq) of the log a fork goes on from, None when it is none or is lost.

        Only a bare file name inside the same session's folder is followed (log.md §4).
        """
        try:
            with Path(path).open("rb") as file:
                header = _loads(file.readline(1 << 20))
        except (OSError, ValueError):
            return None
        said = header.get("forked_from") if isinstance(header, dict) else None
        origin: dict[str, Any] = said if isinstance(said, dict) else {}
        name = origin.get("file")
        if not isinstance(name, str) or Path(name).name != name:
            return None
        folder = _session_folder(Path(path))
        for place in (folder / "branches" / name, folder.parent / name):
            real = str(place.resolve())
            if place.is_file() and real != path and isinstance(origin.get("seq"), int):
                return real, origin["seq"]
        return None

    def parts(self, file: BinaryIO, start: int, want: frozenset[str]) -> Iterator[Part]:
        """Yield the wanted parts; a log is folded from its first line whatever `start` says."""
        rows = OwnRows()
        offset = 0
        if start:
            file.seek(0)
        for raw in file:
            if not raw.isspace():
                rows.take_line(offset, raw)
            offset += len(raw)
        for name in PARTS:
            if name in want and rows.rows[name]:
                yield name, rows.columns(name)


class OwnRows:
    """The rows of one log, taken event by event."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in PARTS}
        self._session: str | None = None
        self._compactions = Compactions()

    def take_line(self, offset: int, raw: bytes) -> None:
        """Take one line of a file."""
        place = {"offset": offset, "bytes": len(raw)}
        try:
            event = _loads(raw.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError):
            torn = not raw.endswith(b"\n")
            status = "torn" if torn else "bad_json"
            self.rows["lines"].append({**place, "status": status, "session": self._session})
            code, text = ("torn_tail", _TORN) if torn else ("bad_json", _BAD)
            self.rows["issues"].append({**place, "code": code, "message": text, "sample": ""})
            return
        if not isinstance(event, dict) or clean("seq", event.get("seq")) is None:
            self.rows["lines"].append({**place, "status": "not_object", "session": self._session})
            text = "the line is no event: an object with seq is needed"
            issue = {**place, "code": "not_object", "message": text, "sample": ""}
            self.rows["issues"].append(issue)
            return
        if not isinstance(event.get("type"), str):
            event["type"] = None
        self.take(event, {**place, "crc": crc32(raw.rstrip())})

    def take(self, event: Event, place: Row) -> None:
        """Take one event; `place` holds its offset (live: its seq) and bytes."""
        if event.get("type") == "session/header":
            self._session = event.get("session")
        session, at = self._session, {"offset": place["offset"]}
        line = own_rows.line(event, session)
        self.rows["lines"].append({**line, **place})
        if line["status"] == "unknown_type":
            text = f"an event of type {event.get('type')!r}; it is kept as a record"
            issue = {**at, "bytes": place.get("bytes"), "code": "unknown_type", "message": text}
            self.rows["issues"].append({**issue, "sample": ""})
        mine = list(own_rows.blocks(event, session))
        self.rows["blocks"] += [{**row, **at} for row in mine]
        self.rows["givens"] += [{**row, **at} for row in mine if row.get("given") is not None]
        for row in own_rows.usage(event, session):
            row["chars"] = _shown(mine) if event.get("type") == "assistant/message" else None
            self.rows["usages"].append({**row, **at})
        found = [*own_rows.marks(event), *self._compactions.take(event, session)]
        for mark, data in found:
            row = {**at, "mark": mark, "session": session, "agent": event.get("agent")}
            row |= {"time": line["time"], "data": json.dumps(data)}
            self.rows["marks"].append(row)

    def columns(self, name: str) -> Columns:
        """Return one part as columns."""
        return {
            column: [clean(column, row.get(column)) for row in self.rows[name]]
            for column in PARTS[name]
        }


def _session_folder(path: Path) -> Path:
    if path.parent.name == "branches":
        return path.parent.parent
    return path.with_suffix("")


def live_parts(events: Iterable[Event]) -> dict[str, Columns]:
    """Return all parts of events in memory, with `file` 0; an event's offset is its seq."""
    rows = OwnRows()
    for event in events:
        rows.take(event, {"offset": event.get("seq"), "bytes": None})
    return {
        name: rows.columns(name) | {"file": list(repeat(0, len(rows.rows[name])))} for name in PARTS
    }


def _shown(blocks: list[Row]) -> int:
    return sum(row.get("chars") or 0 for row in blocks)


def _loader() -> Any:
    if importlib.util.find_spec("orjson") is None:
        return json.loads
    return importlib.import_module("orjson").loads


_loads = _loader()
