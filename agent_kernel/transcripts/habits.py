"""Habits: what a session's model and cache did that costs more than it must, as findings.

May not read a transcript: it is given tables, and names the calls each finding stands on.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Columns = Mapping[str, Sequence[Any]]
REPEATS = 3  # identical calls with nothing written between them
_QUERIES = ("query", "pattern", "question", "text", "q")
_ENDINGS = "py|ipynb|md|json|toml|yaml|yml|js|ts|tsx|go|rs|c|h|cpp|java|rb|sh|sql|csv|txt|html|css"
_PATH = re.compile(rf"(?:[\w.@~-]*/)+[\w.@-]+\.\w{{1,5}}\b|(?<![\w/.])[\w-]+\.(?:{_ENDINGS})\b")
_SYMBOL = re.compile(r"(?:\w+\.)*(?:[a-z0-9]+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)(?:\(\))?")
_QUOTED = re.compile(r"""(?:"[^"]{3,}"|'[^']{3,}')""")
_SHELL = ("bash", "shell", "terminal", "run_command")
_CHANGES = ("write", "edit", "multiedit", "notebookedit", "apply_patch", "notebook", *_SHELL)
_PAIRS = {
    **dict.fromkeys(("cat", "head", "tail"), "read"),
    **dict.fromkeys(("grep", "rg"), "grep"),
    **dict.fromkeys(("find", "ls"), "glob"),
    **dict.fromkeys(("sed", "awk"), "edit"),
}
_JOINED = re.compile(r"[|;&<>`]|\$\(")
_HERE = re.compile(r"^\s*cat\s*>+\s*\S+\s*<<")


def habits(tools: Columns, calls: Columns) -> list[Row]:
    """Return {code, severity, count, first, evidence} of each habit found, evidence up to five ids.

    Codes: tier_misuse (a concept is looked for where a path, a text or a symbol was known),
    shell_for_tool (one of the six pairs), repeated_call, cache_break.
    """
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    rows = _rows(tools)
    for code, name, words in (*_looking(rows), *_repeated(rows), *_breaks(_rows(calls))):
        found[code].append((name, words))
    return [
        {
            "code": code,
            "severity": "advice",
            "count": len(said),
            "first": said[0][1],
            "evidence": [name for name, _ in said[:5]],
        }
        for code, said in found.items()
    ]


def _rows(columns: Columns) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _looking(rows: list[Row]) -> Iterator[tuple[str, str, str]]:
    for row in rows:
        name = str(row["name"] or "")
        if row["tier"] == "concept" and "web" not in name.lower():
            better = _better(_query(row))
            if better:
                yield "tier_misuse", row["tool_use_id"], f"{name} though {better}"
        elif name.lower() in _SHELL:
            tool = _pair(str(row["command"] or ""))
            if tool:
                said = f"{name} ran {row['command']!r:.80}; the {tool} tool does that"
                yield "shell_for_tool", row["tool_use_id"], said


def _query(row: Row) -> str:
    try:
        given = json.loads(row["input"] or "{}")
    except ValueError:
        return ""
    said = (given.get(name) for name in _QUERIES) if isinstance(given, dict) else ()
    return next((each.strip() for each in said if isinstance(each, str)), "")


def _better(query: str) -> str:
    """Return what was known that a cheaper tier looks up, "" when only a concept was."""
    path = _PATH.search(query)
    if path:
        return f"the path {path[0]!r} was known: read"
    if _SYMBOL.fullmatch(query):
        return f"the symbol {query!r} was known: lsp"
    text = _QUOTED.fullmatch(query)
    return f"the text {text[0]} was known: grep" if text else ""


def _pair(command: str) -> str | None:
    """Return the tool that does what one simple command does, None when it is more than that."""
    if _HERE.match(command):
        return "write"
    if _JOINED.search(command) or "\n" in command.strip():
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    tool = _PAIRS.get(words[0]) if words else None
    return "read" if tool == "edit" and words[0] == "sed" and "-n" in words else tool


def _repeated(rows: list[Row]) -> Iterator[tuple[str, str, str]]:
    seen: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in rows:
        name, whose = str(row["name"] or ""), (row["session_id"], row["agent_id"])
        key = (*whose, name, row["input"])
        seen[key] += 1
        if seen[key] == REPEATS:
            said = f"{name} {row['input'] or ''!s:.60} was called {REPEATS} times, nothing between"
            yield "repeated_call", row["tool_use_id"], said
        if name.lower() in _CHANGES:  # what it changed may be looked at again
            for other in [k for k in seen if k[:2] == whose and k != key]:
                del seen[other]


def _breaks(calls: list[Row]) -> Iterator[tuple[str, str, str]]:
    for call in calls:
        if call["cache_event"] == "prefix_change":
            usd = call["rewrite_usd"]
            cost = "" if usd is None else f", ${usd:.4f}"
            said = f"the prefix changed: {call['rewritten'] or 0:,} tokens written anew{cost}"
            yield "cache_break", call["call_id"], said
