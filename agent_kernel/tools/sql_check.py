"""Sql check: what a statement is and touches, by parsing; what does not parse is refused.

May not run anything, and never trusts a driver's own word for "this only reads".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.tool import ToolError
from agent_kernel.tools.data_sources import Connection, Dialect

WRITES = frozenset(
    "Insert Update Delete Merge Create Drop Alter TruncateTable Copy Command Attach Detach Set "
    "Pragma Use Transaction Commit Rollback Grant Export Install Analyze Kill LoadData Cache "
    "Uncache Refresh Into Lock".split()
)
"""Parts of a statement that do more than read, wherever they stand in it."""
KINDS = {
    "Insert": "INSERT", "Update": "UPDATE", "Delete": "DELETE", "Merge": "MERGE",
    "Create": "CREATE", "Drop": "DROP", "Alter": "ALTER", "TruncateTable": "TRUNCATE",
}  # fmt: skip
"""Statements `execute` runs; any other is refused."""
REACHING = frozenset(
    "read_text read_blob glob nextval setval currval load_extension readfile writefile getenv "
    "query query_table sniff_csv duckdb_secrets pragma_user_agent edit sqlite_scan "
    "postgres_scan mysql_scan sqlite_attach postgres_attach".split()
)
"""Functions that change, or reach past the tables."""
HEAVY = frozenset(("DROP", "TRUNCATE", "DELETE"))


@dataclass(frozen=True)
class Statement:
    """One write: its kind, what it writes and reads, and whether it takes a whole object away."""

    kind: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]
    takes_away: bool


def parsed(sql: str, dialect: Dialect) -> Any:
    """Return the one expression of `sql`. Raises ToolError when it is not exactly one, or does not
    parse."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        found = [each for each in sqlglot.parse(sql, read=dialect) if each is not None]
    except (SqlglotError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise ToolError(
            f"this does not parse as {dialect} SQL, so it is refused: {first}"
        ) from None
    if len(found) != 1:
        raise ToolError(f"give one statement, not {len(found)}")
    return found[0]


def need_select(sql: str, dialect: Dialect, connection: Connection | None = None) -> Any:
    """Return the parsed statement when all of it only reads. Raises ToolError saying what does
    not."""
    tree = parsed(sql, dialect)
    name = type(tree).__name__
    if name not in ("Select", "Union", "Intersect", "Except", "Subquery", "Values", "Paren"):
        raise ToolError(f"only SELECT is run by action query; this is {KINDS.get(name, name)}")
    for node in tree.walk():
        kind = type(node).__name__
        if kind in WRITES:
            raise ToolError(
                f"the statement holds {KINDS.get(kind, kind)}, which does not only read"
            )
        called = _called(node)
        if called in REACHING:
            raise ToolError(f"the function {called} is not offered: it reaches past the tables")
    if connection is not None and dialect == "duckdb":
        _need_one_select(connection, sql)
    return tree


def _called(node: Any) -> str:
    """Return the lower-case name of a function call, "" for any other node."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _need_one_select(connection: Connection, sql: str) -> None:
    """Ask DuckDB's own parser as well: the two must agree."""
    try:
        found = connection.raw.extract_statements(sql)
    except Exception as error:  # noqa: BLE001 - the driver's own hierarchy
        raise ToolError(f"{connection.source.name}: {error}") from None
    kinds = [str(each.type).rpartition(".")[2] for each in found]
    if kinds != ["SELECT"]:
        raise ToolError(f"DuckDB reads this as {', '.join(kinds) or 'nothing'}, not one SELECT")


def need_write(sql: str, dialect: Dialect) -> Statement:
    """Return what one writing statement is and touches. Raises ToolError for any other."""
    from sqlglot import exp

    tree = parsed(sql, dialect)
    kind = KINDS.get(type(tree).__name__)
    if kind is None:
        raise ToolError(
            f"action execute runs {', '.join(KINDS.values())}; this is {type(tree).__name__}"
        )
    for node in tree.walk():
        inner, called = type(node).__name__, _called(node)
        if node is not tree and inner in WRITES - {"Into"}:
            raise ToolError(f"one write a statement: this {kind} holds {KINDS.get(inner, inner)}")
        if called in REACHING - {"nextval", "currval"}:
            raise ToolError(f"the function {called} is not offered: it reaches past the tables")
    targets = _targets(tree, kind)
    if not targets:
        raise ToolError(f"this {kind} names no table or view; name each object by itself")
    names = tables_of(tree)
    bare = kind == "DELETE" and tree.args.get("where") is None
    replaces = isinstance(tree, exp.Create) and bool(tree.args.get("replace"))
    takes = kind in ("DROP", "TRUNCATE") or bare or replaces
    sources = tuple(name for name in names if name not in targets)
    return Statement(kind, targets, sources, takes)


def _targets(tree: Any, kind: str) -> tuple[str, ...]:
    from sqlglot import exp

    if kind in ("TRUNCATE", "DROP"):
        held = tree.expressions if kind == "TRUNCATE" else tree.args.get("tables") or [tree.this]
        return tuple(name_of(each) for each in held if isinstance(each, exp.Table) and each.name)
    found = tree.this.find(exp.Table) if tree.this is not None else None
    return (name_of(found),) if found is not None else ()


def tables_of(tree: Any) -> tuple[str, ...]:
    """Return the tables a statement names, each once, in order; its own WITH names are none."""
    from sqlglot import exp

    own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    names = (name_of(each) for each in tree.find_all(exp.Table) if each.name)
    return tuple(dict.fromkeys(name for name in names if name not in own))


def name_of(table: Any) -> str:
    """Return a table's name as written, without quotes: `schema.name` or `name`."""
    return ".".join(part for part in (table.db, table.name) if part)


def same_object(a: str, b: str) -> bool:
    """Tell whether two names may mean one object: equal, or one without its schema."""
    first, second = a.lower().split("."), b.lower().split(".")
    size = min(len(first), len(second))
    return first[-size:] == second[-size:]


def unfiltered(tree: Any, partitions: dict[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return (tables read whole, tables read without a filter on a partition column)."""
    from sqlglot import exp

    whole, missing = list[str](), list[str]()
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        named = {column.name.lower() for column in where.find_all(exp.Column)} if where else set()
        source = select.args.get("from_") or select.args.get("from")
        parts = [source, *(select.args.get("joins") or ())]
        for table in [part.this for part in parts if part is not None]:
            if not isinstance(table, exp.Table) or not table.name:
                continue
            name = name_of(table)
            if where is None:
                whole.append(name)
            keys = next((v for k, v in partitions.items() if same_object(k, name)), ())
            if keys and not named & {key.lower() for key in keys}:
                missing.append(name)
    return whole, missing
