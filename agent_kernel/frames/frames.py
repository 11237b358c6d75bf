"""Frames: one load as lazy pandas tables, with the way back to the bytes.

May not read a byte twice that it holds, nor build a table nobody asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent_kernel.frames.assemble import Rec
from agent_kernel.frames.cache import RAW, Cache, available, fingerprint
from agent_kernel.frames.chain import Chain
from agent_kernel.frames.ledger import BUCKETS
from agent_kernel.frames.load import Builder, Load
from agent_kernel.frames.own import live_parts
from agent_kernel.frames.reader import Readers
from agent_kernel.frames.reconcile import count, with_switches
from agent_kernel.frames.scan import File, Found, Paths, find, find_readers
from agent_kernel.frames.schema import frame, schema
from agent_kernel.frames.show import write_parquet
from agent_kernel.frames.sql import query
from agent_kernel.frames.store import Store
from agent_kernel.frames.texts import Texts
from agent_kernel.frames.totals import notes, totals

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
        texts = Texts(self.load.store)
        return [texts.raw(rec) for rec in self._recs(rows)]

    def text(self, rows: pd.DataFrame) -> list[str]:
        """Return the text behind rows of blocks, or of whole records for rows without `block`.

        Raises StaleSource when the file changed there, ValueError for rows without record_id.
        """
        texts = Texts(self.load.store)
        if "sha" in rows:
            pairs = zip(self._recs(rows), rows["sha"].tolist(), strict=True)
            return [
                texts.blocks(rec, [sha if isinstance(sha, str) else None])[0] for rec, sha in pairs
            ]
        held: dict[int, list[str]] = {}
        for block in self.load.blocks:
            held.setdefault(block["rec"].id, []).append(block["sha"])
        return ["\n".join(texts.blocks(rec, held.get(rec.id, ()))) for rec in self._recs(rows)]

    def _recs(self, rows: pd.DataFrame) -> list[Rec]:
        if "record_id" not in rows:
            raise ValueError(
                "these rows have no record_id; take them from records, calls or blocks"
            )
        found = [self.load.by_id.get(int(one)) for one in rows["record_id"]]
        if None in found:
            raise ValueError("a record_id is not of this load; take the rows from its own tables")
        return [rec for rec in found if rec is not None]

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

    def filter(
        self, session_id: Iterable[str] | None = None, since: str | None = None
    ) -> dict[str, pd.DataFrame]:
        """Return every table with only the rows of these sessions, and of times from `since` on.

        `since` is ISO 8601; tables without a session, or without a time, keep all such rows.
        """
        import pandas as pd

        wanted = None if session_id is None else set(session_id)
        start = None if since is None else pd.Timestamp(since, tz="UTC")
        out: dict[str, pd.DataFrame] = {}
        for name in self._tables:
            held = self.table(name)
            if wanted is not None and "session_id" in held:
                held = held[held["session_id"].isin(wanted)]
            when = next((c.name for c in schema(name) if c.dtype == "t"), None)
            if start is not None and when is not None:
                held = held[(held[when] >= start) | held[when].isna()]
            out[name] = held.reset_index(drop=True)
        return out

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

    def _repr_markdown_(self) -> str:
        """Return the line, the totals by model and what the sums lack."""
        total = self.totals()
        lines = [f"**{str(self)[1:-1]}**", "", "| model | calls | tokens in | out | $ |"]
        lines.append("| --- | ---: | ---: | ---: | ---: |")
        for row in [*total["models"], {**total["total"], "model": "total"}]:
            inside = sum(row[name] for name in BUCKETS if name != "output")
            usd = "unknown" if row["usd"] is None else f"{row['usd']:,.2f}"
            model = escape(str(row["model"])).replace("|", "\\|")
            lines.append(f"| {model} | {row['calls']:,} | {inside:,} | {row['output']:,} | {usd} |")
        return "\n".join([*lines, "", *(f"{escape(note)}  " for note in notes(total))])

    def _repr_html_(self) -> str:
        """Return what the Markdown says as one HTML table, every name escaped."""
        total = self.totals()
        rows = [*total["models"], {**total["total"], "model": "total"}]
        body = "".join(
            f"<tr><td>{escape(str(row['model']))}</td><td>{row['calls']:,}</td>"
            f"<td>{sum(row[name] for name in BUCKETS if name != 'output'):,}</td>"
            f"<td>{row['output']:,}</td>"
            f"<td>{'unknown' if row['usd'] is None else format(row['usd'], ',.2f')}</td></tr>"
            for row in rows
        )
        said = "<br>".join(escape(note) for note in notes(total))
        names = ", ".join(self._tables)
        return (
            f"<p><b>{escape(str(self)[1:-1])}</b></p><table><thead><tr><th>model</th><th>calls</th>"
            f"<th>tokens in</th><th>out</th><th>$</th></tr></thead><tbody>{body}</tbody></table>"
            f"<p>{said}</p><p>tables: {names}</p>"
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

    def again() -> Found:
        seen = {file.path: file for file in store.files}
        return find(paths, known, source, seen)

    return Frames(Load(store, tables, prices), tables, shelf, again)


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
