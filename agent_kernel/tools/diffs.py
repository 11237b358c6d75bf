"""Diffs: what changed between two texts, as a bounded unified diff with its counts.

May not read a file; equal beginnings and ends are cut off first, so big files cost little.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

LINES = 200  # lines of one diff
AROUND = 3  # unchanged lines around a change
COMPARED = 3000  # changed lines on either side that are still compared line by line


@dataclass(frozen=True)
class Diff:
    """A unified diff of at most 200 lines, and how many lines came and went in all."""

    text: str
    added: int
    removed: int


def split(text: str) -> list[str]:
    """Return the lines; only a newline ends one, so form feeds and CR stay inside."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines are equal at the start, and at the end without overlapping them."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end


def diff(before: str, after: str) -> Diff:
    """Return the Diff of two texts, without file names."""
    old, new = split(before), split(after)
    start, end = _ends(old, new)
    low, high = max(0, start - AROUND), max(0, end - AROUND)
    left, right = old[low : len(old) - high], new[low : len(new) - high]
    changed = len(old) - start - end, len(new) - start - end
    if max(changed) > COMPARED:
        was, now = changed
        text = f"[{was:,} lines from line {start + 1} on became {now:,}; too many to show]"
        return Diff(text, changed[1], changed[0])
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for group in matcher.get_grouped_opcodes(AROUND):
        lines.extend(_hunk(group, left, right, low))
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    if len(lines) > LINES:
        rest = len(lines) - LINES
        lines = [*lines[:LINES], f"[{rest} more lines of the diff left out]"]
    if before.endswith("\n") != after.endswith("\n") and before and after:
        lines.append(f"[final newline {'removed' if before.endswith(chr(10)) else 'added'}]")
    return Diff("\n".join(lines), added, removed)


def _hunk(
    group: list[tuple[str, int, int, int, int]], left: list[str], right: list[str], shift: int
) -> list[str]:
    first, last = group[0], group[-1]
    where = f"@@ -{_span(first[1], last[2], shift)} +{_span(first[3], last[4], shift)} @@"
    lines = [where]
    for tag, i1, i2, j1, j2 in group:
        if tag == "equal":
            lines.extend(" " + line for line in left[i1:i2])
            continue
        lines.extend("-" + line for line in left[i1:i2])
        lines.extend("+" + line for line in right[j1:j2])
    return lines


def _span(start: int, stop: int, shift: int) -> str:
    length = stop - start
    begin = start + shift + (1 if length else 0)
    return f"{begin}" if length == 1 else f"{begin},{length}"
