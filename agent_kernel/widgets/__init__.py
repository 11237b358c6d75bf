"""Widgets: what a person sees of a session, each view a pure function of its events.

May not decide, run or send anything; no widget package loads before a widget is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent_kernel.widgets import (
    compaction,
    context,
    logview,
    request,
    samples,
    stepper,
    surface,
    tasks,
    tree,
    turn,
    xray_view,
)
from agent_kernel.widgets.doc import Block

ALL: dict[str, Callable[..., Sequence[Block]]] = {
    "turn": turn.document,
    "approval": turn.approval_document,
    "tasks": tasks.view,
    "stepper": stepper.view,
    "context": context.view,
    "request": request.view,
    "difference": request.difference,
    "surface": surface.view,
    "log": logview.view,
    "compaction": compaction.view,
    "samples": samples.view,
    "tree": tree.view,
    "xray": xray_view.view,
}
"""Every view by name: its blocks become mimes through `bundle.of_blocks`."""
