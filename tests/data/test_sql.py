"""The sql tool over real files: what it shows, what it refuses, and that nothing was written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agent_kernel.core.tool import ToolError
from agent_kernel.tools import data_sources, sql_check
from agent_kernel.tools.data_risk import DATA_RISK
from agent_kernel.tools.sql import SQL, risk_of

DISGUISED = [
    "WITH q AS (INSERT INTO orders VALUES (9,9,9,'2026-01-01') RETURNING id) SELECT * FROM q",
    "WITH q AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM q",
    "WITH q AS (UPDATE orders SET amount = 0 RETURNING id) SELECT * FROM q",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "EXPLAIN DELETE FROM orders",
    "COPY orders TO 'stolen.csv'",
    "COPY (SELECT * FROM orders) TO 'stolen.csv' (HEADER)",
    "ATTACH 'other.db' AS other",
    "DETACH main",
    "PRAGMA database_list",
    "PRAGMA journal_mode=DELETE",
    "PRAGMA user_version=7",
    "SET threads=1",
    "SET memory_limit='1TB'",
    "RESET ALL",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT nextval('ids')",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1; SELECT 2",
    "SELECT 1 /* ; */; DROP TABLE orders",
    "/* SELECT */ DELETE FROM orders",
    "-- SELECT\nDROP TABLE orders",
    "DROP TABLE orders",
    "TRUNCATE orders",
    "CREATE TABLE stolen AS SELECT * FROM orders",
    "CREATE TEMP TABLE stolen AS SELECT * FROM orders",
    "CREATE OR REPLACE VIEW v_daily AS SELECT 1",
    "SELECT * INTO stolen FROM orders",
    "ALTER TABLE orders ADD COLUMN x INTEGER",
    "MERGE INTO orders USING users ON orders.user_id = users.id WHEN MATCHED THEN DELETE",
    "REPLACE INTO users VALUES (1, 'x')",
    "INSERT OR REPLACE INTO users VALUES (1, 'x')",
    "SELECT * FROM read_text('../outside.txt')",
    "SELECT * FROM read_csv('../outside.txt')",
    "SELECT * FROM '../outside.txt'",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT load_extension('x')",
    "SELECT getenv('HOME')",
    "SELECT * FROM query('DELETE FROM orders')",
    "SELECT * FROM sqlite_scan('shop.sqlite', 'orders')",
    "CALL pragma_version()",
    "VACUUM",
    "CHECKPOINT",
    "BEGIN; DELETE FROM orders; COMMIT",
    "EXPORT DATABASE 'out'",
    "SELEC 1",
    "",
]


def marks(folder: Path) -> dict[str, str]:
    """Every file and its hash."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


@pytest.mark.parametrize("source", ["duck", "lite"])
async def test_disguised_writes_write_nothing_and_read_nothing_outside(data, source) -> None:
    before = marks(data.workspace)
    assert len(DISGUISED) >= 40
    for sql in DISGUISED:
        said = await data.error(SQL, action="query", sql=sql or " ", source=source)
        assert "a secret" not in said and said, sql
    assert marks(data.workspace) == before


async def test_each_of_the_three_guards_stops_a_write_alone(data, monkeypatch) -> None:
    """The parser is not the only thing that stands there: without it the connection refuses."""
    before = marks(data.workspace)
    monkeypatch.setattr(sql_check, "need_select", lambda *_: None)
    for source in ("duck", "lite"):
        for sql in ("DELETE FROM orders", "CREATE TABLE x (a INTEGER)", DISGUISED[0]):
            await data.error(SQL, action="query", sql=sql, source=source)
    outside = "SELECT * FROM read_text('../outside.txt')"
    assert "disabled" in await data.error(SQL, action="query", sql=outside, source="duck")
    assert "locked" in await data.error(SQL, action="query", sql="SET threads=1", source="duck")
    assert marks(data.workspace) == before


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_the_parser_alone_refuses_a_write_inside_a_select(dialect) -> None:
    for sql in (*DISGUISED[:3], "SELECT * INTO stolen FROM orders"):
        with pytest.raises(ToolError, match=r"does not only read|does not parse"):
            sql_check.need_select(sql, dialect)


async def test_sqlites_own_authorizer_refuses_what_reading_alone_would_allow(data) -> None:
    source = data_sources.source_of(data.context(), "lite")
    with data_sources.reading(data.context(), source) as connection:
        for sql in ("ATTACH ':memory:' AS x", "PRAGMA database_list", "SELECT load_extension('x')"):
            with pytest.raises(ToolError, match=r"not authorized|no such function"):
                connection.rows(sql)


async def test_both_drivers_show_the_same_catalog(data) -> None:
    shown = {s: await data.text(SQL, action="catalog", source=s) for s in ("duck", "lite")}
    lines = {name: text.split("\n") for name, text in shown.items()}
    assert lines["duck"][0] == lines["lite"][0]
    assert [line.split()[:3] for line in lines["duck"][1:]] == [
        ["orders", "table", "3"],
        ["users", "table", "2"],
        ["v_daily", "view", "unknown"],
        ["v_weekly", "view", "unknown"],
    ]
    names = [[line.split()[0:2] for line in each] for each in lines.values()]
    assert names[0] == names[1]
    assert all("id INTEGER, user_id INTEGER, amount DOUBLE, dt DATE" in t for t in shown.values())
    one = await data.text(SQL, action="catalog", source="duck", table="v_daily")
    assert "as: CREATE VIEW v_daily" in one and " 2 " in one
    assert "no object 'nope'" in await data.error(
        SQL, action="catalog", source="duck", table="nope"
    )


@pytest.mark.parametrize("source", ["duck", "lite"])
async def test_a_query_gives_rows_within_its_bounds(data, source) -> None:
    sql = (
        "WITH big AS (SELECT * FROM orders WHERE amount > 5) "
        "SELECT id, amount FROM big ORDER BY id;"
    )
    answer = await data.call(SQL, action="query", sql=sql, source=source)
    assert answer.content[0].text == "id\tamount\n1\t10.5\n3\t20.0\n[2 rows]"
    assert answer.meta["rows"] == 2 and answer.meta["source"] == source
    few = await data.call(SQL, action="query", sql="SELECT id FROM orders", source=source, limit=2)
    assert few.meta["more"] and "there are more" in few.content[0].text
    said = await data.error(SQL, action="query", sql="SELECT nothing FROM orders", source=source)
    assert said.startswith(f"{source}: ") and "nothing" in said


async def test_a_long_query_is_stopped(data, monkeypatch) -> None:
    monkeypatch.setattr(data_sources.reading.__wrapped__, "__defaults__", (0.2,))
    many = "SELECT count(*) FROM range(100000000000) a"
    assert "nterrupt" in await data.error(SQL, action="query", sql=many, source="duck")
    deep = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    assert "nterrupt" in await data.error(SQL, action="query", sql=deep, source="lite")


@pytest.mark.parametrize("source", ["duck", "lite"])
async def test_explain_notes_full_scans_and_missing_partitions(data, source) -> None:
    async def notes(sql: str) -> list[str]:
        return list((await data.call(SQL, action="explain", sql=sql, source=source)).meta["notes"])

    bare = await notes("SELECT sum(amount) FROM orders")
    assert "note: reads all of orders, 3 rows" in bare
    assert "note: no filter on a partition column of orders (dt)" in bare
    assert await notes("SELECT sum(amount) FROM orders WHERE amount > 3") == bare[1:]
    assert await notes("SELECT sum(amount) FROM orders WHERE dt = '2026-11-02'") == []
    said = await data.error(SQL, action="explain", sql="DELETE FROM orders", source=source)
    assert "only SELECT" in said


@pytest.mark.parametrize("source", ["duck", "lite"])
async def test_a_drop_needs_a_report_of_the_table_as_it_is_now(data, source) -> None:
    drop = {"action": "execute", "sql": "DROP TABLE users", "source": source}
    assert "call data_risk for it" in await data.error(SQL, **drop)
    await data.call(DATA_RISK, object="users", source=source)
    wrote = await data.call(
        SQL, action="execute", sql="INSERT INTO users VALUES (3, 'Cy')", source=source
    )
    assert wrote.meta["rows"] == 1 and wrote.meta["lineage"] == {
        "sources": [],
        "targets": ["users"],
    }
    assert "has changed since its report" in await data.error(SQL, **drop)
    await data.call(DATA_RISK, object="users", source=source)
    assert "no risk report of orders" in risk_of(
        {"action": "execute", "sql": "DELETE FROM orders", "source": source}, data.context()
    )
    assert "report of users: needs approval" in risk_of(drop, data.context())
    done = await data.call(SQL, **drop)
    assert done.meta["statement"] == "DROP"
    shown = await data.text(SQL, action="catalog", source=source)
    assert "users" not in shown and "orders" in shown


async def test_lineage_is_read_from_the_statement(data) -> None:
    sql = "CREATE TABLE wide AS SELECT o.*, u.name FROM orders o JOIN users u ON o.user_id = u.id"
    made = await data.call(SQL, action="execute", sql=sql, source="duck")
    assert made.meta["lineage"] == {"sources": ["orders", "users"], "targets": ["wide"]}


@pytest.mark.parametrize(
    "sql,words",
    [
        ("SELECT 1", "this is Select"),
        ("COPY orders TO 'x.csv'", "this is Copy"),
        ("INSERT INTO users SELECT 1, 'x'; DROP TABLE users", "one statement"),
        ("INSERT INTO users SELECT 1, content FROM read_text('../outside.txt')", "read_text"),
        ("ATTACH 'x.db'", "this is Attach"),
        ("UPDATE users SET name = (SELECT getenv('HOME'))", "getenv"),
        ("DELETE FROM users", "would be taken away"),
        ("TRUNCATE TABLE users", "would be taken away"),
        ("DROP TABLE users", "would be taken away"),
        ("DROP VIEW IF EXISTS v_daily", "would be taken away"),
        ("DROP SCHEMA main CASCADE", "names no table or view"),
        ("CREATE OR REPLACE TABLE users AS SELECT 1 AS x", "would be taken away"),
        ("ALTER TABLE users DROP COLUMN name", "holds DROP"),
    ],
)
async def test_execute_refuses_what_it_does_not_run(data, sql, words) -> None:
    before = marks(data.workspace)
    assert words in await data.error(SQL, action="execute", sql=sql, source="duck")
    assert marks(data.workspace) == before


async def test_prod_is_not_written_and_sources_are_named(data) -> None:
    one = "INSERT INTO users VALUES (4, 'x')"
    said = await data.error(SQL, action="execute", sql=one, source="prod")
    assert "is not written: it is a prod source" in said
    assert "say one of duck, lite, prod" in await data.error(SQL, action="catalog")
    assert "say one of" in await data.error(SQL, action="catalog", source="nope")
    data.services["data"] = {"x": {"url": "postgres://u:p@h/d"}}
    assert "only duckdb:FILE and sqlite:FILE" in await data.error(SQL, action="catalog")
    data.services["data"] = {"x": {"url": "duckdb:a.db", "teir": "prod"}}
    assert "has no 'teir'" in await data.error(SQL, action="catalog")


async def test_without_a_source_the_workspaces_files_and_frames_are_read(data) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2, 3]})
    data.services = {"frames": lambda: {"live": frame}}
    shown = await data.text(SQL, action="catalog")
    assert "live" in shown and "sales" in shown
    assert "6" in await data.text(SQL, action="query", sql="SELECT sum(a) FROM live")
    total = await data.text(SQL, action="query", sql="SELECT sum(amount) FROM sales")
    assert "3" in total
    said = await data.error(SQL, action="execute", sql="INSERT INTO sales VALUES ('x', 1)")
    assert "data.sources" in said
    for sql in ("SELECT * FROM '../outside.txt'", "SELECT * FROM read_csv('../outside.txt')"):
        assert "a secret" not in await data.error(SQL, action="query", sql=sql)
