"""Sql catalog: what a database holds, in the same columns for every driver.

May not read rows of a table but to count them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.tools.data_sources import Connection

OBJECTS = 200
COUNTED = 50


@dataclass(frozen=True)
class Object:
    """A table or a view: columns are (name, type, comment); `rows` None = not counted."""

    name: str
    kind: str
    columns: tuple[tuple[str, str, str], ...]
    rows: int | None
    partitions: tuple[str, ...]
    comment: str = ""
    sql: str = ""


def objects(connection: Connection, only: str | None = None) -> list[Object]:
    """Return tables and views by name; with `only`, the one of that name, counted exactly."""
    found = _sqlite(connection) if connection.source.dialect == "sqlite" else _duckdb(connection)
    if only is not None:
        wanted = only.lower().replace("main.", "")
        found = [each for each in found if each.name.lower().replace("main.", "") == wanted]
        return [_counted(connection, each) for each in found]
    return [_counted(connection, each) if at < COUNTED and each.kind == "table" else each
            for at, each in enumerate(found)]  # fmt: skip


def quoted(name: str) -> str:
    """Return a name as an identifier of either dialect."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _counted(connection: Connection, each: Object) -> Object:
    count = connection.one(f"SELECT count(*) FROM {quoted(each.name)}")  # noqa: S608
    return Object(
        each.name, each.kind, each.columns, count, each.partitions, each.comment, each.sql
    )


def _partitions(
    connection: Connection, name: str, columns: Sequence[tuple[str, str, str]]
) -> tuple[str, ...]:
    """Return the partition columns: as configured, else those whose comment says so."""
    for table, keys in connection.source.partitions.items():
        if table.lower() == name.lower():
            return tuple(keys)
    return tuple(column for column, _type, said in columns if "partition" in said.lower())


def _sqlite(connection: Connection) -> list[Object]:
    connection.raw.set_authorizer(None)  # these statements are ours; the file stays read-only
    rows = connection.rows(
        "SELECT name, type, coalesce(sql, '') FROM sqlite_master "
        "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).rows
    out = []
    for name, kind, sql in rows:
        info = connection.rows("SELECT name, type FROM pragma_table_info(?)", 2_000, [name]).rows
        columns = tuple((str(column), str(kind_) or "ANY", "") for column, kind_ in info)
        keys = _partitions(connection, name, columns)
        out.append(Object(name, kind, columns, None, keys, "", sql))
    return out


def _duckdb(connection: Connection) -> list[Object]:
    listed = connection.rows(
        "SELECT schema_name, table_name, 'table', coalesce(comment, ''), '' FROM duckdb_tables() "
        "WHERE NOT internal UNION ALL SELECT schema_name, view_name, 'view', "
        "coalesce(comment, ''), sql FROM duckdb_views() WHERE NOT internal ORDER BY 1, 2"
    ).rows
    columns: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for schema, table, name, kind, said in connection.rows(
        "SELECT schema_name, table_name, column_name, data_type, coalesce(comment, '') "
        "FROM duckdb_columns() WHERE NOT internal ORDER BY schema_name, table_name, column_index",
        100_000,
    ).rows:
        columns.setdefault((schema, table), []).append((name, kind, said))
    out = []
    for schema, table, kind, comment, sql in listed:
        name = table if schema == "main" else f"{schema}.{table}"
        held = tuple(columns.get((schema, table), ()))
        keys = _partitions(connection, name, held)
        out.append(Object(name, kind, held, None, keys, comment, sql))
    return out


def listed(found: Sequence[Object], whole: bool) -> str:
    """Return one line an object, or with `whole` one line a column as well."""
    lines = [f"{'object':<32} {'kind':<6} {'rows':>12}  partition  columns"]
    for each in found[:OBJECTS]:
        rows = "unknown" if each.rows is None else f"{each.rows:,}"
        names = ", ".join(f"{column} {kind}" for column, kind, _said in each.columns)
        keys = ",".join(each.partitions) or "-"
        comment = f"  -- {each.comment}" if each.comment else ""
        short = names if len(names) <= 300 or whole else f"{names[:300]}…"
        lines.append(f"{each.name:<32} {each.kind:<6} {rows:>12}  {keys:<9}  {short}{comment}")
        if whole:
            lines += [f"  {c}: {said}" for c, _kind, said in each.columns if said]
            lines += [f"  as: {each.sql}"] if each.kind == "view" else []
    if len(found) > OBJECTS:
        lines.append(f"[{len(found) - OBJECTS:,} more objects; give `table`]")
    return "\n".join(lines)
