"""Diffs: rows of old number, new number, sign and text, from a unified diff or from a tool's input.

May not read a file: what a tool or the roof did not say is not shown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

import agent_kernel.widgets.hidden as hidden
from agent_kernel.widgets.turnview import DiffRow

SHOWN = 60
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$")
_LIMIT = 600


def unified(text: str) -> list[DiffRow]:
    """Return the rows of a unified diff, [] when `text` holds no hunk; file heads are left out."""
    rows: list[DiffRow] = []
    old = new = 0
    inside = False
    for line in text.split("\n"):
        hunk = _HUNK.match(line)
        if hunk:
            old, new, inside = int(hunk[1]), int(hunk[2]), True
            rows.append([None, None, "@", _hunk_words(old, hunk[3])])
        elif inside and line[:1] in (" ", "+", "-"):
            rows.append(_row(line, old, new))
            old += line[0] != "+"
            new += line[0] != "-"
        elif not line.startswith("\\"):
            inside = False
    return rows


def added(text: str) -> list[DiffRow]:
    """Return the rows of a new file, each line of `text` after its `+`."""
    lines = (line.removeprefix("+") for line in text.rstrip("\n").split("\n"))
    return [[None, number, "+", hidden.shown(line)] for number, line in enumerate(lines, 1)]


def _row(line: str, old: int, new: int) -> DiffRow:
    sign = line[0]
    text = hidden.shown(line[1:])
    return [None if sign == "+" else old, None if sign == "-" else new, sign, text]


def _hunk_words(line: int, where: str) -> str:
    return f"@@ {hidden.one_line(where)}, line {line}" if where.strip() else f"@@ line {line}"


def of_input(name: str, given: Mapping[str, object]) -> list[DiffRow]:
    """Return what an edit or a write would change, without line numbers; [] for other tools."""
    if name == "edit" and isinstance(given.get("old"), str) and isinstance(given.get("new"), str):
        return _between(str(given["old"]), str(given["new"]))
    if name == "write" and isinstance(given.get("content"), str):
        return added(str(given["content"]))
    return []


def _between(old: str, new: str) -> list[DiffRow]:
    before, after = old.rstrip("\n").split("\n"), new.rstrip("\n").split("\n")
    if len(before) + len(after) > _LIMIT:  # ndiff's cost grows with the square
        return [[None, None, "-", hidden.shown(line)] for line in before] + [
            [None, None, "+", hidden.shown(line)] for line in after
        ]
    rows: list[DiffRow] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        same = before[a:b] if tag == "equal" else []
        rows += [[None, None, " ", hidden.shown(line)] for line in same]
        if tag != "equal":
            rows += [[None, None, "-", hidden.shown(line)] for line in before[a:b]]
            rows += [[None, None, "+", hidden.shown(line)] for line in after[c:d]]
    return rows


def text(rows: list[DiffRow]) -> str:
    """Return rows as lines that begin with `+`, `−` or a blank."""
    signs = {"-": "−", "@": ""}
    return "\n".join(f"{signs.get(row[2], row[2])}{hidden.shown(row[3])}" for row in rows)
