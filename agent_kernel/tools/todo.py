"""Todo: the agent's list of work, given whole each time; the last call in the log is the state.

May not keep a list of its own: whoever shows it folds the log.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer

DESCRIPTION = (
    "Keep your list of work for tasks of three steps or more. Give the whole list each time, one "
    "item active at most; set an item done as soon as it is done."
)


class Item(Input):
    """One piece of work."""

    id: str = Field(min_length=1, max_length=40)
    text: str = Field(min_length=1, max_length=500)
    status: Literal["pending", "active", "done"] = "pending"
    blocked_by: list[str] = Field([], description="ids")


class TodoInput(Input):
    """Input of `todo`."""

    items: list[Item] = Field(max_length=100)


def check(items: list[Item]) -> None:
    """Raise ToolError on a repeated id, two active items, an unknown or cyclic `blocked_by`."""
    by_id = {item.id: item for item in items}
    if len(by_id) < len(items):
        twice = sorted({i.id for i in items if sum(j.id == i.id for j in items) > 1})
        raise ToolError(f"ids {', '.join(map(repr, twice))} are used twice; give each item its own")
    active = [item.id for item in items if item.status == "active"]
    if len(active) > 1:
        raise ToolError(f"items {', '.join(map(repr, active))} are all active; only one may be")
    for item in items:
        for other in item.blocked_by:
            if other not in by_id:
                raise ToolError(f"{item.id!r} is blocked by {other!r}, which is not in the list")
    left = dict(by_id)
    while free := [i for i in left.values() if not any(b in left for b in i.blocked_by)]:
        for item in free:
            del left[item.id]
    if left:
        raise ToolError(f"items {', '.join(map(repr, left))} block each other in a circle")


async def run(value: TodoInput, ctx: ToolContext) -> Answer:
    """Return the counts and what comes next."""
    check(value.items)
    done = {item.id for item in value.items if item.status == "done"}
    active = next((item for item in value.items if item.status == "active"), None)
    ready = [
        item
        for item in value.items
        if item.status == "pending" and done.issuperset(item.blocked_by)
    ]
    text = f"{len(done)} of {len(value.items)} done"
    if active is not None:
        text += f"; active: {active.text}"
    elif ready:
        text += f"; next: {ready[0].text}"
    counts = {"items": len(value.items), "done": len(done), "active": active and active.id}
    return text_answer(text, **counts)


TODO = Tool("todo", DESCRIPTION, TodoInput, run, concurrent=True, timeout=10.0)
