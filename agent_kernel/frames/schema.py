"""Schema: tables as typed columns, and typed columns as pandas DataFrames.

May not know where values come from. pandas is loaded when the first DataFrame is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_kernel.frames.columns import TABLES

if TYPE_CHECKING:
    import pandas as pd

VERSION = 2
_DTYPES = {
    "s": "str",
    "i": "Int64",
    "f": "float64",
    "b": "boolean",
    "t": "datetime64[ms, UTC]",
    "c": "category",
    "L": "object",
}
Columns = dict[str, list[Any]]


class Column(NamedTuple):
    """One column of a table."""

    name: str
    dtype: str
    unit: str
    meaning: str

    @property
    def pandas(self) -> str:
        """Return the pandas dtype."""
        return _DTYPES[self.dtype]


@cache
def schema(table: str) -> tuple[Column, ...]:
    """Return the columns of `table`; raises KeyError naming the tables for another name."""
    if table not in TABLES:
        raise KeyError(f"{table!r} is no table; there are {', '.join(TABLES)}")
    return tuple(Column(*line.split(" ", 3)) for line in TABLES[table].splitlines() if line.strip())


def names(table: str) -> tuple[str, ...]:
    """Return the column names of `table`."""
    return tuple(column.name for column in schema(table))


def of_rows(table: str, rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Return the columns of `table` from mappings; a field no row gives is unknown everywhere.

    Raises KeyError when a row gives a field the table has not.
    """
    columns: Columns = {name: [] for name in names(table)}
    known = set(columns)
    for row in rows:
        if not row.keys() <= known:
            raise KeyError(f"{sorted(row.keys() - known)} are no columns of {table}")
        for name, held in columns.items():
            held.append(row.get(name))
    return columns


def frame(table: str, columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Return a DataFrame with exactly the columns and dtypes of `table`."""
    import pandas as pd

    made = {column.name: _series(column, columns[column.name]) for column in schema(table)}
    return pd.DataFrame(made)


def restore(table: str, held: pd.DataFrame) -> pd.DataFrame | None:
    """Return a stored DataFrame with the dtypes of `table`, None when its columns are others."""
    if tuple(held.columns) != names(table):
        return None
    made = {}
    for column in schema(table):
        values = held[column.name]
        if column.dtype in "cL":
            listed = [None if _missing(one) else one for one in values.tolist()]
            made[column.name] = _series(column, listed)
        else:
            made[column.name] = values.astype(column.pandas)  # type: ignore[call-overload]
    import pandas as pd

    return pd.DataFrame(made)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _series(column: Column, values: list[Any]) -> pd.Series[Any]:
    import pandas as pd

    made: pd.Series[Any]
    if column.dtype == "t":
        whole = pd.Series(values, dtype="Int64")
        made = pd.to_datetime(whole, unit="ms", utc=True).astype("datetime64[ms, UTC]")
    elif column.dtype == "c":
        found = sorted({str(one) for one in _writable(values) if one is not None})
        kinds = pd.CategoricalDtype(pd.Index(found, dtype="str"))
        made = pd.Series(_writable(values), dtype=kinds)
    elif column.dtype == "L":
        made = pd.Series([[] if one is None else list(one) for one in values], dtype="object")
    else:
        made = pd.Series(_writable(values), dtype=column.pandas)
    return made


def _writable(values: list[Any]) -> list[Any]:
    """Return `values` with lone surrogates escaped: no Arrow string can hold one."""
    return [
        one.encode("utf-8", "backslashreplace").decode()
        if isinstance(one, str) and not one.isascii()
        else one
        for one in values
    ]
