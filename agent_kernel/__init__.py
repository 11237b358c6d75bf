"""agent_kernel: a Jupyter kernel whose cells run agent turns, and the tables to analyse them.

Importing it touches no disk or network and loads nothing heavy: names come at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
_NAMES = {
    "Agent": "agent_kernel.core.query",
    "Log": "agent_kernel.core.log",
    "Session": "agent_kernel.core.session",
    "query": "agent_kernel.core.query",
    "tool": "agent_kernel.core.tool",
    "frames": "agent_kernel.frames",
    "load_ipython_extension": "agent_kernel.kernel.extension",
    "unload_ipython_extension": "agent_kernel.kernel.extension",
}
__all__ = ["Agent", "Log", "Session", "frames", "load_ipython_extension", "query", "tool"]


def __getattr__(name: str) -> Any:
    """Return a public name, importing its module at first use. Raises AttributeError on others."""
    if name not in _NAMES:
        raise AttributeError(f"module 'agent_kernel' has no attribute {name!r}")
    module = import_module(_NAMES[name])
    value = module if module.__name__ == f"agent_kernel.{name}" else getattr(module, name)
    globals()[name] = value
    return value
