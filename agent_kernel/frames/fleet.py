"""Fleet: the tables of more sessions than one process holds, as Dask DataFrames.

May not gather rows on the driver but issue counts, prices and the reconcile rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agent_kernel.frames.assemble import SHIFT
from agent_kernel.frames.builders import BUILDERS
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import Readers
from agent_kernel.frames.scan import find, find_readers
from agent_kernel.frames.schema import frame, names
from agent_kernel.frames.store import Store
from agent_kernel.frames.unpack import packed_suffix

if TYPE_CHECKING:
    import pandas as pd

TASK = 64 * 1024 * 1024  # bytes of files one task reads
PACKED = (".gz", ".zst", ".zstd")
SPLIT = ("subagents", "tool-results")
RECORDS = frozenset(["record_id", "copy_of", "duplicate_of", "text_record"])
Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one filesystem: an fsspec URL's protocol, and paths with their bytes."""

    protocol: str
    files: tuple[tuple[str, int], ...]
    root: str


class Fleet:
    """The same properties as Frames, each a Dask DataFrame; `.compute()` gives what `load` gives.

    Sessions that share files stay in one task, so deduplication is whole within a session; calls
    stated in several sessions count once by `calls`.
    """

    def __init__(self, source: Source, groups: list[Group], readers: Readers | None) -> None:
        self.source = source
        self.groups = groups
        self._readers = readers
        self._kept: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in BUILDERS:
            raise AttributeError(f"{name!r} is no table; there are {', '.join(BUILDERS)}")
        if name not in self._kept:
            self._kept[name] = self._table(name)
        return self._kept[name]

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *BUILDERS]

    def _table(self, name: str) -> Any:
        import dask.config
        import dask.dataframe as dd
        from dask.delayed import delayed

        meta = _plain(frame(name, {column: [] for column in names(name)}))
        if not self.groups:
            return dd.from_pandas(meta, npartitions=1)  # type: ignore[no-untyped-call]
        build = delayed(table_of, pure=True)
        parts = [build(self.source, group, name, self._readers) for group in self.groups]
        with dask.config.set({"dataframe.convert-string": False}):  # lists stay lists
            made = dd.from_delayed(parts, meta=meta, verify_meta=False)
        if name == "calls":
            return _once(made)
        return _summed(made, name) if name in ("reconcile", "prices") else made


def load(paths: str, readers: Readers | None = None) -> Fleet:
    """Return the fleet of the session files below `paths`: a folder, a glob, or an fsspec URL.

    Runs where the current Dask client runs, else in this process's threads. Raises ImportError
    naming the extra, FileNotFoundError for a path that is not there.
    """
    try:
        import dask.dataframe  # noqa: F401
        import fsspec
    except ImportError as error:
        raise ImportError("install agent-kernel[fleet] to read with Dask") from error
    system, root = fsspec.core.url_to_fs(paths)
    listed = _listed(system, root)
    if not listed and not system.exists(root):
        raise FileNotFoundError(f"{paths!r} is not there; give a folder, a glob or a URL")
    protocol = paths.split("://", 1)[0] if "://" in paths else "file"
    source = Source(protocol, tuple(listed), root)
    return Fleet(source, _groups(listed), readers)


def _listed(system: Any, root: str) -> list[tuple[str, int]]:
    if "*" in root:
        found = system.glob(root, detail=True)
    elif system.isfile(root):
        found = {root: system.info(root)}
    else:
        found = system.find(root, detail=True)
    return sorted(
        (path, int(info.get("size") or 0))
        for path, info in found.items()
        if packed_suffix(path) and not path.endswith(".meta.json")
    )


def _groups(files: list[tuple[str, int]]) -> list[Group]:
    """Deal files to tasks of about 64 MB; a session's files, and its copies, stay together."""
    sessions: dict[str, list[tuple[str, int]]] = {}
    for path, size in files:
        sessions.setdefault(_session(path), []).append((path, size))
    groups: list[Group] = []
    held: list[str] = []
    weight = 0
    for members in sessions.values():
        size = sum(size * (6 if path.endswith(PACKED) else 1) for path, size in members)
        if held and weight + size > TASK:
            groups.append(tuple(held))
            held, weight = [], 0
        held += [path for path, _ in members]
        weight += size
    return [*groups, tuple(held)] if held else groups


def _session(path: str) -> str:
    """Return what a file's session is named by: the folder above subagents/, or the file's stem."""
    parts = path.split("/")
    for name in SPLIT:
        if name in parts:
            return "/".join(parts[: parts.index(name)])
    return "/".join([*parts[:-1], parts[-1].split(".")[0]])


def table_of(source: Source, group: Group, name: str, readers: Readers | None) -> pd.DataFrame:
    """Return one table of a group of files; what a task of the fleet runs."""
    known = find_readers(readers)
    with TemporaryDirectory() as folder:
        found = find(_local(source, group, folder), known)
        store = Store(found, known, workers=1)
        made = frame(name, Load(store, BUILDERS).table(name))
        place = os.path.realpath(folder) if source.protocol != "file" else ""
        ids = _ids(source, [file.path for file in found.files], place)
    return _plain(_named(made, ids, place))


def _ids(source: Source, paths: list[str], place: str) -> list[int]:
    """Return the number each file of a task has in the whole fleet, by name."""
    names = [path if place else os.path.realpath(path) for path, _ in source.files]
    whole = {name.lstrip("/"): number for number, name in enumerate(sorted(names))}
    return [whole[path.removeprefix(place).lstrip("/")] for path in paths]


def _local(source: Source, group: Group, folder: str) -> list[str]:
    """Return paths this process can open: of another filesystem, copies below `folder`."""
    if source.protocol == "file":
        return list(group)
    import fsspec

    system = fsspec.filesystem(source.protocol)
    local = []
    for path in group:
        target = f"{folder}/{path.lstrip('/')}"
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        system.get_file(path, target)
        local.append(target)
    return local


def _named(made: pd.DataFrame, ids: list[int], place: str) -> pd.DataFrame:
    """Give files the numbers and paths they have in the whole fleet."""
    low = (1 << SHIFT) - 1
    for column in RECORDS & set(made):
        held = [None if one is None else int(one) for one in _listed_values(made, column)]
        made[column] = [
            None if one is None else ids[one >> SHIFT] << SHIFT | (one & low) for one in held
        ]
    if "file_id" in made:
        made["file_id"] = [ids[int(one)] for one in made["file_id"]]
    if place and "path" in made:
        made["path"] = made["path"].astype("str").str.replace(place, "", regex=False)
    kinds = dict.fromkeys((RECORDS | {"file_id"}) & set(made), "Int64")
    return made.astype(kinds)


def _listed_values(made: pd.DataFrame, column: str) -> list[int | None]:
    missing = made[column].isna()
    return [None if gone else one for one, gone in zip(made[column], missing, strict=True)]


def _plain(made: pd.DataFrame) -> pd.DataFrame:
    """Return a table without categories: partitions would have different ones."""
    return made.astype({name: "str" for name, kind in made.dtypes.items() if kind == "category"})


def _once(calls: Any) -> Any:
    """Count a call once that several groups state: the first by time and session stays.

    Calls are dealt by their id, so that every file is read once and no task holds them all.
    """
    return calls.shuffle("call_id").map_partitions(_first)


def _first(calls: pd.DataFrame) -> pd.DataFrame:
    ordered = calls.sort_values(["time_first", "session_id"], kind="stable", ignore_index=True)
    return ordered.drop_duplicates("call_id", ignore_index=True)


def _summed(made: Any, name: str) -> pd.DataFrame:
    """Return the rows of a table that is a sum over all files."""
    whole = made.compute()
    keys = ["step", "rule", "lines", "nested", "scope", "write_price", "output", "equals"]
    if name == "prices":
        keys = [c for c in whole if c not in ("calls", "tokens", "tokens_unpriced")]
    numbers = [c for c in whole if c not in keys]
    found = whole.groupby(keys, dropna=False, sort=False)[numbers].sum(min_count=1).reset_index()
    if name == "reconcile":
        found = found.sort_values("step", ignore_index=True)
        found["delta_usd"] = found["usd"].diff()
    summed: pd.DataFrame = found[list(whole.columns)]
    return summed
