"""Store: the parts of all files of a load, read when first asked for, in file order.

May not derive anything: it concatenates columns and remembers which file a row came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any

from agent_kernel.frames.reader import PARTS, Columns, Reader
from agent_kernel.frames.scan import File, Found, read

EVERYTHING = frozenset(PARTS)


class Store:
    """Files and their parts; `part(name)` gives columns with `file`, the id of each row's file."""

    def __init__(self, found: Found, readers: Mapping[str, Reader]) -> None:
        self.files = found.files
        self.readers = readers
        self.live = False
        self.events: dict[Any, Mapping[str, Any]] = {}
        self._found = found.issues
        self._loaded: frozenset[str] = frozenset()
        self._parts: dict[str, Columns] = {}

    def hold(self, parts: dict[str, Columns]) -> None:
        """Take parts that come from memory, not from files."""
        self.live = True
        self._parts, self._loaded = parts, EVERYTHING

    def load(self, want: frozenset[str]) -> None:
        """Read the wanted parts of every file unless they are here."""
        missing = want - self._loaded
        if not missing:
            return
        merged = {name: _empty(name) for name in missing}
        for file in self.files:
            given = self.read_file(file, missing)
            for name in missing:
                _append(merged[name], given.get(name), file.id)
        self._parts |= merged
        self._loaded |= missing

    def read_file(self, file: File, want: frozenset[str]) -> dict[str, Columns]:
        """Return the wanted parts of one file."""
        return read(file, self.readers[file.reader], want)

    def part(self, name: str) -> Columns:
        """Return the columns of one part over all files; reading all parts when it is not here."""
        if name not in self._loaded:
            self.load(EVERYTHING)
        return self._parts[name]

    def issues(self) -> list[dict[str, Any]]:
        """Return the findings of the walk and of the readers, in file order."""
        part = self.part("issues")
        names = ("code", "file", "offset", "bytes", "message", "sample")
        rows = [
            dict(zip(names, values, strict=True))
            for values in zip(*(part[name] for name in names), strict=True)
        ]
        for row in rows:
            row["path"] = self.files[row["file"]].path
        return [*self._found, *rows]


def _empty(name: str) -> Columns:
    return {column: [] for column in (*PARTS[name], "file")}


def _append(target: Columns, columns: Columns | None, file_id: int) -> None:
    if columns is None:
        return
    rows = len(columns[PARTS[columns_key(target)][0]])
    for name, held in target.items():
        held.extend(repeat(file_id, rows) if name == "file" else columns[name])


def columns_key(target: Columns) -> str:
    """Return which part has these columns."""
    return next(name for name, columns in PARTS.items() if set(columns) | {"file"} == set(target))
