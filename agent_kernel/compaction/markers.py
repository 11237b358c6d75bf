"""Markers: the one-line texts that stand where content was, each naming how to get it back.

May not hold more than a name, a size and a pointer; every marker parses back.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

MARKER = re.compile(
    r"\[(?P<kind>clipped|cleared|snipped|collapsed)(?P<what>[^\[\]]*?); "
    r'(?P<call>recall_history\(seq=(?:(?P<one>\d+)|"(?P<first>\d+)-(?P<last>\d+)")\))\]'
)
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


@dataclass(frozen=True)
class Marker:
    """One marker found in a text: its kind, its words, and the seqs it points to."""

    kind: str
    what: str
    first: int
    last: int


def parse(text: str) -> Iterator[Marker]:
    """Yield the markers of a text in order."""
    for found in MARKER.finditer(text):
        one = found["one"]
        first, last = (one, one) if one else (found["first"], found["last"])
        yield Marker(found["kind"], found["what"].lstrip(": "), int(first), int(last))


def clipped(text: str, head: int, tail: int, call: str) -> str:
    """Return `text` as its first `head` and last `tail` characters with a marker between them.

    Never parts a base character from its combining marks, nor a marker of our own (Y8).
    """
    start, end = _whole(text, head), _whole(text, len(text) - tail)
    start, end = _outside(text, start, end)
    gone = end - start
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    marker = f"[clipped {gone:,} of {len(text):,} characters; sha256 {digest}; {call}]"
    return f"{text[:start]}\n{marker}\n{text[end:]}"


def _whole(text: str, at: int) -> int:
    """Return the nearest position at or before `at` that parts no combining sequence."""
    while 0 < at < len(text) and (
        unicodedata.combining(text[at])
        or text[at] in _JOINERS
        or text[at - 1] == "\u200d"
        or ("\udc00" <= text[at] <= "\udfff" and "\ud800" <= text[at - 1] <= "\udbff")
    ):
        at -= 1
    return at


def _outside(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the cut moved to where it parts no marker: what it would part is cut whole."""
    for found in MARKER.finditer(text):
        if found.start() < start < found.end():
            start = found.start()
        if found.start() < end < found.end():
            end = found.end()
    return start, end
