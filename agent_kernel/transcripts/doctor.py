"""The doctor command: what is wrong with a session file, what it wastes, and a repaired copy.

May not read tables itself nor change its input: the roof gives it `load`, the frames of a path.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from agent_kernel.core.model import ModelProfile
from agent_kernel.core.validate import validate_messages
from agent_kernel.transcripts.deepseek_requests import requests
from agent_kernel.transcripts.habits import habits
from agent_kernel.transcripts.jsonl import parsed
from agent_kernel.transcripts.rebuild import messages
from agent_kernel.transcripts.repair import CODES, repair

Report = dict[str, Any]
BIGGEST = 5


class Walk(Protocol):
    """The walk of one session: what the official rule loses and what ours keeps."""

    results: int
    official_lost: int
    ours_lost: int
    sibling_calls: int
    ours: list[Any]


class Tables(Protocol):
    """The frames of one file."""

    def columns(self, name: str) -> dict[str, list[Any]]:
        """Return one table as lists by column."""

    def walk(self, session_id: str) -> Walk:
        """Return the walk of one session."""


Load = Callable[[str], Tables]
Open = Callable[[str], BinaryIO]  # a file's bytes, unpacked
Detect = Callable[[Any], list[Report]]  # the detectors of frames: rows of code, where, evidence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to `parser`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="session files")
    parser.add_argument("--json", action="store_true", help="one JSON object, schema 1")
    parser.add_argument("--repair", metavar="OUT", help="write a repaired copy here; one file only")


def plain(path: str) -> BinaryIO:
    """Open a file that is not packed. Raises OSError."""
    return Path(path).open("rb")


def main(
    args: argparse.Namespace, load: Load, detect: Detect | None = None, opened: Open = plain
) -> int:
    """Print findings; return 0, 1 with any finding but info, 2 when nothing is readable.

    `opened` unpacks what `load` can read packed.
    """
    try:
        reports = [examine(path, load(path), detect, opened) for path in args.files]
        if args.repair:
            reports[0]["repair"] = _repaired(args.files, args.repair, load, opened)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"agent-kernel doctor: {error}\n")
        return 2
    if args.json:
        sys.stdout.write(json.dumps({"schema": 1, "files": reports}) + "\n")
    else:
        sys.stdout.write("".join(text(report) for report in reports))
    worse = [one for report in reports for one in report["findings"] if one["severity"] != "info"]
    failed = any(report.get("repair", {}).get("left") for report in reports)
    return 1 if worse or failed else 0


def examine(
    path: str, tables: Tables, detect: Detect | None = None, opened: Open = plain
) -> Report:
    """Return findings, walks, broken pairs, bytes by type, duplicates and the biggest lines.

    Findings are what a reader stumbles over (severity loss, wrong, info) and what costs more than
    it must (advice): the habits, and what `detect` finds.
    """
    records = tables.columns("records")
    sessions = list(dict.fromkeys(records["session_id"]))
    walks = [tables.walk(name) for name in sessions]
    return {
        "file": path,
        "lines": len(records["record_id"]),
        "bytes": sum(records["bytes"]),
        "sessions": sessions,
        "findings": [*_findings(tables), *_lost(walks), *_advice(tables, detect)],
        "chain": {
            "results": sum(walk.results for walk in walks),
            "official_lost": sum(walk.official_lost for walk in walks),
            "ours_lost": sum(walk.ours_lost for walk in walks),
            "sibling_calls": sum(walk.sibling_calls for walk in walks),
            "by_reason": dict(Counter(str(one) for one in records["chain"])),
        },
        "pairs": [one for walk in walks for one in pairs(path, walk, opened)],
        "bloat": _bloat(records),
        "dedup": _dedup(tables),
        "biggest": _biggest(records),
    }


def _findings(tables: Tables) -> list[Report]:
    issues = tables.columns("issues")
    counts = Counter(zip(issues["code"], issues["severity"], strict=True))
    first = dict(zip(reversed(issues["code"]), reversed(issues["message"]), strict=True))
    return [
        {"code": code, "severity": severity, "count": count, "first": first[code]}
        for (code, severity), count in counts.most_common()
    ]


def _lost(walks: list[Walk]) -> list[Report]:
    """Return what the official walk leaves out that ours keeps, and what both do."""
    out = []
    for code, severity, lost in (
        ("lost_siblings", "info", sum(walk.official_lost for walk in walks)),
        ("lost_results", "loss", sum(walk.ours_lost for walk in walks)),
    ):
        if lost:
            said = f"{lost} results of calls on the chain are not on it"
            first = f"{said} by the official walk" if code == "lost_siblings" else said
            out.append({"code": code, "severity": severity, "count": lost, "first": first})
    return out


def _advice(tables: Tables, detect: Detect | None) -> list[Report]:
    found: dict[str, list[Report]] = {}
    for row in detect(tables) if detect else ():
        found.setdefault(row["code"], []).append(row)
    detected = [
        {
            "code": code,
            "severity": "advice",
            "count": len(rows),
            "first": rows[0]["where"],
            "evidence": list(rows[0]["evidence"])[:5],
        }
        for code, rows in found.items()
    ]
    return habits(tables.columns("tools"), tables.columns("calls")) + detected


def pairs(path: str, walk: Walk, opened: Open = plain) -> list[Report]:
    """Return what the Messages API would refuse in the messages rebuilt along our chain.

    Of a DeepSeek log it is the last request that is held to the rules.
    """
    wanted = [rec.offset for rec in walk.ours if rec.type in ("user", "assistant", "attachment")]
    with opened(path) as file:
        lines = {line.offset: line.value for line in parsed(file) if line.value is not None}
    rebuilt = messages(lines[offset] for offset in wanted if offset in lines)
    if not wanted:
        *_, rebuilt = [], *(made["messages"] for _, made in requests(lines.values()))
    profile = ModelProfile("transcript", window=10**9, thinking="adaptive")
    sent = not wanted and bool(rebuilt)
    found = validate_messages(rebuilt, profile, sendable=sent)
    return [
        {"rule": one.rule, "message": one.message, "text": one.text}
        for one in found
        if one.severity == "api"
    ]


def _bloat(records: dict[str, list[Any]]) -> list[Report]:
    lines: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    columns = (records["type"], records["subtype"], records["bytes"])
    for kind, subtype, size in zip(*columns, strict=True):
        name = "/".join(str(one) for one in (kind, subtype) if one) or "(unreadable)"
        lines[name] += 1
        sizes[name] += size
    whole = sum(sizes.values()) or 1
    return [
        {"type": name, "lines": lines[name], "bytes": size, "share": round(size / whole, 4)}
        for name, size in sizes.most_common()
    ]


def _dedup(tables: Tables) -> Report:
    calls, blocks = tables.columns("calls"), tables.columns("blocks")
    again = [
        size for size, twin in zip(blocks["chars"], blocks["duplicate_of"], strict=True) if twin
    ]
    return {
        "usage_lines": sum(calls["lines"]),
        "calls": len(calls["call_id"]),
        "blocks": len(blocks["record_id"]),
        "repeated_blocks": len(again),
        "repeated_chars": sum(size or 0 for size in again),
    }


def _biggest(records: dict[str, list[Any]]) -> list[Report]:
    rows = zip(records["bytes"], records["offset"], records["type"], strict=True)
    top = sorted(rows, key=lambda row: -row[0])[:BIGGEST]
    return [{"bytes": size, "offset": offset, "type": kind} for size, offset, kind in top]


def _repaired(files: list[str], out: str, load: Load, opened: Open) -> Report:
    """Write the repaired copy and return what was done and what is left.

    Raises ValueError for an existing or equal path, several files, or a log that is not Claude's.
    """
    path, target = Path(files[0]), Path(out)
    if len(files) > 1:
        raise ValueError("--repair takes one file at a time")
    if target.exists() or target.resolve() == path.resolve():
        raise ValueError(f"{out!r} exists; --repair writes a new file only")
    tables = load(files[0])
    if set(tables.columns("sessions")["harness"]) != {"claude_code"}:
        raise ValueError(f"{files[0]!r} is no Claude Code transcript; only those are repaired")
    places = {rec.offset: rec for rec in _records(tables)}
    issues = tables.columns("issues")
    found: dict[int, set[str]] = {}
    for offset, code in zip(issues["offset"], issues["code"], strict=True):
        if offset is not None:
            found.setdefault(offset, set()).add(code)
    with opened(files[0]) as file:
        done = repair(file, places, found)
    target.write_bytes(b"".join(done.lines))
    if done.bad:
        Path(f"{out}.bad").write_bytes(b"".join(done.bad))
    again = examine(out, load(out))
    left = [one for one in again["findings"] if one["code"] in CODES]
    return {"out": out, **done.counts, "left": left + again["pairs"], "chain": again["chain"]}


class _Place:
    """Where a record stands and why it is on the chain or off."""

    __slots__ = ("chain", "offset")

    def __init__(self, offset: int, chain: str | None) -> None:
        self.offset = offset
        self.chain = chain


def _records(tables: Tables) -> Iterable[_Place]:
    records = tables.columns("records")
    return (_Place(*row) for row in zip(records["offset"], records["chain"], strict=True))


def text(report: Report) -> str:
    """Return one report for people."""
    chain, dedup = report["chain"], report["dedup"]
    head = f"{report['file']}: {report['lines']:,} lines, {report['bytes']:,} bytes"
    lines = [f"{head}, {len(report['sessions'])} sessions"]
    lines += [
        f"  {one['severity']:<5} {one['code']} x{one['count']}: {one['first']}"
        for one in report["findings"]
    ]
    lost = f"the official walk loses {chain['official_lost']:,}, ours {chain['ours_lost']:,}"
    lines.append(f"  results: {chain['results']:,} of calls on the chain; {lost}")
    again = f"{dedup['repeated_blocks']:,} blocks repeat earlier text"
    stated = f"{dedup['calls']:,} stated by {dedup['usage_lines']:,} lines"
    lines.append(f"  calls: {stated}; {again}")
    lines += [f"  pair  {one['rule']}: {one['text']}" for one in report["pairs"]]
    for one in report["bloat"][:8]:
        size = f"{one['share']:>6.1%} {one['bytes']:>12,} bytes {one['lines']:>7,} lines"
        lines.append(f"  {size} {one['type']}")
    if "repair" in report:
        kept = {k: v for k, v in report["repair"].items() if k not in ("out", "left", "chain")}
        done = ", ".join(f"{name} {count}" for name, count in kept.items())
        lines.append(f"  repaired: {report['repair']['out']}: {done}")
        lines.append(f"  left: {report['repair']['left'] or 'nothing'}")
    return "\n".join(lines) + "\n"
