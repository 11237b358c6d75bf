"""Show: tables as csv, json lines, markdown or Parquet.

May not let a cell run as a formula, nor break a row on what a transcript says.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_kernel.frames.schema import Column, frame, schema

FORMATS = ("csv", "json", "parquet", "md")
MD_ROWS = 50
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def text(
    columns: Mapping[str, list[Any]], kinds: Sequence[Column], how: str, limit: int | None = None
) -> str:
    """Return the table as csv (RFC 4180), json (one object a line) or md (at most 50 rows)."""
    rows = list(_rows(columns, kinds, limit))
    if how == "csv":
        return _csv([kind.name for kind in kinds], rows)
    if how == "json":
        return "".join(
            json.dumps({kind.name: cell for kind, cell in zip(kinds, row, strict=True)}) + "\n"
            for row in rows
        )
    return _markdown([kind.name for kind in kinds], rows)


def _rows(
    columns: Mapping[str, list[Any]], kinds: Sequence[Column], limit: int | None
) -> Iterator[list[Any]]:
    held = [columns[kind.name] for kind in kinds]
    for number, values in enumerate(zip(*held, strict=True)):
        if limit is not None and number >= limit:
            return
        yield [
            iso(value) if kind.dtype == "t" and value is not None else value
            for kind, value in zip(kinds, values, strict=True)
        ]


def iso(milliseconds: int) -> str:
    """Return milliseconds since 1970 as ISO 8601 with Z."""
    when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _csv(names: list[str], rows: list[list[Any]]) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Return a csv cell; text that a spreadsheet would run is prefixed with an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        value = json.dumps(value)
    if isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode()
        if value.startswith(_FORMULA) and not _is_number(value):
            return "'" + value
    return value


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _markdown(names: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    for row in rows[:MD_ROWS]:
        cells = (str(_cell(value)) for value in row)
        shown = (
            one.replace("\\", "\\\\").replace("|", "\\|").replace("\r", "").replace("\n", " ")
            for one in cells
        )
        lines.append("| " + " | ".join(one.replace("<", "&lt;") for one in shown) + " |")
    lines.append("")
    lines.append(f"{min(len(rows), MD_ROWS)} of {len(rows)} rows")
    return "\n".join(lines) + "\n"


def write_parquet(table: str, columns: Mapping[str, list[Any]], path: str | Path) -> None:
    """Write one table as Parquet with units and meanings in its metadata.

    Raises ImportError naming the extra without pyarrow.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("install agent-kernel[parquet] to write Parquet") from error
    notes = {column.name: f"{column.unit}: {column.meaning}" for column in schema(table)}
    made = pa.Table.from_pandas(frame(table, columns), preserve_index=False)
    kept = {**(made.schema.metadata or {}), b"agent_kernel": json.dumps(notes).encode()}
    pq.write_table(made.replace_schema_metadata(kept), path)
