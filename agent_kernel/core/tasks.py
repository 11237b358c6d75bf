"""Tasks: background work that outlives its call, and the inbox its end waits in.

May not run anything: what starts and stops processes and agents is handed in by the roof.
"""

from __future__ import annotations

from html import escape

from agent_kernel.core.events import (
    Attachment,
    Event,
    InboxQueued,
    SurfaceEvent,
    TaskCreated,
    TaskFinished,
    TaskLost,
    UserMessage,
)
from agent_kernel.core.messages import blocks_of
from agent_kernel.core.session import Session

RESULT_CHARS = 10_000
NOTICE = (
    "Runtime notice, not a message from the person. "
    "If the person has written too, answer the person first."
)


def inbox_event(item: Event, session: Session) -> SurfaceEvent:
    """Return the surface event that takes an inbox item: a person's words, or a notification."""
    if isinstance(item, InboxQueued):
        return UserMessage(content=blocks_of(str(item.item.get("text", ""))), sources=(item.seq,))
    assert isinstance(item, (TaskFinished, TaskLost))
    text = notification(item, created(session, item.id))
    label = f"task {item.id}"
    return Attachment(
        kind="notification", label=label, content=blocks_of(text), sources=(item.seq,)
    )


def created(session: Session, task_id: str) -> TaskCreated | None:
    """Return the task/created event of a task."""
    for event in reversed(session.events):
        if isinstance(event, TaskCreated) and event.id == task_id:
            return event
    return None


def notification(end: TaskFinished | TaskLost, made: TaskCreated | None) -> str:
    """Return the notice of a task's end in the form of features.md F6.3, values XML-escaped."""
    lost = isinstance(end, TaskLost)
    status = "lost" if isinstance(end, TaskLost) else end.status
    result = "" if isinstance(end, TaskLost) else end.result
    if len(result) > RESULT_CHARS:
        result = result[:RESULT_CHARS] + "\n[rest in output-file]"
    label = made.label if made else end.id
    summary = end.summary or f"{label} {'was lost with the kernel' if lost else status}"
    fields = {
        "task-id": end.id,
        "tool_use_id": (made.tool_use_id if made else None) or "",
        "output-file": (made.output if made else None) or "",
        "status": status,
        "summary": summary,
        "result": result,
    }
    lines = [f"<{name}>{escape(value, quote=False)}</{name}>" for name, value in fields.items()]
    return "\n".join([NOTICE, "<task-notification>", *lines, "</task-notification>"])
