"""Text: blocks as text/plain and text/markdown, readable in a terminal, on GitHub, in a git diff.

May not pass on live markup: plain has no escape sequence, Markdown no HTML, image or odd link.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import agent_kernel.widgets.diffs as diffs
import agent_kernel.widgets.hidden as hidden
from agent_kernel.guard import render
from agent_kernel.widgets.doc import (
    Block,
    Commands,
    Diff,
    Fold,
    Head,
    Items,
    Pairs,
    Para,
    Pre,
    Prose,
    Table,
)
from agent_kernel.widgets.turnview import Line


def raw(spans: Line) -> str:
    """Return a line's words without markup; boxed names as `⟨NAME⟩`."""
    made = "".join(f"⟨{text}⟩" if kind == "x" else text for kind, text in spans)
    return hidden.output(made)


def plain(blocks: Sequence[Block]) -> str:
    """Return the blocks as plain text."""
    return "\n".join(_plain(block) for block in blocks).strip("\n")


def _plain(block: Block) -> str:
    match block:
        case Head():
            return raw(block.line) + (f"  {hidden.output(block.note)}" if block.note else "")
        case Para():
            return raw(block.line)
        case Prose():
            return hidden.output(block.md).strip("\n") + "\n"
        case Pre():
            return _indented(raw(block.line))
        case Diff():
            return _indented(diffs.text(list(block.rows)))
        case Items():
            return "\n".join(f"- {raw(one)}" for one in block.lines)
    return _plain_part(block)


def _plain_part(block: Table | Pairs | Fold | Commands) -> str:
    match block:
        case Table():
            return _columns(block)
        case Pairs():
            wide = max((len(name) for name, _ in block.rows), default=0)
            return "\n".join(f"{name:<{wide}}  {raw(value)}" for name, value in block.rows)
        case Fold():
            inner = _indented(plain(block.blocks), 2) if block.blocks else ""
            return raw(block.line) + (f"\n{inner}" if inner else "")
        case Commands():
            return " · ".join(map(hidden.output, block.commands))


def _indented(text: str, by: int = 4) -> str:
    return "\n".join(f"{' ' * by}{one}" if one else "" for one in text.split("\n"))


def width(text: str) -> int:
    """Return the columns a terminal gives `text`: two for a wide character, none for a mark."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


_NUMBER = re.compile(r"^[~+−-]?[$]?[\d,.]+( ?[%kM]| s| tokens?)?$|^[–]?$")


def _columns(table: Table) -> str:
    rows = [[raw(cell) for cell in row] for row in table.rows]
    rows += [[raw(cell) for cell in table.total]] if table.total else []
    cells = [[*table.columns], *rows]
    right = [_numbers([row[at] for row in rows]) for at in range(len(table.columns))]
    wide = [max(width(row[at]) for row in cells) for at in range(len(table.columns))]
    return "\n".join(_padded(row, wide, right) for row in cells)


def _numbers(column: list[str]) -> bool:
    return bool(column) and any(column) and all(_NUMBER.match(cell) for cell in column)


def _padded(row: list[str], wide: list[int], right: list[bool]) -> str:
    out = []
    for cell, room, end in zip(row, wide, right, strict=True):
        gap = " " * (room - width(cell))
        out.append(gap + cell if end else cell + gap)
    return "  ".join(out).rstrip()


# ---- Markdown ------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"([\\`*\[\]<|$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~(?=~)|!(?=\[))")
_AT_START = re.compile(r"^( {0,3})(\d{0,9})([-+=#>~]|[.)](?=\s|$))", re.MULTILINE)
_AUTO = re.compile(r"(https?|ftp)(:)(//)|\b(www)(\.)", re.IGNORECASE)


def escaped(text: str) -> str:
    """Return `text` so that Markdown shows its characters and makes no markup or link of them."""
    text = _SPECIAL.sub(r"\\\1", hidden.output(text).replace("&", "&amp;")).replace("\\<", "&lt;")
    text = _AUTO.sub(lambda found: found.group().replace(":", "&#58;").replace(".", "&#46;"), text)
    return _AT_START.sub(r"\1\2\\\3", text)


def coded(text: str) -> str:
    """Return `text` as a code span whose ticks are longer than any run inside."""
    text = " ".join(hidden.output(text).split("\n"))
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fenced(text: str, lang: str = "") -> str:
    """Return `text` as a code block whose fence is longer than any run inside."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{lang}\n{text}\n{ticks}"


def line(spans: Line) -> str:
    """Return a line's spans as inline Markdown."""
    out = []
    for kind, text in spans:
        if kind == "c" and text:
            out.append(coded(text))
        elif kind == "b" and text.strip():
            out.append(f"**{escaped(text.strip())}**" + (" " if text.endswith(" ") else ""))
        else:
            out.append(escaped(f"⟨{text}⟩" if kind == "x" else text))
    return "".join(out)


def markdown(blocks: Sequence[Block]) -> str:
    """Return the blocks as Markdown without HTML."""
    return "\n\n".join(made for made in map(_markdown, blocks) if made)


def _markdown(block: Block) -> str:
    match block:
        case Head():
            note = f" {escaped(block.note)}" if block.note else ""
            return f"**{escaped(raw(block.line))}**{note}"
        case Para():
            return line(block.line)
        case Prose():
            return render.markdown(hidden.output(block.md)).strip("\n")
        case Pre():
            return fenced(raw(block.line))
        case Diff():
            return fenced(diffs.text(list(block.rows)).replace("\n−", "\n-").lstrip("\n"), "diff")
        case Items():
            return "\n".join(f"- {line(one)}" for one in block.lines)
    return _markdown_part(block)


def _markdown_part(block: Table | Pairs | Fold | Commands) -> str:
    match block:
        case Table():
            return _grid(block)
        case Pairs():
            return "\n".join(f"- {escaped(name)}: {line(value)}" for name, value in block.rows)
        case Fold():
            inner = markdown(block.blocks)
            body = "\n".join(f"  {one}" if one else "" for one in inner.split("\n"))
            return f"- {line(block.line)}" + (f"\n\n{body}" if inner else "")
        case Commands():
            return " · ".join(coded(one) for one in block.commands)


def _grid(table: Table) -> str:
    rows = [[raw(cell) for cell in row] for row in table.rows]
    right = [_numbers([row[at] for row in rows]) for at in range(len(table.columns))]
    marks = ["---:" if end else "---" for end in right]
    lines = [[escaped(name) for name in table.columns], marks]
    lines += [[line(cell).replace("\n", " ") for cell in row] for row in table.rows]
    lines += (
        [[f"**{escaped(raw(c))}**" if raw(c) else "" for c in table.total]] if table.total else []
    )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
