"""SQL: DuckDB over the tables of a load, read-only, shut off from files and the network.

May not install or load an extension, nor open a file a query names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_SETTINGS = (
    "SET enable_external_access = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET TimeZone = 'UTC'",
    "SET lock_configuration = true",
)


def query(text: str, tables: Iterable[str], table: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Return the result of one SQL query; only tables its text names are built.

    Raises ImportError naming the extra without DuckDB, ValueError for what DuckDB refuses.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ImportError("install agent-kernel[data] to query with SQL") from error
    words = set(re.findall(r"\w+", text.lower()))
    with duckdb.connect(":memory:") as base:
        for name in tables:
            if name in words:
                base.register(name, table(name))
        for setting in _SETTINGS:
            base.execute(setting)
        try:
            return base.execute(text).df()
        except duckdb.Error as error:
            raise ValueError(f"SQL {text!r}: {error}") from error
