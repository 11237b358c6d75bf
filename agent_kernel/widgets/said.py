"""Said: one event in one line of words, and where it stands.

May not show a value whole: it is the first words of what an event holds.
"""

from __future__ import annotations

import agent_kernel.widgets.hidden as hidden
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    Event,
    SurfaceEvent,
    ToolCall,
    ToolResultEvent,
    TurnStart,
)
from agent_kernel.core.messages import Image, Text, Thinking, ToolResult, ToolUse, text_of
from agent_kernel.widgets.calls import argument, short_id

CHARS = 100
_ENVELOPE = frozenset(
    {"type", "seq", "time", "turn", "step", "agent", "sources", "cell", "ignorable", "content"}
)


def place(event: Event) -> str:
    """Return `turn.step`, the turn alone, or a dash."""
    if event.turn is None:
        return "–"
    return f"{event.turn}.{event.step}" if event.step is not None else str(event.turn)


def words(event: Event) -> str:
    """Return what an event says, on one line of at most CHARS characters."""
    line = hidden.one_line(_words(event))
    return line if len(line) <= CHARS else line[: CHARS - 1] + "…"


def _words(event: Event) -> str:
    match event:
        case TurnStart():
            return event.text[: 4 * CHARS]
        case ToolCall():
            return f"{event.name} {argument(event.name, event.input)[0]}"
        case ToolResultEvent():
            mark = "error: " if event.is_error else ""
            return f"{short_id(event.id)} {mark}{text_of(event.content)[: 4 * CHARS]}"
        case Attachment():
            return f"{event.kind} {event.label}"
        case SurfaceEvent():
            return " ".join(block_words(block) for block in event.blocks())
    return ", ".join(
        f"{key} {value}"[: 2 * CHARS]
        for key, value in event
        if key not in _ENVELOPE and value not in (None, "", (), {}, [])
    )


def block_words(block: object) -> str:
    """Return one block of a message in a few words."""
    match block:
        case Text():
            return block.text[: 4 * CHARS]
        case Thinking():
            return f"[thinking, {len(block.thinking):,} characters]"
        case ToolUse():
            return f"[{block.name} {argument(block.name, block.input)[0]}]"
        case ToolResult():
            return (
                f"[result of {short_id(block.tool_use_id)}] {text_of(block.content)[: 4 * CHARS]}"
            )
        case Image():
            return f"[{block.media_type}]"
    kind = getattr(block, "data", {}).get("type", "block")
    return f"[{kind}]"


def kind(event: Event) -> str:
    """Return a surface event's source letter: S T M U A R @ or Σ."""
    if isinstance(event, Attachment):
        return {"memory": "M", "summary": "Σ"}.get(event.kind, "@")
    if isinstance(event, AssistantMessage):
        return "A"
    return "R" if isinstance(event, ToolResultEvent) else "U"
