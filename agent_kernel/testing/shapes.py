"""Shapes: one fixture a shape session logs come in, each with what its tables must say.

May not hold a line of a real session. Other packages test against ALL by `transcript_shape`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import agent_kernel.testing.shapes_chain as shapes_chain
import agent_kernel.testing.shapes_costs as shapes_costs
import agent_kernel.testing.shapes_lines as shapes_lines
import agent_kernel.testing.shapes_logs as shapes_logs
import agent_kernel.testing.shapes_strangers as shapes_strangers
import agent_kernel.testing.shapes_today as shapes_today
from agent_kernel.testing.script import Expected

Build = Callable[[Path], Expected]

_MODULES = (
    shapes_lines,
    shapes_chain,
    shapes_costs,
    shapes_logs,
    shapes_strangers,
    shapes_today,
)
ALL: dict[str, Build] = {
    name.replace("_", "-"): value
    for module in _MODULES
    for name, value in vars(module).items()
    if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
}
