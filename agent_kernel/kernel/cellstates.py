"""Cell states: which cells of the open notebook ran in this kernel, as they are now.

May not read outputs or values: a cell's source and its number are compared with what was typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_kernel.core.messages import Json
from agent_kernel.tools.cells import source_of


def with_states(cells: Iterable[Json], typed: Sequence[str]) -> list[Json]:
    """Return the cells, each code cell with its `state`; `typed` are this kernel's inputs by
    number, the first of them empty."""
    last: dict[str, int] = {}
    for number, text in enumerate(typed):
        if text.strip():
            last[text.strip()] = number
    return [_stated(cell, last, len(typed)) for cell in cells]


def _stated(cell: Json, last: dict[str, int], count: int) -> Json:
    if cell.get("cell_type") != "code":
        return cell
    number, ran = cell.get("execution_count"), last.get(source_of(cell).strip())
    if ran is not None:
        state = f"ran in this kernel, In[{ran}]"
    elif not number:
        state = "never run"
    elif number < count:
        state = f"stale: not what ran in this kernel as In[{number}]"
    else:
        state = f"stale: In[{number}] was of another kernel, it did not run in this one"
    return {**cell, "state": state}
