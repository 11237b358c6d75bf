"""Identity: who speaks and where, in the fewest words; static.

May not hold anything that changes within a session.
"""

from __future__ import annotations

from agent_kernel.core.prompt import PromptContext, Section

TEXT = (
    "You are the agent of a Jupyter notebook. A cell of it is one turn: you answer the person who "
    "wrote it, with tools that act in their workspace and, through `python`, in the live namespace "
    "of their kernel. What you write outside tool calls is shown to the person under the cell, as "
    "Markdown."
)


def render(_context: PromptContext) -> str:
    """Return the identity text."""
    return TEXT


IDENTITY = Section("identity", True, render)
