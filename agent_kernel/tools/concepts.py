"""Concepts: an index in memory of the passages of a workspace's text files, by their words.

May not claim meaning: a passage that shares no word with a question is not found.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.guard.paths import secret
from agent_kernel.tools.ranking import counted
from agent_kernel.tools.walker import text_of, walk

FILES = 10_000  # features.md F11.1
FILE_BYTES, ALL_BYTES = 256 << 10, 32 << 20
PASSAGE = 40  # lines
SECONDS = 15.0  # of building
_SKIPPED = re.compile(
    r"\.(?:min\.\w+|lock|map|csv|tsv|svg|jsonl|ipynb)$|(?:^|/)package-lock\.json$"
)
_BEGINS = re.compile(
    r"\s*(?:(?:async\s+)?def|class|function|func|fn|pub|impl|struct|interface|export|#{1,4})\s"
)
_DOC = re.compile(r'("""|\'\'\').*?\1|/\*\*.*?\*/', re.DOTALL)


@dataclass(frozen=True)
class Passage:
    """Some neighbouring lines of a file: from line `first` (from 1) on, with its words counted."""

    path: str
    first: int
    lines: tuple[str, ...]
    counts: Counter[str]


@dataclass(frozen=True)
class Book:
    """The passages of a workspace, and what was left out, in words ("" = nothing)."""

    passages: list[Passage]
    files: int
    left_out: str


def passages_of(path: str, text: str) -> Iterator[Passage]:
    """Yield a text's passages: they begin where a definition or heading does, 40 lines at most."""
    lines = text.split("\n")
    documented = {
        n
        for found in _DOC.finditer(text)
        for n in range(text.count("\n", 0, found.start()), text.count("\n", 0, found.end()) + 1)
    }
    first = 0
    for at in range(1, len(lines) + 1):
        full = at - first >= PASSAGE
        if at < len(lines) and not full and not (_BEGINS.match(lines[at]) and at - first >= 4):
            continue
        part = lines[first:at]
        weighted = [(line, 2 if first + n in documented else 1) for n, line in enumerate(part)]
        counts = counted([*weighted, (Path(path).stem, 2)])
        if any(line.strip() for line in part):
            yield Passage(path, first + 1, tuple(part), counts)
        first = at


class Library:
    """The passages of files as they were last seen; a file is read again when its stamp changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], list[Passage]]] = {}

    def book(self, start: str, base: str) -> Book:
        """Return the passages below `start`, built within 15 s, 10,000 files and 32 MiB."""
        began, size, count = time.monotonic(), 0, 0
        found: list[Passage] = []
        left_out = ""
        for path in walk(start):
            if count >= FILES or size > ALL_BYTES or time.monotonic() - began > SECONDS:
                left_out = f"only the first {count:,} files ({size >> 20} MiB) were indexed"
                break
            if _SKIPPED.search(path) or secret(path):
                continue
            passages, read = self._passages(path, base)
            count, size = count + bool(passages), size + read
            found += passages
        return Book(found, count, left_out)

    def _passages(self, path: str, base: str) -> tuple[list[Passage], int]:
        try:
            info = os.stat(path)  # noqa: PTH116 - ten thousand of them
        except OSError:
            return [], 0
        if info.st_size > FILE_BYTES:
            return [], 0
        stamp = (info.st_mtime_ns, info.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = (stamp, self._read(path, base))
            self._known[path] = known
        return known[1], info.st_size

    @staticmethod
    def _read(path: str, base: str) -> list[Passage]:
        try:
            data = Path(path).read_bytes()
        except OSError:
            return []
        text = text_of(data)
        name = path.removeprefix(base.rstrip("/") + "/")
        return [] if text is None else list(passages_of(name, text))
