"""Doc: the few blocks a static view is written in; html.py and text.py render each of them once.

May not hold markup: a block is words and numbers, so escaping has one place a mime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import agent_kernel.widgets.hidden as hidden
from agent_kernel.widgets.turnview import DiffRow, Line


@dataclass(frozen=True, slots=True)
class Head:
    """A title line; `note` is what stands dim beside it."""

    line: Line
    note: str = ""


@dataclass(frozen=True, slots=True)
class Para:
    """One paragraph of our own words."""

    line: Line


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown of a model, rendered as the safe subset."""

    md: str


@dataclass(frozen=True, slots=True)
class Pre:
    """Exact text, blanks and line ends kept."""

    line: Line


@dataclass(frozen=True, slots=True)
class Diff:
    """Rows of a diff."""

    rows: Sequence[DiffRow]


@dataclass(frozen=True, slots=True)
class Items:
    """A list without numbers."""

    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows; columns of numbers stand right; `total` is the last row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Line]]
    total: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names with their values."""

    rows: Sequence[tuple[str, Line]]


@dataclass(frozen=True, slots=True)
class Fold:
    """A line that unfolds into blocks."""

    line: Line
    blocks: Sequence[Block]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands a person can type next."""

    commands: Sequence[str]


Block = Head | Para | Prose | Pre | Diff | Items | Table | Pairs | Fold | Commands


def text(value: object) -> Line:
    """Return `value` on one line as spans, hidden characters named."""
    return [["t", hidden.one_line(str(value))]]


def code(value: object) -> Line:
    """Return `value` on one line as one code span, hidden characters named."""
    return [["c", hidden.one_line(str(value))]]


def number(value: int | None) -> Line:
    """Return a count with thousands; unknown is a dash."""
    return [["t", f"{value:,}" if value is not None else "–"]]
