"""Cache: parts and tables of files read before, as Parquet in a private folder.

May not hold message text, nor outlive a change: what does not match a file is not used.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from agent_kernel.frames.reader import PARTS
from agent_kernel.frames.scan import File
from agent_kernel.frames.schema import VERSION, restore
from agent_kernel.frames.stamp import Stamp
from agent_kernel.frames.store import TEXT, Held
from agent_kernel.frames.values import kind_of

if TYPE_CHECKING:
    import pandas as pd

KEPT = tuple(name for name in PARTS if name not in TEXT)
RAW = 4  # version of the raw columns: raise it when a reader's rows change meaning
PACKS, TABLE_SETS = 16, 8  # more than these and the oldest are written together or dropped
_ARROW = {"i": "int64", "f": "float64", "b": "bool_", "s": "string"}


def available() -> bool:
    """Return whether Parquet can be read and written here."""
    return find_spec("pyarrow") is not None


def folder() -> Path:
    """Return the cache folder: AGENT_KERNEL_CACHE, else the platform's for this user."""
    named = os.environ.get("AGENT_KERNEL_CACHE")
    if named:
        base = Path(named)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "agent-kernel"
    elif os.environ.get("LOCALAPPDATA"):
        base = Path(os.environ["LOCALAPPDATA"]) / "agent-kernel"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-kernel"
    return base / "frames" / f"v{VERSION}.{RAW}"


def clear() -> int:
    """Delete the cache's own files and return how many there were."""
    place = folder()
    found = [*place.glob("*.parquet"), *place.glob("*.json"), *place.glob("tables/*/*.parquet")]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


class Cache:
    """The parts and tables of earlier loads; damage is dropped and noted in `damaged`."""

    def __init__(self, place: Path | None = None) -> None:
        self.place = place or folder()
        self.damaged: list[str] = []
        self._manifest = self._read_manifest()
        self._open: dict[str, Any] = {}

    def take(self, file: File, stamp: Stamp) -> Held | None:
        """Return the parts kept of a file, or of its beginning; None when it is not here."""
        entry = self._manifest.get(file.path)
        if not isinstance(entry, dict) or entry.get("reader") != file.reader:
            return None
        try:
            kept = Stamp(**entry["stamp"])
            parts = {name: self._group(name, *where) for name, where in entry["parts"].items()}
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            self.damaged.append(f"{file.path}: {error}")
            return None
        same_head = kept.head == stamp.head or kept.size < stamp.size
        return Held(kept, parts) if same_head else None

    def put(self, held: Mapping[str, Held], files: Mapping[str, File]) -> None:
        """Keep the parts of files whose stamp is not here yet, in one new pack a part."""
        fresh = {
            path: one
            for path, one in held.items()
            if one.stamp is not None and not self._has(path, one)
        }
        if not fresh:
            return
        self.place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.place.chmod(0o700)
        with self._lock():
            self._manifest = self._read_manifest()
            if len(list(self.place.glob("usages-*.parquet"))) > PACKS:
                self._drop_all()
                fresh = {path: one for path, one in held.items() if one.stamp is not None}
            number = _next(self.place)
            for name in KEPT:
                self._write_pack(name, number, fresh)
            for path, groups in _numbered(fresh).items():
                stamp = fresh[path].stamp
                assert stamp is not None, f"{path!r} was chosen for its stamp"
                self._manifest[path] = {
                    "reader": files[path].reader,
                    "stamp": asdict(stamp),
                    "parts": {name: [number, at] for name, at in groups.items()},
                }
            _replace(self.place / "manifest.json", json.dumps(self._manifest).encode())

    def table(self, key: str, name: str) -> pd.DataFrame | None:
        """Return a table kept under `key`, None when it is not here or damaged."""
        path = self.place / "tables" / key / f"{name}.parquet"
        if not path.exists():
            return None
        import pandas as pd

        try:
            found = pd.read_parquet(path)
        except (OSError, ValueError) as error:
            self.damaged.append(f"{path.name}: {error}")
            return None
        return restore(name, found)

    def keep_table(self, key: str, name: str, table: pd.DataFrame) -> None:
        """Keep a table under `key`; the oldest sets are dropped."""
        place = self.place / "tables" / key
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = place / f".{name}.{os.getpid()}"
        table.to_parquet(temporary, index=False)
        temporary.replace(place / f"{name}.parquet")
        sets = sorted(self.place.glob("tables/*"), key=lambda path: path.stat().st_mtime)
        for old in sets[:-TABLE_SETS]:
            for path in old.glob("*.parquet"):
                path.unlink(missing_ok=True)
            old.rmdir()

    def _has(self, path: str, one: Held) -> bool:
        entry = self._manifest.get(path)
        if not isinstance(entry, dict) or one.stamp is None:
            return False
        same = entry.get("stamp") == asdict(one.stamp)
        return same and set(one.parts) - TEXT <= set(entry["parts"])

    def _group(self, name: str, number: int, at: int) -> dict[str, list[Any]]:
        import pyarrow.parquet as pq

        if at < 0:
            return {column: [] for column in PARTS[name]}
        key = f"{name}-{number}"
        if key not in self._open:
            self._open[key] = pq.ParquetFile(self.place / f"{key}.parquet")
        columns: dict[str, list[Any]] = self._open[key].read_row_group(at).to_pydict()
        return {column: columns[column] for column in PARTS[name]}

    def _write_pack(self, name: str, number: int, fresh: Mapping[str, Held]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = [(column, getattr(pa, _ARROW[kind_of(column)])()) for column in PARTS[name]]
        shape = pa.schema(fields)
        temporary = self.place / f".{name}.{os.getpid()}"
        with pq.ParquetWriter(temporary, shape, compression="zstd") as writer:
            for one in fresh.values():
                if _rows(one, name):
                    columns = {key: _plain(key, values) for key, values in one.parts[name].items()}
                    writer.write_table(pa.table(columns, schema=shape), row_group_size=1 << 30)
        temporary.replace(self.place / f"{name}-{number}.parquet")

    def _lock(self) -> Any:
        return FileLock(self.place / "lock", timeout=30)

    def _drop_all(self) -> None:
        self._open.clear()
        self._manifest = {}
        for path in self.place.glob("*-*.parquet"):
            path.unlink(missing_ok=True)

    def _read_manifest(self) -> dict[str, Any]:
        try:
            found = json.loads((self.place / "manifest.json").read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self.damaged.append(f"manifest.json: {error}")
            return {}
        return found if isinstance(found, dict) else {}


def _rows(one: Held, name: str) -> int:
    return len(one.parts[name][PARTS[name][0]]) if name in one.parts else 0


def _numbered(fresh: Mapping[str, Held]) -> dict[str, dict[str, int]]:
    """Return, by path, the row group of each part in its pack; -1 for a part without rows."""
    groups = dict.fromkeys(KEPT, 0)
    found: dict[str, dict[str, int]] = {path: {} for path in fresh}
    for path, one in fresh.items():
        for name in one.parts.keys() & groups.keys():
            found[path][name] = groups[name] if _rows(one, name) else -1
            groups[name] += bool(_rows(one, name))
    return found


def _next(place: Path) -> int:
    numbers = [int(path.stem.rsplit("-", 1)[1]) for path in place.glob("usages-*.parquet")]
    return max(numbers, default=0) + 1


def _plain(column: str, values: list[Any]) -> list[Any]:
    """Return values as Arrow takes them: text without lone surrogates, yes/no as such."""
    if kind_of(column) == "b":
        return [None if value is None else bool(value) for value in values]
    if kind_of(column) != "s":
        return values
    return [
        value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, str) and not value.isascii()
        else value
        for value in values
    ]


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)


def fingerprint(
    stamps: Mapping[str, Stamp | None], files: Sequence[File], extra: Sequence[object] = ()
) -> str | None:
    """Return a key of exactly these files as they are now, None when one has no stamp."""
    said = []
    for file in files:
        stamp = stamps.get(file.path)
        if stamp is None:
            return None
        said.append([file.path, file.reader, file.until, *asdict(stamp).values()])
    data = json.dumps([said, [str(one) for one in extra]]).encode()
    return blake2b(data, digest_size=16).hexdigest()
