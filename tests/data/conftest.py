"""Fixtures of the data tools' tests: real DuckDB and SQLite files, and calls as the loop makes
them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.tools.conftest import Bench

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

SETUP = (
    "CREATE TABLE orders (id INTEGER, user_id INTEGER, amount DOUBLE, dt DATE)",
    "CREATE TABLE users (id INTEGER, name VARCHAR)",
    "CREATE VIEW v_daily AS SELECT dt, sum(amount) AS total FROM orders GROUP BY dt",
    "CREATE VIEW v_weekly AS SELECT max(total) AS best FROM v_daily",
    "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bo')",
    "INSERT INTO orders VALUES (1, 1, 10.5, '2026-11-01'), (2, 1, 4.5, '2026-11-02')",
    "INSERT INTO orders VALUES (3, 2, 20.0, '2026-11-02')",
)


def duck(path: Path, *more: str) -> None:
    """Make a DuckDB file."""
    import duckdb

    with duckdb.connect(str(path)) as made:
        for line in (*SETUP, *more):
            made.execute(line)


def lite(path: Path, *more: str) -> None:
    """Make a SQLite file."""
    made = sqlite3.connect(path)
    with made:
        for line in (*SETUP, *more):
            made.execute(line)
    made.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one database of each kind, a csv, and a secret outside."""
    folder = tmp_path / "w"
    folder.mkdir()
    duck(folder / "shop.duckdb")
    lite(folder / "shop.sqlite")
    (folder / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\n")
    (tmp_path / "outside.txt").write_text("a secret")
    return folder


@pytest.fixture
def data(workspace: Path) -> Bench:
    """A bench whose sources are the two databases, and one of prod."""
    from agent_kernel.core.session import Session

    sources: dict[str, Any] = {
        "duck": {"url": "duckdb:shop.duckdb", "partitions": {"orders": ["dt"]}},
        "lite": {"url": "sqlite:shop.sqlite", "partitions": {"orders": ["dt"]}},
        "prod": {"url": "duckdb:shop.duckdb", "tier": "prod"},
    }
    return Bench(Session(), workspace, {"data": sources})
