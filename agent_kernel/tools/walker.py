"""Walker: the files of a folder that no ignore file hides, and a search through them.

Runs by path as `python -I -S walker.py` in a process of its own (a bad regex is killed with it),
so it may import nothing but the stdlib and globs.py; it prints what `rg --null` would print.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING or __name__ != "__main__":
    from agent_kernel.tools import globs
else:  # isolated: the folder of this file is not on the path
    sys.path.append(str(Path(__file__).parent))  # last: our glob.py must not hide the stdlib's
    import globs

SKIPPED = (".git", "node_modules", ".venv", "__pycache__", ".ipynb_checkpoints")
# A session's own log and folder: a search that found them would find itself.
SESSION = ("*.agent", "*.agent.jsonl*", "*.agent.*.jsonl*")
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")  # the earlier rules over the later
MAX_BYTES = 5 << 20  # larger files are not searched


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file."""

    regex: re.Pattern[str]
    keeps: bool
    folders_only: bool


def rules_of(text: str) -> list[Rule]:
    """Return the rules of a gitignore text, in order (gitignore(5)); a bad line is no rule."""
    found: list[Rule] = []
    for line in text.splitlines():
        line = re.sub(r"(?<!\\)\s+$", "", line)
        if not line or line.startswith("#"):
            continue
        keeps = line.startswith("!")
        line = line[1:] if keeps else line
        folders_only = line.endswith("/")
        line = line.rstrip("/") if folders_only else line
        anchored = "/" in line
        line = line.removeprefix("/")
        try:
            regex = re.compile(globs.path_regex(line if anchored else f"**/{line}"), re.DOTALL)
        except re.error:
            continue
        found.append(Rule(regex, keeps, folders_only))
    return found


class Level:
    """The ignore files of one folder, and the levels above it that still count."""

    def __init__(self, folder: str, parent: Level | None) -> None:
        self.folder = folder
        self.parent = parent
        self.is_repository = os.path.lexists(os.path.join(folder, ".git"))  # noqa: PTH118
        self.rules = {name: self._read(name) for name in IGNORE_FILES}

    def _read(self, name: str) -> list[Rule]:
        path = Path(self.folder, name)
        if not path.is_file():
            return []
        try:
            return rules_of(path.read_text(encoding="utf-8", errors="replace"))
        except PermissionError:
            return []

    def hides(self, path: str, is_folder: bool) -> bool:
        """Tell whether the nearest rule that fits `path` (absolute) hides it."""
        for name in IGNORE_FILES:
            verdict = self._verdict(name, path, is_folder)
            if verdict is not None:
                return verdict
        return False

    def _verdict(self, name: str, path: str, is_folder: bool) -> bool | None:
        level: Level | None = self
        while level is not None:
            relative = path[len(level.folder.rstrip("/")) + 1 :]
            for rule in reversed(level.rules[name]):
                if (is_folder or not rule.folders_only) and rule.regex.fullmatch(relative):
                    return not rule.keeps
            if name == ".gitignore" and level.is_repository:
                return None
            level = level.parent
        return None


def level_above(start: str) -> Level | None:
    """Return the ignore rules of every folder above `start`."""
    level: Level | None = None
    for folder in reversed(Path(start).parents):
        level = Level(str(folder), level)
    return level


def walk(start: str) -> Iterator[str]:
    """Yield the absolute paths of the files below `start`, folder by folder in order of names.

    Links are not followed, the folders of SKIPPED are not entered, unreadable ones are left out.
    """
    stack: list[tuple[str, bool, Level | None]] = [(start, True, level_above(start))]
    while stack:
        path, is_folder, above = stack.pop()
        if not is_folder:
            yield path
            continue
        level = Level(path, above)
        stack.extend((*found, level) for found in reversed(_entries(path, level)))


def _entries(folder: str, level: Level) -> list[tuple[str, bool]]:
    found: list[tuple[bytes, str, bool]] = []
    try:
        scan = os.scandir(folder)
    except (PermissionError, FileNotFoundError):
        return []
    with scan:
        for entry in scan:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.name in SKIPPED:
                continue
            if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in SESSION):
                continue
            if not is_folder and not entry.is_file(follow_symlinks=False):
                continue
            if not level.hides(entry.path, is_folder):
                found.append((os.fsencode(entry.name), entry.path, is_folder))
    return [(path, is_folder) for _, path, is_folder in sorted(found)]


# ---------------------------------------------------------------- search
def text_of(data: bytes) -> str | None:
    """Return a file's text, None when it is binary: a NUL, but for UTF-16 with its mark."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        return None
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends; the last newline ends a line and begins none."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def report(name: str, lines: list[str], hits: list[int], query: dict[str, Any]) -> Iterator[str]:
    """Yield the lines rg would print for one file with at least one hit (indexes from 0)."""
    if query["mode"] == "files":
        yield f"{name}\0"
    elif query["mode"] == "count":
        yield f"{name}\0{len(hits)}\n"
    else:
        yield from _with_context(name, lines, hits, query["context"])


def _with_context(name: str, lines: list[str], hits: list[int], around: int) -> Iterator[str]:
    is_hit = set(hits)
    shown = sorted({i for h in hits for i in range(h - around, h + around + 1)})
    last = None
    for at in shown:
        if not 0 <= at < len(lines):
            continue
        if around and last is not None and at != last + 1:
            yield "--\n"
        yield f"{name}\0{at + 1}{':' if at in is_hit else '-'}{lines[at]}\n"
        last = at


def search(query: dict[str, Any], out: BinaryIO) -> None:
    """Write the report of every file below `start` that has a hit."""
    flags = re.IGNORECASE if query["ignore_case"] else 0
    hit = re.compile(query["pattern"], flags).search
    wanted = globs.name_or_path(query["glob"]) if query["glob"] else None
    first = True
    for path, name in files(query["start"], query["base"]):
        if wanted is not None and not wanted(name):
            continue
        lines = _lines(path)
        hits = [i for i, line in enumerate(lines) if hit(line)]
        if not hits:
            continue
        if not first and query["mode"] == "lines" and query["context"]:
            out.write(b"--\n")
        first = False
        pieces = report(name, lines, hits, query)
        out.writelines(piece.encode("utf-8", "surrogateescape") for piece in pieces)


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(MAX_BYTES + 1)
    except (PermissionError, FileNotFoundError):
        return []
    text = None if len(data) > MAX_BYTES else text_of(data)
    return [] if text is None else lines_of(text)


def files(start: str, base: str) -> Iterator[tuple[str, str]]:
    """Yield (absolute path, name as shown) of `start`, or of the files below it."""
    paths = walk(start) if os.path.isdir(start) else iter((start,))  # noqa: PTH112
    prefix = base.rstrip("/") + "/"
    for path in paths:
        yield path, path.removeprefix(prefix)


def main(query: dict[str, Any], out: BinaryIO) -> int:
    """Print the files, or the report of a search; 2 and the words on stderr when it cannot."""
    try:
        if query["mode"] == "list":
            names = files(query["start"], query["base"])
            out.writelines(os.fsencode(name) + b"\0" for _, name in names)
        else:
            search(query, out)
    except (re.error, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    with os.fdopen(1, "wb", buffering=1 << 16) as sink:
        code = main(json.load(sys.stdin), sink)
    sys.exit(code)
