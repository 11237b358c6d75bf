"""Notebook run: a closed notebook's cells run in a fresh kernel of its own kind, outputs kept.

May not touch a cell it did not run; needs the extra `jupyter`.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import agent_kernel.tools.cells as cells
import agent_kernel.tools.files as files
from agent_kernel.core.messages import Block, Json, Text
from agent_kernel.core.tool import Answer, ToolContext, ToolError
from agent_kernel.guard.process import child_env

SECONDS = 600  # of one cell


def _needs(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ToolError(
            f"running a notebook needs {module!r}: pip install 'agent-kernel[jupyter]'"
        ) from None


async def _execute(whole: Json, cwd: str) -> str | None:
    """Run the notebook object in place; the error of the cell that failed, or None."""
    nbformat, nbclient = _needs("nbformat"), _needs("nbclient")
    node = nbformat.reads(json.dumps(whole), as_version=4)
    resources = {"metadata": {"path": cwd}}
    client = nbclient.NotebookClient(node, timeout=SECONDS, resources=resources)
    failed = None
    try:
        await client.async_execute(env=child_env())
    except nbclient.exceptions.CellExecutionError as error:
        failed = f"{error.ename}: {error.evalue}"
    except (nbclient.exceptions.CellTimeoutError, nbclient.exceptions.DeadKernelError) as error:
        failed = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    whole["cells"] = json.loads(nbformat.writes(node))["cells"]
    return failed


async def run(path: str, cell: str | None, ctx: ToolContext) -> Answer:
    """Run all cells, or those up to `cell`, write their outputs, and return the last one's."""
    place = files.locate(ctx, path)
    found = files.load(ctx, place)
    files.need_observed(ctx, place, found, reader="list or read")
    sheet = cells.sheet_of(found.data.decode("utf-8", "surrogateescape"), place.name)
    before = sheet.cells
    last = cells.find(before, cell) if cell else len(before) - 1
    whole = {**sheet.whole, "cells": before[: last + 1]}
    failed = await _execute(whole, str(place.real.parent))
    text, ran = sheet, []
    for at, (old, new) in enumerate(zip(before, whole["cells"], strict=False)):
        if old.get("cell_type") != "code" or new.get("execution_count") is None:
            continue
        ran.append(at)
        made = {**old, "execution_count": new["execution_count"], "outputs": new["outputs"]}
        text = cells.sheet_of(text.with_cell(at, made), place.name)
    change = files.replace(ctx, place, text.text.encode("utf-8", "surrogateescape"), found)
    change.note(ctx)
    return _answer(place.name, text.cells, ran, failed)


def _answer(name: str, found: list[Json], ran: list[int], failed: str | None) -> Answer:
    text = f"ran {len(ran)} cells of {name} in a fresh kernel"
    if failed is not None:
        text += f"; stopped at {failed}"
    shown = [cells.shown(found[at], at) for at in ran[-1:]]
    content: tuple[Block, ...] = (Text("\n".join((text, *shown))),)
    meta: Json = {"path": name, "ran": len(ran), "taint": "repo"}
    if failed is not None:
        meta["error_kind"] = failed.partition(":")[0]
    pictures = cells.images_of([found[at] for at in ran[-1:]])
    return Answer((*content, *pictures), meta, is_error=failed is not None)
