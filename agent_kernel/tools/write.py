"""Write: a whole new file, or new content for one that was read.

May not change a file the agent has not seen as it is now, nor a notebook.
"""

from __future__ import annotations

import asyncio

from pydantic import Field

import agent_kernel.tools.files as files
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.diffs import LINES, Diff, diff, split

DESCRIPTION = (
    "Write a whole text file, making its folders. An existing file must have been read and be "
    "unchanged since. For a change inside a file use edit; for .ipynb use notebook."
)


class WriteInput(Input):
    """Input of `write`."""

    path: str = Field(min_length=1)
    content: str


def with_line_ends(content: str, before: str) -> str:
    """Return `content` with CRLF where `before` has nothing else and `content` has none."""
    ends = before.count("\n")
    if ends and before.count("\r\n") == ends and "\r\n" not in content:
        return content.replace("\n", "\r\n")
    return content


def readable(text: str) -> str:
    """Return text decoded with `surrogateescape` with its undecodable bytes as U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def refuse_notebook(path: str) -> None:
    """Raise ToolError when `path` is a notebook: its JSON is not text to edit."""
    if path.endswith(".ipynb"):
        raise ToolError(f"{path!r} is a notebook; change its cells with the notebook tool")


def answer(what: str, name: str, change: Diff, shown: bool) -> Answer:
    """Return what the model is told of a changed file, with the diff people see in meta."""
    meta = {"path": name, "added": change.added, "removed": change.removed, "diff": change.text}
    text = f"{what} {name} (+{change.added} -{change.removed} lines)"
    return text_answer(f"{text}\n{change.text}" if shown else text, **meta)


def _run(value: WriteInput, ctx: ToolContext) -> tuple[Answer, files.Change | None]:
    refuse_notebook(value.path)
    place = files.locate(ctx, value.path)
    if place.target.kind == "missing":
        change = files.replace(ctx, place, value.content.encode(), None)
        lines = split(value.content)
        shown = "\n".join(f"+{line}" for line in lines[:LINES])
        return answer("created", place.name, Diff(shown, len(lines), 0), shown=False), change
    found = files.load(ctx, place)
    files.need_observed(ctx, place, found)
    before = readable(found.data.decode("utf-8", "surrogateescape"))
    content = with_line_ends(value.content, before)
    if content.encode() == found.data:
        return text_answer(f"{place.name} already holds exactly this", path=place.name), None
    change = files.replace(ctx, place, content.encode(), found)
    return answer("replaced", place.name, diff(before, content), shown=False), change


async def run(value: WriteInput, ctx: ToolContext) -> Answer:
    """Write the file and return what changed."""
    told, change = await asyncio.to_thread(_run, value, ctx)
    if change is not None:
        change.note(ctx)
    return told


WRITE = Tool("write", DESCRIPTION, WriteInput, run, timeout=60.0)
