"""Notebook: which notebook this is and how many cells it has; its namespace is told turn by turn.

May not send a cell's text or a value of a variable.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from agent_kernel.core.prompt import PromptContext, Section

_counted: dict[Path, tuple[tuple[int, int], str]] = {}


async def render(context: PromptContext) -> str | None:
    """Return the notebook's path and its cells by kind, as last saved; None outside a notebook."""
    service = context.facts.get("notebook")
    path = getattr(service, "path", None)
    if not path:
        return None
    cells = await asyncio.to_thread(_cells, context.workspace / path, service)
    return "\n".join([f"path: {path}", *([f"cells as last saved: {cells}"] if cells else [])])


def _cells(path: Path, service: Any) -> str:
    """Return the count of cells by kind, read anew only when the file is another."""
    try:
        info = path.stat()
        stamp = (info.st_mtime_ns, info.st_size)
        if path not in _counted or _counted[path][0] != stamp:
            kinds = Counter(str(cell.get("cell_type")) for cell in service.cells())
            words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            _counted[path] = (stamp, words)
    except (OSError, ValueError):
        return ""
    return _counted[path][1]


NOTEBOOK = Section("notebook", False, render)
