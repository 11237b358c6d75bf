"""The totals command: `agent-kernel totals PATH…`, on the standard library and orjson alone.

May not load pandas, pyarrow, numpy or anthropic.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent_kernel.frames.avoidable import costs, lines
from agent_kernel.frames.builders import BUILDERS
from agent_kernel.frames.cache import folder
from agent_kernel.frames.issues import severity
from agent_kernel.frames.load import Load
from agent_kernel.frames.rates import RateShelf
from agent_kernel.frames.reader import Readers
from agent_kernel.frames.scan import find, find_readers
from agent_kernel.frames.store import Store
from agent_kernel.frames.totals import BY, notes, priced, shown, totals

_HEADS = ("calls", "input", "output", "write 5m", "write 1h", "read", "usd")
_FIELDS = ("calls", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to `parser`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="session files, folders, globs")
    parser.add_argument("--json", action="store_true", help="one JSON object, schema 1")
    parser.add_argument("--by", choices=BY, default="model", help="what a row is")
    parser.add_argument(
        "--rule",
        choices=("recorded", "best", "all"),
        default="recorded",
        help="which output counts",
    )
    parser.add_argument("--since", metavar="DAY", help="from this day on, ISO 8601")
    parser.add_argument("--until", metavar="DAY", help="before this day, ISO 8601")
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="time zone of days")
    parser.add_argument("--source", default="auto", help="force one reader by name")
    parser.add_argument(
        "--findings", action="store_true", help="also in --json: what could have been saved"
    )
    parser.add_argument(
        "--fast", action="store_true", help="read only lines that may state tokens: fewer issues"
    )


def main(args: argparse.Namespace, readers: Readers | None = None) -> int:
    """Print the totals; return 0, 1 with an issue of severity wrong, 2 when nothing is readable."""
    collecting = gc.isenabled()
    gc.disable()  # millions of small values, none in a cycle: looking through them is a sixth
    try:
        return _main(args, readers)
    finally:
        if collecting:
            gc.enable()


def _main(args: argparse.Namespace, readers: Readers | None) -> int:
    known = find_readers(readers)
    try:
        zone = _zone(args.tz)
        since, until = _day(args.since, zone), _day(args.until, zone)
        found = find(args.paths, known, args.source)
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"agent-kernel totals: {error}\n")
        return 2
    store = Store(found, known)
    findings = bool(store.files) and (args.findings or not (args.json or args.fast))
    load = Load(store, BUILDERS)
    if (
        args.fast and not findings and args.rule != "all"
    ):  # only the lines that may state tokens: two thirds of the bytes stay unread
        store.load(frozenset({"usages"}))
    ledger = priced(store, shelf=RateShelf(folder()))
    rule = "recorded" if args.rule == "all" else args.rule
    result = totals(store, ledger, by=args.by, rule=rule, since=since, until=until, zone=zone)
    if args.rule == "all":
        result["reconcile"] = load.rows("reconcile")
    if findings:
        result["findings"] = _findings(load)
    sys.stdout.write(json.dumps(result) + "\n" if args.json else _table(result))
    if not store.files:
        sys.stderr.write("agent-kernel totals: no session file was found there\n")
        return 2
    return 1 if any(severity(code) == "wrong" for code in result["issues"]) else 0


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"time zone {name!r} is not known; give one like Europe/Berlin") from None


def _day(value: str | None, zone: tzinfo) -> datetime | None:
    if value is None:
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value!r} is no day; give one like 2026-02-11") from None
    return (when if when.tzinfo else when.replace(tzinfo=zone)).astimezone(UTC)


def _table(result: dict[str, Any]) -> str:
    by = result["by"]
    rows = result.get("models", result.get("rows", []))
    cells = [[by, *_HEADS]]
    cells += [[shown(str(row[by])) or "(unknown)", *_cells(row)] for row in rows]
    cells.append(["total", *_cells(result["total"])])
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    text = "".join(
        "  ".join(
            one.ljust(width) if i == 0 else one.rjust(width)
            for i, (one, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in cells
    )
    said = [*_rules(result.get("reconcile", [])), *notes(result)]
    if result.get("findings"):
        said += ["", "what could have been saved (causes overlap):"]
        said += [row["sentence"] for row in result["findings"]]
    return text + "".join(f"{line}\n" for line in said)


def _rules(rows: list[dict[str, Any]]) -> list[str]:
    """Return the ledger counted by every rule, a line a rule."""
    out = ["", "the same ledger by other rules:"] if rows else []
    for row in rows:
        equals = f" = {row['equals']}" if row["equals"] else ""
        out.append(f"{row['usd']:>12,.4f}  {row['calls']:>8,} calls  {row['rule']}{equals}")
    return [*out, ""] if rows else []


def _findings(load: Load) -> list[dict[str, Any]]:
    """Return the three dearest avoidable costs, each with its sentence."""
    found = costs(load)
    total = sum(call.usd_recorded or 0.0 for call in load.priced.ledger.calls)
    said = lines(found, total)
    return [
        {**cost.row(), "sentence": shown(text)} for cost, text in zip(found, said, strict=False)
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    usd = row["usd"]
    return [*(f"{row[name]:,}" for name in _FIELDS), "unknown" if usd is None else f"{usd:,.2f}"]
