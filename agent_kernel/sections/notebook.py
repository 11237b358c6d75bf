"""Notebook: which notebook this is; what changed in its namespace is attached turn by turn.

May not send a value of a variable.
"""

from __future__ import annotations

from agent_kernel.core.prompt import PromptContext, Section


def render(context: PromptContext) -> str | None:
    """Return the notebook's path; None outside a notebook."""
    service = context.facts.get("notebook")
    path = getattr(service, "path", None)
    return f"path: {path}" if path else None


NOTEBOOK = Section("notebook", False, render)
