"""Store: the parts of all files of a load, read when first asked for, in file order.

May not derive anything: it concatenates columns and remembers which file a row came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

from agent_kernel.frames.reader import PARTS, Columns, Reader
from agent_kernel.frames.scan import File, Found, read
from agent_kernel.frames.stamp import Stamp, grown, same, stamp_of
from agent_kernel.frames.workers import Parts, read_all

EVERYTHING = frozenset(PARTS)
_ISSUE = ("code", "file", "offset", "bytes", "message", "sample")
TEXT = frozenset(["givens"])  # what a cache may not hold


@dataclass(slots=True)
class Held:
    """What is known of one file: its stamp when it was read, and its parts so far."""

    stamp: Stamp | None
    parts: Parts = field(default_factory=dict)
    noticed: Columns = field(default_factory=dict)  # issues seen while other parts were read


class Shelf(Protocol):
    """Where parts outlive a process; `damaged` says what could not be used."""

    damaged: list[str]

    def take(self, file: File, stamp: Stamp) -> Held | None:
        """Return what is kept of a file, also of its beginning when it has grown since."""

    def put(self, held: Mapping[str, Held], files: Mapping[str, File]) -> None:
        """Keep the parts of files, by path."""


class Store:
    """Files and their parts; `part(name)` gives columns with `file`, the id of each row's file."""

    def __init__(
        self,
        found: Found,
        readers: Mapping[str, Reader],
        workers: int | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self.files = found.files
        self.readers = readers
        self.live = False
        self.events: dict[Any, Mapping[str, Any]] = {}
        self._found = found.issues
        self._workers = workers
        self._shelf = shelf
        self._held: dict[str, Held] = {}
        self._seen: dict[str, Stamp | None] = {}
        self._begun = False
        self._merged: dict[str, Columns] = {}

    def hold(self, parts: dict[str, Columns]) -> None:
        """Take parts that come from memory, not from files."""
        self.live = True
        self._merged = parts

    def load(self, want: frozenset[str], meanwhile: Callable[[], object] | None = None) -> None:
        """Read the wanted parts of every file unless they are here; `meanwhile` runs beside it."""
        if self.live:
            return
        todo: list[tuple[File, Held]] = []
        for file in self.files:
            held = self._known(file)
            if not want <= held.parts.keys():
                todo.append((file, held))
        if not todo:
            return
        missing = frozenset().union(*(want - held.parts.keys() for _, held in todo))
        jobs = [(file, self.readers[file.reader]) for file, _ in todo]
        for (_, held), parts in zip(
            todo, read_all(jobs, missing, self._workers, meanwhile), strict=True
        ):
            held.noticed = parts.get("issues") or {}
            for name in missing:
                held.parts[name] = parts.get(name) or {one: [] for one in PARTS[name]}
        self._begun = True
        for name in missing:
            self._merged.pop(name, None)
        if self._shelf is not None and not self.live:
            self._shelf.put(self._held, {file.path: file for file in self.files})

    def _known(self, file: File) -> Held:
        """Return what is held of a file, from this process or from the shelf."""
        held = self._held.get(file.path)
        if held is None:
            stamp = self._stamp(file.path)
            kept = self._shelf.take(file, stamp) if self._shelf and stamp else None
            if kept is not None and kept.stamp != stamp:
                self._grow(file, kept, stamp)
            held = self._held[file.path] = kept or Held(stamp)
        return held

    def stamps(self) -> dict[str, Stamp | None]:
        """Return how every file looked when it was read, or looks now."""
        return {file.path: self._stamp(file.path) for file in self.files}

    def _stamp(self, path: str) -> Stamp | None:
        held = self._held.get(path)
        if held is not None:
            return held.stamp
        if path not in self._seen:
            self._seen[path] = stamp_of(path)
        return self._seen[path]

    def refresh(self, found: Found) -> bool:
        """Take a new walk: unchanged files are kept, grown ones read on, others read again.

        Return whether anything changed.
        """
        changed = [file.path for file in found.files] != [file.path for file in self.files]
        self.files, self._found = found.files, found.issues
        for file in self.files:
            held = self._held.get(file.path)
            if held is not None and held.stamp is not None and same(file.path, held.stamp):
                continue
            stamp = self._seen[file.path] = stamp_of(file.path)
            if held is None or held.stamp == stamp:
                continue
            changed = True
            if held.stamp is None or not self._grow(file, held, stamp):
                del self._held[file.path]
        self._held = {f.path: self._held[f.path] for f in self.files if f.path in self._held}
        if changed:
            self._merged.clear()
        return changed

    def _grow(self, file: File, held: Held, stamp: Stamp | None) -> bool:
        """Read on where a file ended; False when it must be read again from its first byte."""
        reader = self.readers[file.reader]
        before = held.stamp
        if before is None or stamp is None or not getattr(reader, "appendable", False):
            return False
        if not grown(file.path, before, stamp):
            return False
        more = read(file, reader, frozenset(held.parts), before.whole)
        for name, columns in held.parts.items():
            _cut_torn(columns, before.whole)
            for column, values in columns.items():
                values.extend(more.get(name, {}).get(column, ()))
        held.stamp = stamp
        return True

    def part(self, name: str) -> Columns:
        """Return the columns of one part over all files; reading all parts when it is not here."""
        if name not in self._merged:
            if any(name not in self._known(file).parts for file in self.files):
                self.load(frozenset([name]) if name in TEXT and self._begun else EVERYTHING)
            self._merged[name] = self._merge(name)
        return self._merged[name]

    def _merge(self, name: str) -> Columns:
        merged: Columns = {column: [] for column in (*PARTS[name], "file")}
        for file in self.files:
            columns = self._held[file.path].parts[name]
            for column, values in columns.items():
                merged[column].extend(values)
            rows = len(columns[PARTS[name][0]])
            merged["file"].extend(repeat(file.id, rows))
        return merged

    def issues(self) -> list[dict[str, Any]]:
        """Return the findings of the walk and of the readers, in file order."""
        part = self.part("issues")
        rows = [dict(zip(_ISSUE, values, strict=True)) for values in _values(part)]
        for row in rows:
            row["path"] = self.files[row["file"]].path
        return [*self._found, *self._damaged(), *rows]

    def noticed(self) -> list[dict[str, Any]]:
        """Return the findings known so far: when only tokens were read, those on the way to them.

        No byte is read for it.
        """
        if self.live or all("issues" in self._known(file).parts for file in self.files):
            return self.issues()
        rows = []
        for file in self.files:
            columns = self._held[file.path].noticed
            columns = {**columns, "file": [file.id] * len(columns.get("code", ()))}
            rows += [dict(zip(_ISSUE, values, strict=True)) for values in _values(columns)]
        return [*self._found, *self._damaged(), *rows]

    def _damaged(self) -> list[dict[str, Any]]:
        blank = dict.fromkeys(("file", "offset", "bytes", "path"))
        return [
            {**blank, "code": "stale_cache", "message": f"not used: {text}", "sample": ""}
            for text in (self._shelf.damaged if self._shelf else ())
        ]

    @property
    def bytes(self) -> int:
        """The size of all files on disk."""
        return sum(Path(file.path).stat().st_size for file in self.files if file.path)


def _values(columns: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*(columns.get(name, ()) for name in _ISSUE), strict=True)


def _cut_torn(columns: Columns, whole: int) -> None:
    """Drop the rows of an unfinished last line: it is read again, now longer."""
    offsets = columns["offset"]
    keep = len(offsets)
    while keep and offsets[keep - 1] is not None and offsets[keep - 1] >= whole:
        keep -= 1
    for values in columns.values():
        del values[keep:]
