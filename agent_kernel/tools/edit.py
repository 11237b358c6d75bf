"""Edit: one exact piece of a file that was read becomes another; every other byte stays.

May not guess: a piece that is not there, or is there twice, is an error that says where to look.
"""

from __future__ import annotations

import asyncio
import difflib
import re

from pydantic import Field

import agent_kernel.tools.files as files
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError
from agent_kernel.tools.diffs import diff
from agent_kernel.tools.write import answer, readable, refuse_notebook

COMPARED = 20_000  # lines looked at for the nearest one
LISTED = 20  # line numbers named

DESCRIPTION = (
    "Replace text in a file you have read. `old` must be there exactly once, with its indentation "
    "and without read's line numbers; give more lines when it is not unique, or all=true for every "
    "place."
)


class EditInput(Input):
    """Input of `edit`."""

    path: str = Field(min_length=1)
    old: str = Field(min_length=1)
    new: str
    all: bool = False


def fitted(text: str, old: str, new: str) -> tuple[str, str]:
    """Return `old` and `new` with the line ends of `text` when `old` is found only so."""
    if old not in text and "\r\n" in text and "\n" in old and "\r\n" not in old:
        return old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    if old in text and "\n" not in old and "\n" in new and _all_crlf(text):
        return old, re.sub(r"(?<!\r)\n", "\r\n", new)
    return old, new


def _all_crlf(text: str) -> bool:
    return text.count("\r\n") == text.count("\n") > 0


def line_numbers(text: str, old: str) -> list[int]:
    """Return the line, from 1, at which each place of `old` begins."""
    found, at, line, last = [], text.find(old), 1, 0
    while at >= 0:
        line += text.count("\n", last, at)
        found.append(line)
        last, at = at, text.find(old, at + len(old))
    return found


def not_found(name: str, text: str, old: str) -> str:
    """Return why `old` was not found: line numbers copied, other blanks, or the nearest lines."""
    said = f"`old` is not in {name!r}"
    wanted = old.split("\n")
    if all(re.match(r"\d+\t", line) for line in wanted if line):
        return f"{said}: leave out the line numbers that read puts before each line"
    lines = [line.removesuffix("\r") for line in text.split("\n")[:COMPARED]]
    key = next((line.strip() for line in wanted if line.strip()), "")
    same = [i for i, line in enumerate(lines) if key and line.strip() == key]
    if not same:
        near = difflib.get_close_matches(key, list(dict.fromkeys(map(str.strip, lines))), 1, 0.6)
        same = [i for i, line in enumerate(lines) if near and line.strip() == near[0]]
    if not same:
        return f"{said}, nor is anything like its first line; read the file again"
    at = same[0]
    shown = "\n".join(f"{i + 1}\t{lines[i][:200]}" for i in range(at, min(at + 5, len(lines))))
    return f"{said}; blanks and every character must agree. The nearest lines are:\n{shown}"


def edited(name: str, text: str, value: EditInput) -> str:
    """Return the new text. Raises ToolError when `old` does not fit exactly once, or at all."""
    old, new = fitted(text, value.old, value.new)
    if old == new:
        raise ToolError("`old` and `new` are equal: nothing to change")
    count = text.count(old)
    if count == 0:
        raise ToolError(not_found(name, text, value.old))
    if count > 1 and not value.all:
        lines = ", ".join(map(str, line_numbers(text, old)[:LISTED]))
        more = f" and {count - LISTED} more" if count > LISTED else ""
        raise ToolError(
            f"`old` is in {name!r} {count} times, at lines {lines}{more}; "
            "give more of the lines around the one you mean, or all=true"
        )
    return text.replace(old, new)


def _run(value: EditInput, ctx: ToolContext) -> tuple[Answer, files.Change]:
    refuse_notebook(value.path)
    place = files.locate(ctx, value.path)
    found = files.load(ctx, place)
    files.need_observed(ctx, place, found)
    before = found.data.decode("utf-8", "surrogateescape")
    after = edited(place.name, before, value)
    change = files.replace(ctx, place, after.encode("utf-8", "surrogateescape"), found)
    return answer("edited", place.name, diff(readable(before), readable(after)), shown=True), change


async def run(value: EditInput, ctx: ToolContext) -> Answer:
    """Change the file and return the diff."""
    told, change = await asyncio.to_thread(_run, value, ctx)
    change.note(ctx)
    return told


EDIT = Tool("edit", DESCRIPTION, EditInput, run, timeout=60.0)
