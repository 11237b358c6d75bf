"""Sql: a database looked into, queried and explained without a write; written only when asked for.

May not run what does not parse, and takes nothing away without a fresh risk report of it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

import agent_kernel.tools.data_risk as data_risk
import agent_kernel.tools.data_sources as data_sources
import agent_kernel.tools.sql_catalog as sql_catalog
import agent_kernel.tools.sql_check as sql_check
from agent_kernel.core.messages import Json
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer

ROWS, CHARS, CELL = 200, 50_000, 200

DESCRIPTION = (
    "Look into databases and the workspace's csv, parquet and DataFrames. Actions: catalog "
    "(objects, columns, rows, partitions; `table` for one), query (one SELECT), explain (its plan "
    "and full-scan notes), execute (one write: asks; DROP, TRUNCATE and DELETE without WHERE need "
    "a data_risk report first)."
)


class SqlInput(Input):
    """Input of `sql`."""

    action: Literal["catalog", "query", "explain", "execute"]
    sql: str | None = None
    source: str | None = None
    table: str | None = None
    limit: int = Field(ROWS, ge=1, le=10_000)


def looks(value: SqlInput) -> bool:
    """Tell whether the call only reads."""
    return value.action != "execute"


def _statement(value: SqlInput) -> str:
    if not value.sql or not value.sql.strip():
        raise ToolError(f"action {value.action} needs `sql`")
    return value.sql.strip().rstrip(";").strip()


# ---- looking ----------------------------------------------------------------------------------


def _catalog(value: SqlInput, ctx: ToolContext, source: data_sources.Source) -> Answer:
    with data_sources.reading(ctx, source) as connection:
        found = sql_catalog.objects(connection, value.table)
    if value.table is not None and not found:
        raise ToolError(f"{source.name} has no object {value.table!r}; action catalog lists them")
    text = sql_catalog.listed(found, whole=value.table is not None)
    return text_answer(text or "no objects", source=source.name, objects=len(found))


def _query(value: SqlInput, ctx: ToolContext, source: data_sources.Source) -> Answer:
    sql, began = _statement(value), time.monotonic()
    limit = min(value.limit, max(source.row_limit, 1))
    with data_sources.reading(ctx, source) as connection:
        sql_check.need_select(sql, source.dialect, connection)
        found = connection.rows(sql, limit)
    seconds = round(time.monotonic() - began, 3)
    text, shown = table(found.columns, found.rows)
    if found.more or shown < len(found.rows):
        text += (
            f"\n[the first {shown:,} rows; there are more: add a WHERE, an aggregate or a LIMIT]"
        )
    meta: Json = {"source": source.name, "rows": shown, "more": found.more, "sql_seconds": seconds}
    return text_answer(text, **meta)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[str, int]:
    """Return rows as tab-separated lines under their names within 50,000 characters, and how many
    fit."""
    lines = ["\t".join(columns)]
    size = len(lines[0])
    for row in rows:
        line = "\t".join(_cell(value) for value in row)
        size += len(line) + 1
        if size > CHARS:
            break
        lines.append(line)
    said = f"[{len(lines) - 1:,} rows]"
    return "\n".join([*lines, said]), len(lines) - 1


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value).replace("\t", "\\t").replace("\n", "\\n")
    return text if len(text) <= CELL else f"{text[:CELL]}… ({len(text):,} chars)"


def _explain(value: SqlInput, ctx: ToolContext, source: data_sources.Source) -> Answer:
    sql = _statement(value)
    verb = "EXPLAIN QUERY PLAN" if source.dialect == "sqlite" else "EXPLAIN"
    with data_sources.reading(ctx, source) as connection:
        tree = sql_check.need_select(sql, source.dialect, connection)
        if source.dialect == "sqlite":
            connection.raw.set_authorizer(
                None
            )  # EXPLAIN reads more than the query: it runs nothing
        found = connection.rows(f"{verb} {sql}", 2_000)
        names = sql_check.tables_of(tree)
        held = {o.name: o for o in sql_catalog.objects(connection) if o.name in names}
    plan = "\n".join(str(row[-1]) for row in found.rows)
    keys = {name: each.partitions for name, each in held.items()}
    whole, missing = sql_check.unfiltered(tree, {**keys, **source.partitions})
    notes = [f"note: reads all of {name}{_rows(held.get(name))}" for name in whole]
    notes += [
        f"note: no filter on a partition column of {name} "
        f"({', '.join(_keys(name, keys, source))})" for name in missing
    ]  # fmt: skip
    estimate = [f"rows of {name}: {each.rows:,}" for name, each in held.items() if each.rows]
    text = "\n".join([plan, *estimate, *notes])
    return text_answer(text[:CHARS], source=source.name, notes=notes)


def _rows(found: sql_catalog.Object | None) -> str:
    return f", {found.rows:,} rows" if found is not None and found.rows is not None else ""


def _keys(name: str, keys: dict[str, Any], source: data_sources.Source) -> Sequence[str]:
    every = {**keys, **source.partitions}
    return next((v for k, v in every.items() if v and sql_check.same_object(k, name)), ())


# ---- writing ----------------------------------------------------------------------------------


def _execute(value: SqlInput, ctx: ToolContext, source: data_sources.Source) -> Answer:
    sql = _statement(value)
    made = sql_check.need_write(sql, source.dialect)
    _need_writable(source)
    if made.takes_away:
        for target in made.targets:
            data_risk.need_report(ctx, source, target)
    began = time.monotonic()
    rows = _written(ctx, source, sql)
    lineage = {"sources": list(made.sources), "targets": list(made.targets)}
    words = f"{made.kind} on {', '.join(made.targets) or 'no object'}: done"
    words += f", {rows:,} rows written" if rows is not None and rows >= 0 else ""
    return text_answer(
        words,
        source=source.name,
        rows=rows,
        lineage=lineage,
        statement=made.kind,
        sql_seconds=round(time.monotonic() - began, 3),
    )


def _need_writable(source: data_sources.Source) -> None:
    if source.path is None:
        raise ToolError(
            "the workspace is read through memory; name a database in data.sources to write it"
        )
    if not source.writable:
        why = "a prod source" if source.tier == "prod" else "read_only: true"
        raise ToolError(f"source {source.name!r} is not written: it is {why} (data.sources)")


def _written(ctx: ToolContext, source: data_sources.Source, sql: str) -> int | None:
    """Run one write in a transaction of its own; return the rows it says it wrote."""
    if source.dialect == "sqlite":
        with sqlite3.connect(source.path or "") as raw:
            try:
                count = raw.execute(sql).rowcount
            except sqlite3.Error as error:
                raise ToolError(f"{source.name}: {error}") from None
        raw.close()
        return count
    import duckdb

    try:
        with duckdb.connect(str(source.path)) as made:
            data_sources.fence(made, ctx.workspace)
            found = made.execute(sql).fetchone()
    except duckdb.Error as error:
        raise ToolError(f"{source.name}: {error}") from None
    return found[0] if found and isinstance(found[0], int) else None


def risk_of(value: Json, ctx: ToolContext) -> str:
    """Return what a person reads before a write: kind, objects, tier, the last risk report; "" for
    a call that only reads. A statement that would be refused says why."""
    if value.get("action") != "execute":
        return ""
    try:
        source = data_sources.source_of(ctx, value.get("source"))
        made = sql_check.need_write(str(value.get("sql") or "").strip().rstrip(";"), source.dialect)
    except ToolError as error:
        return f"would be refused: {error}"
    lines = [f"{made.kind} on {', '.join(made.targets) or '?'} in {source.name} ({source.tier})"]
    for target in made.targets:
        report = data_risk.last_report(ctx, source, target)
        lines.append(data_risk.in_a_line(target, report))
    return "\n".join(lines)


_ACTIONS = {"catalog": _catalog, "query": _query, "explain": _explain, "execute": _execute}


async def run(value: SqlInput, ctx: ToolContext) -> Answer:
    """Do the action and return what the model is told."""
    source = data_sources.source_of(ctx, value.source)
    return await asyncio.to_thread(_ACTIONS[value.action], value, ctx, source)


SQL = Tool(
    "sql",
    DESCRIPTION,
    SqlInput,
    run,
    concurrent=looks,
    read_only=looks,
    deferred=True,
    timeout=60.0,
    when=data_sources.configured,
)
