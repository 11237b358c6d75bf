"""Running tasks: what still works behind the agent's calls, so that no compaction forgets it.

May not say how long: a clock would change the text with every step.
"""

from __future__ import annotations

from agent_kernel.core.events import TaskCreated
from agent_kernel.core.prompt import PromptContext, Section


def render(context: PromptContext) -> str | None:
    """Return one line a running task of the agent, in the order they began; None when none
    runs."""
    session = context.facts.get("session")
    if session is None:
        return None
    running = [
        event
        for event in session.tasks.values()
        if isinstance(event, TaskCreated) and event.agent == context.agent and event.kind != "cell"
    ]
    if not running:
        return None
    lines = [
        f"- {e.id} ({e.kind}, call {e.tool_use_id or 'none'}, since seq {e.seq}): {e.label}"
        for e in sorted(running, key=lambda e: e.seq)
    ]
    return "\n".join(["Running; you are told when one ends:", *lines])


RUNNING_TASKS = Section("running_tasks", False, render)
