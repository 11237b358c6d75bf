"""Audit verb: every permission decision of a log, the rule that made it and what would pass.

May not judge anew: it shows what was decided then, and each call that began without a decision.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent_kernel.frames import load
from agent_kernel.frames.totals import shown

Row = Mapping[str, Any]
TARGET = 60  # characters of what a call was about
_JSON = (
    "time turn step agent_id tool_use_id name target verdict by rule reason asked waited "
    "would_pass mode began is_error"
).split()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("log", metavar="LOG", help="a session's .jsonl, or its notebook")
    parser.add_argument("--json", action="store_true", help="one JSON object, schema 1")


def main(args: argparse.Namespace) -> int:
    """Print one row a decision; return 1 when a call began without one, 2 for no such log."""
    try:
        found = load(args.log, cache=False)
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"agent-kernel audit: {error}\n")
        return 2
    if not found.files_read():
        sys.stderr.write(f"agent-kernel audit: {args.log!r} holds no session log\n")
        return 2
    rows = _rows(found.load.rows("permissions"), found.load.rows("tools"))
    open_calls = [row for row in rows if row["verdict"] is None and row["began"] is not None]
    if args.json:
        told = [{name: row[name] for name in _JSON} for row in rows]
        said = {"schema": 1, "decisions": told, "began_without_decision": len(open_calls)}
        sys.stdout.write(json.dumps(said) + "\n")
    else:
        sys.stdout.write("".join(_words(row) for row in rows) or _none(found.load.rows("tools")))
    if open_calls:
        names = ", ".join(str(row["tool_use_id"]) for row in open_calls)
        sys.stderr.write(f"agent-kernel audit: began without a decision: {names}\n")
    return 1 if open_calls else 0


def _none(tools: list[dict[str, Any]]) -> str:
    """Return what to say of a log without decisions: not every harness writes them down."""
    if not tools:
        return "no tool was asked for\n"
    return f"this log records no permission decisions; it holds {len(tools):,} tool calls\n"


def _rows(permissions: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    about = {(tool["session_id"], tool["tool_use_id"]): tool for tool in tools}
    rows = []
    for row in permissions:
        tool = about.get((row["session_id"], row["tool_use_id"]), {})
        row |= {"target": _target(tool), "is_error": tool.get("is_error")}
        rows.append({**row, "time": _iso(row["time"]), "began": _iso(row["began"])})
    return rows


def _target(tool: Row) -> str | None:
    target = tool.get("path") or tool.get("command") or tool.get("input")
    return None if target is None else str(target)


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _words(row: Row) -> str:
    """Return a decision as one line, then why, and what would make it pass."""
    target = shown(" ".join((row["target"] or "").split()))
    target = target if len(target) <= TARGET else target[: TARGET - 1] + "…"
    place = f"{row['turn']}.{row['step']}" if row["turn"] is not None else "?"
    agent = "" if row["agent_id"] in (None, "main") else f" {row['agent_id']}"
    lines = [f"{row['time'] or row['began']}  {place}{agent}  {row['name']} {target}".rstrip()]
    lines.append(f"    {_verdict(row)}")
    if row["reason"]:
        lines.append(f"    why: {shown(row['reason'])}")
    if row["would_pass"]:
        lines.append(f"    would pass with: allow {shown(row['would_pass'])}")
    return "\n".join(lines) + "\n"


def _verdict(row: Row) -> str:
    if row["verdict"] is None:
        return "NO DECISION, and it began" if row["began"] else "waits for a person"
    rule = f" {shown(row['rule'])}" if row["rule"] else ""
    mode = f", mode {row['mode']}" if row["mode"] else ""
    asked = "" if not row["asked"] else ", asked"
    waited = f", {row['waited']:.1f} s" if row["waited"] is not None else ""
    ran = "ran" if row["began"] else "never ran"
    failed = " and failed" if row["began"] and row["is_error"] else ""
    return f"{row['verdict']} by {row['by'] or '?'}{rule}{mode}{asked}{waited}; {ran}{failed}"
