"""Plan: what the model is told while plan mode holds.

May not hold anything once the mode is another: then it says that it is no longer set.
"""

from __future__ import annotations

from agent_kernel.core.prompt import PromptContext, Section

TEXT = (
    "Plan mode: only tools that look are allowed; nothing may be changed yet, also not by another "
    "way. Look, think, then show the plan with ask(kind='plan', question=THE WHOLE PLAN): files to "
    "change, steps in order, how it is checked, what is risky. When the person approves, the mode "
    "ends and you do what was approved, no more. When they do not, read why and plan again."
)


def render(context: PromptContext) -> str | None:
    """Return the text in plan mode, else None."""
    return TEXT if context.mode == "plan" else None


PLAN = Section("plan", False, render, kind="reminder")
