"""Data sources: the databases a session may look into, and connections that cannot write or roam.

May not hold a password: one is named in a URL as `${NAME}` and taken from the environment here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import agent_kernel.tools.walker as walker
from agent_kernel.core.agent import Agent
from agent_kernel.core.tool import ToolContext, ToolError

Dialect = Literal["duckdb", "sqlite"]
WORKSPACE = "workspace"
FILES = 200
SECONDS = 30.0
READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_URL = re.compile(r"(?P<scheme>[a-z0-9+]+):(?://)?(?P<path>.*)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """One database: its dialect, its file (None = in memory over the workspace), its tier.

    `read_only` None means that dev may be written and prod not; `partitions` are the partition
    columns by table, where the database cannot say them; the rest is where to look for risks.
    """

    name: str
    dialect: Dialect
    path: Path | None
    tier: Literal["dev", "prod"] = "dev"
    read_only: bool | None = None
    row_limit: int = 200
    partitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    jobs: str | None = None  # folder of scheduled jobs
    lineage: str | None = None  # OpenLineage events, one a line
    approvals: str | None = None  # JSON object: object -> who approved what
    paths: Mapping[str, str] = field(default_factory=dict)  # storage path of a table

    @property
    def writable(self) -> bool:
        """Tell whether `execute` may run here at all."""
        if self.path is None:
            return False
        return self.read_only is not True if self.tier == "dev" else self.read_only is False


def need_drivers() -> None:
    """Raise ToolError when the extra that holds DuckDB and the SQL parser is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("duckdb", "sqlglot")):
        raise ToolError("this tool needs the extra `data`: pip install 'agent-kernel[data]'")


def configured(agent: Agent) -> bool:
    """Tell whether the data tools have a use: their drivers are there and sources are named."""
    named = bool(agent.services.get("data"))
    return named and all(importlib.util.find_spec(name) for name in ("duckdb", "sqlglot"))


def source_of(ctx: ToolContext, name: str | None) -> Source:
    """Return the source a call names, the only one when it names none. Raises ToolError."""
    need_drivers()
    given: Mapping[str, Mapping[str, Any]] = ctx.services.get("data") or {}
    if not given:
        if name not in (None, WORKSPACE):
            raise ToolError(f"no source {name!r}; only {WORKSPACE!r}: set data.sources for others")
        return Source(WORKSPACE, "duckdb", None)
    if name is None and len(given) == 1:
        name = next(iter(given))
    if name is None or name not in given:
        raise ToolError(f"source {name!r}: say one of {', '.join(given)}")
    if name == WORKSPACE and not given[name].get("url"):
        return Source(WORKSPACE, "duckdb", None)
    return _read(ctx, name, given[name])


def _read(ctx: ToolContext, name: str, given: Mapping[str, Any]) -> Source:
    known = set(Source.__dataclass_fields__) - {"name", "dialect", "path"} | {"url"}
    wrong = sorted(set(given) - known)
    if wrong:
        raise ToolError(
            f"data.sources.{name} has no {wrong[0]!r}; it takes {', '.join(sorted(known))}"
        )
    url = _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), str(given.get("url", "")))
    dialect, path = _place(name, url)
    rest = {key: value for key, value in given.items() if key != "url"}
    return Source(name, dialect, (ctx.workspace / path).resolve(), **rest)


def _place(name: str, url: str) -> tuple[Dialect, Path]:
    found = _URL.fullmatch(url)
    if found is None or found["scheme"] not in ("duckdb", "sqlite") or not found["path"]:
        raise ToolError(
            f"source {name!r}: only duckdb:FILE and sqlite:FILE can be read safely here; another "
            "database joins as a tool of its own package or an MCP server"
        )
    path = Path(found["path"].removeprefix("/") if "///" in url else found["path"])
    return found["scheme"], Path("/") / path if "////" in url else path  # type: ignore[return-value]


# ---- connections ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """What a statement gave: column names, rows, whether there were more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


class Connection:
    """One connection of either driver; `rows` runs one statement."""

    def __init__(self, source: Source, raw: Any) -> None:
        self.source = source
        self.raw = raw

    def rows(self, sql: str, limit: int = 10_000, values: Sequence[Any] = ()) -> Rows:
        """Run one statement and return at most `limit` rows. Raises ToolError in the driver's
        words."""
        try:
            cursor = self.raw.execute(sql, list(values))
            found = cursor.fetchmany(limit + 1) if cursor.description else []
        except Exception as error:  # noqa: BLE001 - each driver has its own hierarchy
            raise ToolError(f"{self.source.name}: {error}") from None
        columns = tuple(str(each[0]) for each in cursor.description or ())
        return Rows(columns, tuple(map(tuple, found[:limit])), len(found) > limit)

    def one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first value of a statement, None without a row."""
        found = self.rows(sql, 1, values).rows
        return found[0][0] if found else None


@contextmanager
def reading(ctx: ToolContext, source: Source, seconds: float = SECONDS) -> Iterator[Connection]:
    """Yield a connection that can neither write nor reach a file outside the workspace.

    Its statement is interrupted after `seconds`. Raises ToolError when it cannot be opened.
    """
    raw = _sqlite(source) if source.dialect == "sqlite" else _duckdb(ctx, source)
    timer = threading.Timer(seconds, raw.interrupt)
    timer.start()
    try:
        yield Connection(source, raw)
    finally:
        timer.cancel()
        raw.close()


def _exists(source: Source) -> Path:
    assert source.path is not None
    if not source.path.is_file():
        raise ToolError(f"source {source.name!r}: there is no file {source.path.name!r}")
    return source.path


def _sqlite(source: Source) -> sqlite3.Connection:
    path = _exists(source)
    raw = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
    raw.execute("PRAGMA query_only=ON")
    raw.set_authorizer(_reads_only)
    return raw


def _reads_only(action: int, _a: Any, b: Any, _c: Any, _d: Any) -> int:
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if str(b).lower() in _REACHING else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        return sqlite3.SQLITE_OK if str(_a).lower() in _PRAGMAS else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


_REACHING = frozenset(("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"))
_PRAGMAS = frozenset(("table_info", "table_xinfo", "index_list"))


def _duckdb(ctx: ToolContext, source: Source) -> Any:
    import duckdb

    try:
        if source.path is not None:
            raw = duckdb.connect(str(_exists(source)), read_only=True)
            fence(raw, ctx.workspace)
            return raw
        raw = duckdb.connect(":memory:")
        _over_files(ctx, raw)
        fence(raw, ctx.workspace)
        raw.execute("BEGIN TRANSACTION READ ONLY")
    except duckdb.Error as error:
        raise ToolError(f"source {source.name!r} cannot be opened to read: {error}") from None
    return raw


def fence(raw: Any, workspace: Path) -> None:
    """Fence a connection to the workspace's files and lock its configuration."""
    folder = str(workspace.resolve()).replace("'", "''")
    raw.execute(f"SET allowed_directories=['{folder}']")
    raw.execute("SET enable_external_access=false")
    raw.execute("SET python_enable_replacements=false")
    raw.execute("SET lock_configuration=true")


def _over_files(ctx: ToolContext, raw: Any) -> None:
    """Give the workspace's csv and parquet files, and the live DataFrames, as views by name."""
    frames: Callable[[], Mapping[str, Any]] = ctx.services.get("frames", dict)
    taken: set[str] = set()
    for name, frame in frames().items():
        raw.register(name, frame)
        taken.add(name)
    root = str(ctx.workspace.resolve())
    for path in walker.walk(root):
        if len(taken) >= FILES:
            break
        reader = READERS.get(Path(path).suffix.lower())
        name = re.sub(r"\W", "_", Path(path).stem)
        if reader is None or name in taken:
            continue
        taken.add(name)
        quoted = path.replace("'", "''")
        try:
            raw.execute(f"CREATE VIEW \"{name}\" AS SELECT * FROM {reader}('{quoted}')")  # noqa: S608
        except Exception:  # noqa: BLE001 - one unreadable file leaves the others readable
            taken.discard(name)
