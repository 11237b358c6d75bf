"""The frames command: `agent-kernel frames TABLE PATH…`.

May not load pandas unless Parquet or SQL is asked for.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from agent_kernel.frames.cache import clear
from agent_kernel.frames.columns import TABLES
from agent_kernel.frames.frames import Frames
from agent_kernel.frames.reader import Readers
from agent_kernel.frames.schema import Column, schema
from agent_kernel.frames.show import FORMATS, text, write_parquet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to `parser`."""
    parser.add_argument("table", nargs="?", metavar="TABLE", help="a table, or all with --out DIR")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="session files, folders, globs")
    parser.add_argument("--list", action="store_true", help="print tables and columns")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="how rows are written")
    parser.add_argument("--out", metavar="FILE", help="write here; a folder for all")
    parser.add_argument("--columns", metavar="A,B", help="only these columns, in this order")
    parser.add_argument("--where", metavar="SQL", help="only rows for which this holds (DuckDB)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows")
    parser.add_argument("--source", default="auto", help="force one reader by name")
    parser.add_argument("--no-cache", action="store_true", help="neither use nor write the cache")
    parser.add_argument("--clear-cache", action="store_true", help="delete the cache and end")


def main(args: argparse.Namespace, readers: Readers | None = None) -> int:
    """Print tables; return 0, 1 with an issue of severity wrong, 2 when nothing is readable."""
    if args.list:
        sys.stdout.write(listing())
        return 0
    if args.clear_cache:
        sys.stdout.write(f"{clear()} files deleted\n")
        return 0
    wrong = _usage(args)
    if wrong:
        sys.stderr.write(f"agent-kernel frames: {wrong}\n")
        return 2
    from agent_kernel.frames import load  # noqa: PLC0415 - the room's table of builders

    try:
        found = load(args.paths, args.source, cache=not args.no_cache, readers=readers)
        for name in TABLES if args.table == "all" else (args.table,):
            _write(found, name, args)
    except (FileNotFoundError, ValueError, ImportError) as error:
        sys.stderr.write(f"agent-kernel frames: {error}\n")
        return 2
    return _judged(found)


def _judged(found: Frames) -> int:
    """Say which issues mean that rows may be wrong; return 1 with any, else 0."""
    issues = found.columns("issues")
    pairs = zip(issues["code"], issues["severity"], strict=True)
    wrong = Counter(code for code, severity in pairs if severity == "wrong")
    if wrong:
        counts = ", ".join(f"{code} {count:,}" for code, count in sorted(wrong.items()))
        sys.stderr.write(f"agent-kernel frames: {counts}: see the table issues\n")
    return 1 if wrong else 0


def _usage(args: argparse.Namespace) -> str | None:
    if not args.table or not args.paths:
        return "a table and at least one path are needed; --list prints the tables"
    if args.table != "all" and args.table not in TABLES:
        return f"{args.table!r} is no table; there are {', '.join(TABLES)}, all"
    if args.table == "all" and not args.out:
        return "all tables need --out DIR"
    if args.format == "parquet" and not args.out:
        return "parquet needs --out FILE"
    if args.limit is not None and args.limit < 0:
        return f"--limit {args.limit}: give 0 or more rows"
    return None


def listing() -> str:
    """Return every table with its columns, dtypes, units and meanings, one column a line."""
    lines = []
    for name in TABLES:
        lines.append(name)
        lines += [f"  {c.name:<20} {c.pandas:<20} {c.unit:<12} {c.meaning}" for c in schema(name)]
    return "\n".join(lines) + "\n"


def _write(found: Frames, name: str, args: argparse.Namespace) -> None:
    columns = found.columns(name)
    if args.where:
        columns = _filtered(found, name, args.where)
    kinds = _chosen(name, args.columns)
    if args.format == "parquet":
        write_parquet(name, columns, _target(args, name))
        return
    written = text(columns, kinds, args.format, args.limit)
    if args.out:
        with Path(_target(args, name)).open("w", encoding="utf-8", newline="") as file:
            file.write(written)
    else:
        sys.stdout.write(written)


def _target(args: argparse.Namespace, name: str) -> Path:
    path = Path(args.out)
    if args.table != "all":
        return path
    path.mkdir(parents=True, exist_ok=True)
    return path / f"{name}.{args.format}"


def _chosen(name: str, wanted: str | None) -> list[Column]:
    kinds = {kind.name: kind for kind in schema(name)}
    if not wanted:
        return list(kinds.values())
    asked = [one.strip() for one in wanted.split(",")]
    unknown = [one for one in asked if one not in kinds]
    if unknown:
        raise ValueError(f"{name} has no column {unknown[0]!r}; it has {', '.join(kinds)}")
    return [kinds[one] for one in asked]


def _filtered(found: Frames, name: str, where: str) -> dict[str, list[Any]]:
    """Return the rows for which the condition holds, picked by number."""
    rows = found.numbered(name, where)
    columns = found.columns(name)
    return {key: [values[row] for row in rows] for key, values in columns.items()}
