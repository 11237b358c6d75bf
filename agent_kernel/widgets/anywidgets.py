"""Anywidgets: the live turn and the live approval, one ESM text each, made without a build step.

May not load ipywidgets before a widget is made, and may not decide: a click goes to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import agent_kernel.widgets.markdown as markdown
from agent_kernel.widgets.turnview import Approval, Item, PanelView, TurnView

OnMessage = Callable[[dict[str, Any]], None]
"""Called with each message of a front end, `ping` among them (turnview.py names their fields)."""
MOVING = 3
"""Rows at the end that may still change; those before are sent again only when one does."""


def esm(name: str) -> str:
    """Return the module of a widget (turn, tasks or approval): shared parts, then its own."""
    return "\n".join(_file(f"{part}.js") for part in ("dom", "card", "parts", name))


def css() -> str:
    """Return the one style sheet of all widgets."""
    return _file("ak.css")


def _file(name: str) -> str:
    return files("agent_kernel.widgets").joinpath(name).read_text(encoding="utf-8")


def turn_state(view: TurnView) -> dict[str, Any]:
    """Return a turn's model state: `view` without rows, `past` and `items`; Markdown is parsed.

    Streaming text then resends the last rows only, never the whole turn.
    """
    rows = [_parsed(item) for item in view["items"]]
    head = {key: value for key, value in view.items() if key not in ("items", "answer")}
    return {"view": head, "past": rows[:-MOVING], "items": rows[-MOVING:]}


def _parsed(item: Item) -> dict[str, Any]:
    row: dict[str, Any] = dict(item)
    if item["kind"] == "text":
        row["blocks"] = markdown.blocks(row.pop("md"))
    return row


def turn_widget(view: TurnView, on_message: OnMessage) -> Any:
    """Return a TurnWidget of `view`; call its `show(view)` at most each 80 ms."""
    return turn_class()(view, on_message)


def tasks_widget(view: PanelView, on_message: OnMessage) -> Any:
    """Return a TasksWidget of a task panel; its `show(view)` replaces it."""
    return tasks_class()(view, on_message)


def approval_widget(card: Approval, on_message: OnMessage) -> Any:
    """Return an ApprovalWidget of one card; its `show(card)` replaces it."""
    return approval_class()(card, on_message)


@cache
def answering() -> type[Any]:
    """Return the base class of every widget, made at first use."""
    import anywidget  # noqa: PLC0415
    import traitlets  # noqa: PLC0415

    class Answering(anywidget.AnyWidget):
        """A widget that answers a ping, so that its front end knows a kernel is there."""

        view: Any = traitlets.Dict().tag(sync=True)

        def __init__(self, state: Mapping[str, Any], on_message: OnMessage) -> None:
            super().__init__(**state)
            self._on_message = on_message
            self.on_msg(self._heard)

        def _heard(self, _widget: Any, content: Any, _buffers: Any) -> None:
            if not isinstance(content, dict) or not isinstance(content.get("type"), str):
                return
            if content["type"] == "ping":
                self.send({"type": "pong"})
            self._on_message(content)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({self.view.get('state') or self.view.get('title')!r})"

    return Answering


@cache
def turn_class() -> type[Any]:
    """Return the class TurnWidget, made at first use."""
    import traitlets  # noqa: PLC0415

    class TurnWidget(answering()):  # type: ignore[misc]
        """The live view of one turn."""

        _esm = esm("turn")
        _css = css()
        past: Any = traitlets.List().tag(sync=True)
        items: Any = traitlets.List().tag(sync=True)

        def __init__(self, view: TurnView, on_message: OnMessage) -> None:
            super().__init__(turn_state(view), on_message)

        def show(self, view: TurnView) -> None:
            """Show `view`; only what differs is sent, in one message."""
            with self.hold_sync():
                for name, value in turn_state(view).items():
                    setattr(self, name, value)

    return TurnWidget


@cache
def approval_class() -> type[Any]:
    """Return the class ApprovalWidget, made at first use."""

    class ApprovalWidget(answering()):  # type: ignore[misc]
        """The live card of one approval."""

        _esm = esm("approval")
        _css = css()

        def __init__(self, card: Approval, on_message: OnMessage) -> None:
            super().__init__({"view": dict(card)}, on_message)

        def show(self, card: Approval) -> None:
            """Show `card`."""
            self.view = dict(card)

    return ApprovalWidget


@cache
def tasks_class() -> type[Any]:
    """Return the class TasksWidget, made at first use."""

    class TasksWidget(answering()):  # type: ignore[misc]
        """The live task panel: it is changed after its cell ended, too."""

        _esm = esm("tasks")
        _css = css()

        def __init__(self, view: PanelView, on_message: OnMessage) -> None:
            super().__init__({"view": dict(view)}, on_message)

        def show(self, view: PanelView) -> None:
            """Show `view`."""
            self.view = dict(view)

    return TasksWidget
