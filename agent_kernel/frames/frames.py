"""Frames: one load as lazy pandas tables, with the way back to the bytes.

May not read a byte twice that it holds, nor build a table nobody asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

from agent_kernel.frames.cache import RAW, Cache, available, fingerprint
from agent_kernel.frames.chain import Chain
from agent_kernel.frames.load import Builder, Load
from agent_kernel.frames.own import live_parts
from agent_kernel.frames.reader import Readers
from agent_kernel.frames.reconcile import count, with_switches
from agent_kernel.frames.scan import File, Found, Paths, find, find_readers
from agent_kernel.frames.schema import frame
from agent_kernel.frames.show import write_parquet
from agent_kernel.frames.sql import query
from agent_kernel.frames.store import Store
from agent_kernel.frames.totals import totals
from agent_kernel.frames.unpack import opened

if TYPE_CHECKING:
    import pandas as pd


PACKAGE = f"rows {RAW}"
TEXTUAL = ("tools", "facts", "sessions", "permissions")  # tables a cache may not hold


class Wired(Protocol):
    """An event that can say its own log line."""

    def wire(self) -> dict[str, Any]:
        """Return the event as its line says it, without `h`."""


class Live(Protocol):
    """A log in memory; a session is one by its `log`."""

    @property
    def events(self) -> Iterable[Wired | Mapping[str, Any]]:
        """The events so far, in seq order."""


class StaleSource(Exception):
    """The bytes a row came from are not what they were; load again."""


class Frames:
    """The tables of one load as DataFrames: `f.calls`, `f.tools`, … (frames.ALL)."""

    def __init__(
        self,
        load: Load,
        tables: Mapping[str, Builder],
        cache: Cache | None = None,
        again: Callable[[], Found] | None = None,
    ) -> None:
        self.load = load
        self._tables = tables
        self._cache = cache
        self._again = again
        self._extra = (PACKAGE, version("genai-prices"), *map(str, load.prices))
        self._frames: dict[str, pd.DataFrame] = {}

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name.startswith("_") or name not in self._tables:
            raise AttributeError(f"{name!r} is no table; there are {', '.join(self._tables)}")
        return self.table(name)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._tables]

    def table(self, name: str) -> pd.DataFrame:
        """Return one table; raises KeyError naming the tables for another name."""
        if name not in self._tables:
            raise KeyError(f"{name!r} is no table; there are {', '.join(self._tables)}")
        if name not in self._frames:
            self._frames[name] = self._kept(name)
        return self._frames[name]

    def _kept(self, name: str) -> pd.DataFrame:
        """Return a table from the cache, or built and left there."""
        if self._cache is None or self.load.store.live or name in TEXTUAL:
            return frame(name, self.load.table(name))
        key = fingerprint(self.load.store.stamps(), self.load.store.files, self._extra)
        found = self._cache.table(key, name) if key else None
        if found is None:
            found = frame(name, self.load.table(name))
            if key:
                self._cache.keep_table(key, name, found)
        return found

    def refresh(self) -> bool:
        """Read only what is new in the files of this load; return whether anything was.

        A file that grew is read on from its last whole line, a changed one again.
        """
        if self._again is None:
            return False
        if self.load.store.refresh(self._again()):
            self.load = self.load.renewed()
            self._frames.clear()
            return True
        return False

    def columns(self, name: str) -> dict[str, list[Any]]:
        """Return one table as plain lists by column, without pandas; times in milliseconds."""
        return self.load.table(name)

    def totals(self, **how: Any) -> dict[str, Any]:
        """Return the object of `agent-kernel totals --json`; `by`, `rule`, `since`, `until`."""
        return totals(self.load.store, self.load.priced, **how)

    def reconcile_rule(self, name: str = "own rule", **switches: Any) -> dict[str, Any]:
        """Return the row of another rule: lines, nested, scope, write_price, output as switches.

        Raises TypeError for an unknown switch, ValueError for an unknown value of one.
        """
        return count(self.load, with_switches(name, **switches))

    def files_read(self) -> list[str]:
        """Return the real paths of the files behind this load, in order."""
        return [file.path for file in self.load.store.files if file.path]

    def chain(self, session_id: str, rule: str = "ours") -> pd.DataFrame:
        """Return the records the model sees now, in order, by rule `ours` or `official`.

        Raises KeyError for an unknown session, ValueError for another rule.
        """
        if rule not in ("ours", "official"):
            raise ValueError(f"rule {rule!r} is not known; give 'ours' or 'official'")
        chain = self.walk(session_id)
        ids = [rec.id for rec in (chain.ours if rule == "ours" else chain.official)]
        records = self.table("records").set_index("record_id", drop=False)
        return records.loc[ids].reset_index(drop=True)

    def walk(self, session_id: str) -> Chain:
        """Return the walk of a session with its counts; raises KeyError for an unknown one."""
        if session_id not in self.load.chains:
            raise KeyError(f"session {session_id!r} is not in this load")
        return self.load.chains[session_id]

    def raw(self, rows: pd.DataFrame) -> list[dict[str, Any]]:
        """Return the JSON objects behind rows that have `record_id`.

        Raises StaleSource when the file changed there, ValueError for rows without record_id.
        """
        if "record_id" not in rows:
            raise ValueError(
                "these rows have no record_id; take them from records, calls or blocks"
            )
        return [self._raw(int(one)) for one in rows["record_id"]]

    def _raw(self, record_id: int) -> dict[str, Any]:
        rec = self.load.by_id.get(record_id)
        if rec is None:
            raise KeyError(f"record {record_id} is not in this load")
        if self.load.store.live:
            return dict(self.load.store.events[rec.seq])
        path = self.load.store.files[rec.file].path
        stream, _ = opened(path)
        with stream:
            stream.seek(rec.offset)
            line = stream.read(rec.bytes)
        if rec.crc and crc32(line.rstrip()) != rec.crc:
            raise StaleSource(f"{path!r} changed at byte {rec.offset}; load it again")
        value = json.loads(line.decode("utf-8-sig"), strict=False)
        return value if isinstance(value, dict) else {}

    def save(self, folder: str | Path) -> list[str]:
        """Write one Parquet file a table into `folder` and return their paths.

        Raises ImportError naming the extra without pyarrow.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written = [place / f"{name}.parquet" for name in self._tables]
        for name, path in zip(self._tables, written, strict=True):
            write_parquet(name, self.columns(name), path)
        return [str(path) for path in written]

    def sql(self, text: str) -> pd.DataFrame:
        """Return the result of one SQL query over the tables, by DuckDB, read-only.

        Raises ImportError naming the extra without DuckDB, ValueError for what DuckDB refuses.
        """
        return query(text, self._tables, self.table)

    def numbered(self, name: str, where: str) -> list[int]:
        """Return the numbers of the rows of a table for which an SQL condition holds."""
        numbered = self.table(name).assign(row_number_=range(len(self.table(name))))
        text = f"select row_number_ from {name} where {where} order by row_number_"  # noqa: S608
        return [int(one) for one in query(text, [name], lambda _: numbered)["row_number_"]]

    def __repr__(self) -> str:
        total = self.totals()
        harnesses = sorted({file.reader for file in self.load.store.files})
        sessions = len(self.load.assembled.sessions)
        usd = total["total"]["usd"]
        return (
            f"<Frames: {sessions} sessions, {total['total']['calls']:,} calls, "
            f"{'unknown dollars' if usd is None else f'${usd:,.2f}'}, "
            f"{sum(total['issues'].values())} issues, from {', '.join(harnesses) or 'nothing'}>"
        )


def load(
    paths: Paths,
    source: str = "auto",
    *,
    cache: bool = True,
    workers: int | None = None,
    readers: Readers | None = None,
    prices: Sequence[Mapping[str, Any]] = (),
    tables: Mapping[str, Builder],
) -> Frames:
    """Return the frames of all session files below `paths`.

    Raises FileNotFoundError for a path that is not there, ValueError for an unknown source.
    """
    known = find_readers(readers)
    shelf = Cache() if cache and available() else None
    store = Store(find(paths, known, source), known, workers, shelf)
    return Frames(Load(store, tables, prices), tables, shelf, lambda: find(paths, known, source))


def of(
    session_or_log: Any,
    *,
    prices: Sequence[Mapping[str, Any]] = (),
    tables: Mapping[str, Builder],
) -> Frames:
    """Return the frames of a live session or log: the events in memory, read by nobody again.

    Raises TypeError when it has neither `events` nor a `log` with `events`.
    """
    log = getattr(session_or_log, "log", session_or_log)
    events = getattr(log, "events", None)
    if events is None:
        raise TypeError(f"{session_or_log!r} has no events; give a Session or a Log")
    wired = [one if isinstance(one, Mapping) else one.wire() for one in events]
    store = Store(Found([File(0, "", "agent_kernel", "1", 0)]), {})
    store.hold(live_parts(json.loads(json.dumps(one)) for one in wired))
    store.events = {one["seq"]: one for one in wired}
    return Frames(Load(store, tables, prices), tables)
