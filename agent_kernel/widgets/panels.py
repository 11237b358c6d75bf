"""Panels: the x-ray, the stepper, a compaction and a request's difference as live widgets.

May not decide: a click goes to the caller, and the state says all that is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import agent_kernel.widgets.anywidgets as anywidgets

NAMES = ("xray", "stepper", "compaction", "difference")


def panel(
    name: str, state: Mapping[str, Any], on_message: anywidgets.OnMessage = lambda _message: None
) -> Any:
    """Return the widget `name` of NAMES with its state; its `show(state)` replaces it."""
    return panel_class(name)({"view": dict(state)}, on_message)


@cache
def panel_class(name: str) -> type[Any]:
    """Return the class of a panel, made at first use. Raises KeyError naming those there are."""
    if name not in NAMES:
        raise KeyError(f"no panel is called {name!r}; there are {', '.join(NAMES)}")

    class Panel(anywidgets.answering()):  # type: ignore[misc]
        """A live view of one state."""

        _esm = anywidgets.esm(name)
        _css = anywidgets.css()

        def show(self, state: Mapping[str, Any]) -> None:
            """Show another state."""
            self.view = dict(state)

    Panel.__name__ = Panel.__qualname__ = f"{name.capitalize()}Panel"
    return Panel
