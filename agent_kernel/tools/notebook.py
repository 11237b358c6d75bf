"""Notebook: the cells of this notebook or of a closed file: listed, read, changed, run.

May not write a notebook that is open in a front end: there a change is a proposal to the person.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
from pathlib import Path
from typing import Any, Literal

import agent_kernel.tools.cells as cells
import agent_kernel.tools.files as files
import agent_kernel.tools.notebook_run as notebook_run
from agent_kernel.core.messages import Block, Json, Text
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.cells import Sheet
from agent_kernel.tools.diffs import Diff, diff
from agent_kernel.tools.write import answer

Action = Literal["list", "read", "edit", "insert", "delete", "move", "run", "clear"]
LOOKS = ("list", "read")
BYTES = 50 << 10  # of one answer
KEEPS_OUTPUTS = ("insert", "delete", "move")

DESCRIPTION = (
    "Work on notebook cells: list, read, edit, insert, delete, move, run, clear (outputs). Without "
    "`path` it is the open notebook, where changes are proposed to the person. `cell` is an id or "
    "#N. insert and move need `position`: `before ID`, `after ID` or `end`."
)


class NotebookInput(Input):
    """Input of `notebook`."""

    action: Action
    path: str | None = None
    cell: str | None = None
    source: str | None = None
    kind: Literal["code", "markdown", "raw"] = "code"
    position: str | None = None


def looks(value: NotebookInput) -> bool:
    """Tell whether the call changes nothing."""
    return value.action in LOOKS


def need(value: NotebookInput) -> None:
    """Raise ToolError when the action lacks what it needs; nothing is assumed in its place."""
    if value.action in ("edit", "delete", "move") and value.cell is None:
        raise ToolError(f"{value.action} needs `cell`: an id or #N; list shows them")
    if value.action in ("edit", "insert") and value.source is None:
        raise ToolError(f"{value.action} needs `source`, the cell's whole new text")
    if value.action in ("insert", "move") and value.position is None:
        raise ToolError(f"{value.action} needs `position`: `before CELL`, `after CELL` or `end`")


def place_in(found: list[Json], position: str) -> int:
    """Return the index a cell gets by `before CELL`, `after CELL` or `end`."""
    if position == "end":
        return len(found)
    where, _, name = position.partition(" ")
    if where not in ("before", "after") or not name.strip():
        raise ToolError(f"position {position!r} is none of `before CELL`, `after CELL`, `end`")
    return cells.find(found, name.strip()) + (where == "after")


# ---------------------------------------------------------------- looking
def _look(found: list[Json], value: NotebookInput, name: str) -> Answer:
    meta: Json = {"path": name, "cells": len(found), "taint": "notebook"}
    if value.action == "list":
        return text_answer(_bounded(cells.listed(found)), **meta)
    wanted = [cells.find(found, value.cell)] if value.cell else list(range(len(found)))
    text = "\n\n".join(cells.shown(found[at], at) for at in wanted) or "[no cells]"
    pictures = cells.images_of([found[at] for at in wanted])
    content: tuple[Block, ...] = (Text(_bounded(text)), *pictures)
    return Answer(content, meta)


def _bounded(text: str) -> str:
    raw = text.encode("utf-8", "replace")
    if len(raw) <= BYTES:
        return text
    rest = "; read one cell at a time"
    return f"{raw[:BYTES].decode('utf-8', 'ignore')}\n[{len(raw) - BYTES:,} bytes left out{rest}]"


# ---------------------------------------------------------------- a closed file
def with_source(cell: Json, source: str) -> Json:
    """Return the cell with a new source in the form it had; outputs of the old one are dropped."""
    whole = isinstance(cell.get("source"), str)
    made = {**cell, "source": source if whole else source.splitlines(keepends=True)}
    return cleared(made) if cell.get("cell_type") == "code" else made


def cleared(cell: Json) -> Json:
    """Return a code cell that was never run."""
    return {**cell, "execution_count": None, "outputs": []}


def new_cell(sheet: Sheet, kind: str, source: str) -> Json:
    """Return a new cell; it has an id where the file's format does (nbformat 4.5)."""
    made: Json = {"cell_type": kind}
    if kind == "code":
        made["execution_count"] = None
    if sheet.whole.get("nbformat_minor", 0) >= 5:
        made["id"] = secrets.token_hex(4)
    made["metadata"] = {}
    if kind == "code":
        made["outputs"] = []
    made["source"] = source.splitlines(keepends=True)
    return made


def changed(sheet: Sheet, value: NotebookInput) -> tuple[str, str, Diff]:
    """Return (new text of the file, what was done in words, diff of the cell's source)."""
    found = sheet.cells
    if value.action == "insert":
        at = place_in(found, value.position or "")
        cell = new_cell(sheet, value.kind, value.source or "")
        words = f"inserted {value.kind} cell {cells.name_of(cell, at)} as number {at + 1} in"
        return sheet.inserted(at, cell), words, diff("", value.source or "")
    if value.action == "clear":
        return _clear(sheet, value)
    at = cells.find(found, value.cell or "")
    old, name = cells.source_of(found[at]), cells.name_of(found[at], at)
    if value.action == "edit":
        if old == value.source:
            raise ToolError(f"cell {name} already has exactly this source")
        text = sheet.with_cell(at, with_source(found[at], value.source or ""))
        return text, f"edited cell {name} of", diff(old, value.source or "")
    if value.action == "delete":
        return sheet.without(at), f"deleted cell {name} of", diff(old, "")
    to = place_in(found, value.position or "")
    if to in (at, at + 1):
        raise ToolError(f"cell {name} is already there")
    rest = cells.sheet_of(sheet.without(at), "the notebook")
    return rest.inserted(to - (to > at), found[at]), f"moved cell {name} of", Diff("", 0, 0)


def _clear(sheet: Sheet, value: NotebookInput) -> tuple[str, str, Diff]:
    found = sheet.cells
    wanted = [cells.find(found, value.cell)] if value.cell else range(len(found))
    made = sheet
    for at in wanted:
        if found[at].get("cell_type") == "code":
            made = cells.sheet_of(made.with_cell(at, cleared(found[at])), "the notebook")
    return made.text, "cleared outputs of", Diff("", 0, 0)


def _closed(value: NotebookInput, ctx: ToolContext) -> tuple[Answer, files.Change | None, str]:
    """Do the action on a file; the answer, what changed, and the hash the agent has now seen."""
    place = files.locate(ctx, value.path or "")
    found = files.load(ctx, place)
    sheet = cells.sheet_of(found.data.decode("utf-8", "surrogateescape"), place.name)
    if looks(value):
        return _look(sheet.cells, value, place.name), None, found.sha256
    files.need_observed(ctx, place, found, reader="list or read")
    text, words, change = changed(sheet, value)
    done = files.replace(ctx, place, text.encode("utf-8", "surrogateescape"), found)
    return answer(words, place.name, change, shown=bool(change.text)), done, ""


# ---------------------------------------------------------------- the open notebook
def _is_open(value: NotebookInput, ctx: ToolContext, service: Any) -> bool:
    if value.path is None:
        if service is None:
            raise ToolError("no notebook is open here; give `path`")
        return True
    if service is None or service.path is None:
        return False
    here = Path(os.path.realpath(files.root(ctx) / service.path))
    return files.locate(ctx, value.path).real == here


async def _open(value: NotebookInput, service: Any) -> Answer:
    """Look at the open notebook, or propose a change of it."""
    found = service.cells()
    found = await found if inspect.isawaitable(found) else found
    name = str(service.path or "this notebook")
    if looks(value):
        return _look(found, value, name)
    told = service.propose(
        action=value.action,
        cell=value.cell,
        source=value.source,
        kind=value.kind,
        position=value.position,
    )
    told = await told if inspect.isawaitable(told) else told
    return text_answer(str(told), path=name, proposed=True)


async def run(value: NotebookInput, ctx: ToolContext) -> Answer:
    """Do the action and return what the model is told."""
    need(value)
    service = ctx.services.get("notebook")
    if _is_open(value, ctx, service):
        return await _open(value, service)
    if value.action == "run":
        return await notebook_run.run(value.path or "", value.cell, ctx)
    told, change, seen = await asyncio.to_thread(_closed, value, ctx)
    if seen:
        files.observe(ctx, told.meta["path"], seen, "notebook")
    if change is not None:
        change.note(ctx)
    return told


NOTEBOOK = Tool(
    "notebook", DESCRIPTION, NotebookInput, run, concurrent=looks, read_only=looks, timeout=900.0
)
