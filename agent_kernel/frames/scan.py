"""Scan: which files there are, who reads each, and their parts in file order.

May not judge what a row means; a file nobody knows is one issue, never an exception.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO

from agent_kernel.frames.own import OwnLog
from agent_kernel.frames.own_notebook import OwnNotebook, differs, own_metadata, sidecar
from agent_kernel.frames.reader import GROUP, PARTS, Columns, Reader, Readers
from agent_kernel.frames.unpack import NeedsZstd, opened, packed_suffix

HEAD = 64 * 1024
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(slots=True)
class File:
    """One file that is read: `id` orders rows, `version` is the first its reader saw."""

    id: int
    path: str
    reader: str
    version: str
    size: int
    until: int | None = None  # a fork's parent: events after this seq are not the fork's


@dataclass(slots=True)
class Found:
    """What a walk gave: the files to read and the issues of those nobody reads."""

    files: list[File] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)


def find_readers(given: Readers | None = None) -> dict[str, Reader]:
    """Return the readers by name: our own two first, then `given` or all installed, in order.

    Raises TypeError when something offered as a reader has no `sniff` and `parts`.
    """
    if given is None:
        found: Iterable[Any] = [_made(point.load()) for point in entry_points(group=GROUP)]
    else:
        found = given.values() if isinstance(given, Mapping) else given
    readers: dict[str, Reader] = {OwnLog.name: OwnLog(), OwnNotebook.name: OwnNotebook()}
    for reader in sorted(found, key=lambda one: str(getattr(one, "name", ""))):
        if not isinstance(reader, Reader):
            raise TypeError(f"{reader!r} is no reader: it needs name, sniff() and parts()")
        readers.setdefault(reader.name, reader)
    return readers


def _made(value: Any) -> Any:
    return value() if isinstance(value, type) else value


def walk(paths: Paths) -> list[str]:
    """Return the real paths of all session files below `paths`, each once, in name order.

    Folders are walked without following symlinks; a name with `*` is a glob. Raises
    FileNotFoundError for a path that is not there.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    seen: dict[str, None] = {}
    for one in listed:
        for path in _expand(Path(one).expanduser()):
            seen.setdefault(os.path.realpath(path))
    return sorted(seen)


def _expand(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in names:
                inside = Path(folder, name)
                if _is_session(name) and not inside.is_symlink():
                    yield inside
    elif path.exists():
        yield path
    elif "*" in str(path):
        base = Path(path.anchor or ".")
        yield from (one for one in base.glob(str(path.relative_to(path.anchor))) if one.is_file())
    else:
        raise FileNotFoundError(f"{str(path)!r} is not there; give a file, a folder or a glob")


def _is_session(name: str) -> bool:
    # `agent-x.meta.json` describes the transcript beside it and is none itself
    return bool(packed_suffix(name)) and not name.endswith(".meta.json")


def find(
    paths: Paths,
    readers: Mapping[str, Reader],
    source: str = "auto",
    seen: Mapping[str, File] | None = None,
) -> Found:
    """Return the files below `paths` with their readers; `source` forces one reader by name.

    A file of an earlier walk, `seen`, that has the same size keeps its reader and is not opened.
    Raises ValueError for a source that is not known.
    """
    if source != "auto" and source not in readers:
        raise ValueError(f"source {source!r} is not known; there are {', '.join(readers)}")
    found = Found()
    for path in walk(paths):
        before = seen.get(path) if seen else None
        if before is not None and _size(path) == before.size:
            found.files.append(replace(before, until=None))
            continue
        try:
            stream, _ = opened(path)
            with stream:
                head = stream.read(HEAD)
            size = Path(path).stat().st_size
        except NeedsZstd as error:
            found.issues.append(_issue("needs_zstd", path, str(error)))
            continue
        except OSError as error:
            found.issues.append(_issue("unreadable", path, str(error)))
            continue
        if head.strip():
            _choose(found, path, size, head, readers, source)
    found.files = list(_with_parents(_beside(found)))
    for number, file in enumerate(found.files):
        file.id = number
    return found


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return -1


def _beside(found: Found) -> list[File]:
    """Put the log beside a notebook in its place, once, and say when the two differ."""
    listed = {file.path for file in found.files}
    files: list[File] = []
    for file in found.files:
        held = own_metadata(file.path) if file.reader == OwnNotebook.name else None
        log = sidecar(file.path, held) if held else None
        if held is None or log is None:
            files.append(file)
            continue
        told = differs(log, held)
        if told:
            found.issues.append(_issue("sidecar_differs", file.path, told))
        if log not in listed:
            listed.add(log)
            files.append(File(0, log, OwnLog.name, "1", Path(log).stat().st_size))
    return files


def _with_parents(files: list[File]) -> Iterator[File]:
    """Yield the files, each fork after the parent its header names, when that was not given."""
    seen = {file.path for file in files}
    for file in files:
        chain = [file]
        while chain[-1].reader == OwnLog.name:
            parent = OwnLog.parent(chain[-1].path)
            if parent is None or parent[0] in seen:
                break
            seen.add(parent[0])
            size = Path(parent[0]).stat().st_size
            chain.append(File(0, parent[0], OwnLog.name, "1", size, parent[1]))
        yield from reversed(chain)


def _choose(
    found: Found,
    path: str,
    size: int,
    head: bytes,
    readers: Mapping[str, Reader],
    source: str,
) -> None:
    asked = readers.values() if source == "auto" else [readers[source]]
    scores = [(reader.sniff(path, head), reader.name) for reader in asked]
    known = sorted(
        ((sniff[0], sniff[1], name) for sniff, name in scores if sniff), key=lambda one: -one[0]
    )
    if source != "auto" and not known:
        known = [(0.0, "", source)]
    if not known:
        message = f"no reader knows this file{_guess(head)}; name one with source="
        found.issues.append(_issue("unknown_format", path, message))
        return
    if len(known) > 1 and known[0][0] == known[1][0]:
        names = ", ".join(one[2] for one in known if one[0] == known[0][0])
        found.issues.append(
            _issue("ambiguous_format", path, f"{names} both know it; took the first")
        )
    found.files.append(File(len(found.files), path, known[0][2], known[0][1], size))


def _guess(head: bytes) -> str:
    if b'"projectHash"' in head and b'"messages"' in head:
        return " (it looks like Gemini CLI JSON)"
    if b'"cells"' in head and b'"nbformat"' in head:
        return " (a notebook without agent turns)"
    return ""


def _issue(code: str, path: str, message: str) -> dict[str, Any]:
    return {
        "code": code,
        "path": path,
        "file": None,
        "offset": None,
        "bytes": None,
        "message": message,
        "sample": "",
    }


def read(file: File, reader: Reader, want: frozenset[str], start: int = 0) -> dict[str, Columns]:
    """Return the wanted parts of one file from byte `start`, every column of PARTS present."""
    out: dict[str, Columns] = {}
    stream, raw = opened(file.path)
    with stream:
        if start:
            stream.seek(start) if raw.seekable() else _skip(stream, start)
        asked = want | {"lines"} if file.until is not None else want
        for name, columns in reader.parts(stream, start, asked):
            _extend(out.setdefault(name, {one: [] for one in PARTS[name]}), columns)
        end = raw.damage
    if file.until is not None:
        _cut(out, file.until)
    if end is not None:
        message = f"the archive ends early: {end}; what came before is read"
        row: Columns = {"code": ["torn_tail"], "message": [message]}
        _extend(out.setdefault("issues", {one: [] for one in PARTS["issues"]}), row)
    return out


def _cut(parts: dict[str, Columns], until: int) -> None:
    """Drop the rows of events after seq `until`."""
    lines = parts.get("lines", {})
    late = {
        offset
        for offset, seq in zip(lines.get("offset", ()), lines.get("seq", ()), strict=True)
        if seq is None or seq > until
    }
    for columns in parts.values():
        keep = [number for number, one in enumerate(columns["offset"]) if one not in late]
        for name, values in columns.items():
            columns[name] = [values[number] for number in keep]


def _skip(stream: BinaryIO, count: int) -> None:
    while count > 0:
        piece = stream.read(min(count, 1 << 20))
        if not piece:
            return
        count -= len(piece)


def _extend(target: Columns, columns: Mapping[str, list[Any]]) -> None:
    rows = max((len(values) for values in columns.values()), default=0)
    for name, held in target.items():
        held.extend(columns.get(name) or [None] * rows)
