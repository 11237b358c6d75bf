"""Gather: one pass over a turn's events into what its view is made from.

May not render and may not look past the events: what is only streaming comes in as Live.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import agent_kernel.widgets.calls as calls
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.units as units
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionEnd,
    CompactionStart,
    Event,
    FileChanged,
    PermissionMode,
    StreamRetry,
    TaskCreated,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolProgress,
    ToolResultEvent,
    ToolStart,
    TurnEnd,
    UserMessage,
)
from agent_kernel.core.messages import Block, Raw, Text, Thinking, ToolUse, text_of
from agent_kernel.core.usage import estimate
from agent_kernel.widgets.turnview import Item, Line, Live


@dataclass(slots=True)
class Folding:
    """What one pass over the events gathers; `order` holds items and, as strings, ids of calls."""

    agent: str
    over: bool = False
    end: TurnEnd | None = None
    mode: str = "ask"
    order: list[Item | str] = field(default_factory=list)
    calls: dict[str, calls.Call] = field(default_factory=dict)
    retry: StreamRetry | None = None
    compacting: bool = False
    before: dict[str, int] = field(default_factory=dict)
    prompted: bool = False
    answer: str = ""


def take(state: Folding, event: Event) -> None:
    """Take in one event of the turn's own agent."""
    if not isinstance(event, StreamRetry | Attachment):
        state.retry = None
    match event:
        case AssistantMessage():
            _said(state, event)
        case ToolCall():
            state.calls[event.id] = calls.Call(event)
        case ToolAsk() | ToolDecision() | ToolStart() | ToolProgress() | ToolResultEvent():
            _of_call(state, event)
        case FileChanged(tool_call=str(call)) if call in state.calls:
            state.calls[call].changed.append(event)
        case TaskCreated(tool_use_id=str(call)) if call in state.calls:
            state.calls[call].task = event
        case _:
            _of_turn(state, event)


def _of_turn(state: Folding, event: Event) -> None:
    match event:
        case TurnEnd():
            state.over, state.end = True, event
        case PermissionMode():
            state.mode = event.mode
        case StreamRetry():
            state.retry = event
        case UserMessage():
            if state.prompted:
                state.order.append(_note(event, "you", [["t", _first_line(event)]]))
            state.prompted = True
        case Attachment(kind="notification"):
            state.order.append(_note(event, "notification", [["t", _first_line(event)]]))
        case CompactionStart():
            state.compacting = True
            state.before[event.compaction_id] = int(event.tokens.get("pre") or 0)
        case CompactionEnd():
            state.compacting = False
            if event.status != "skipped":
                state.order.append(_compaction(state, event))


def _of_call(
    state: Folding, event: ToolAsk | ToolDecision | ToolStart | ToolProgress | ToolResultEvent
) -> None:
    call = state.calls.get(event.id)
    if call is None:
        return
    match event:
        case ToolAsk():
            call.ask, call.decision = event, None
        case ToolDecision():
            call.decision = event
        case ToolStart():
            call.start = event
        case ToolProgress():
            call.progress.append(event)
        case ToolResultEvent() if call.result is None:
            call.result = event


def _said(state: Folding, event: AssistantMessage) -> None:
    for at, block in enumerate(event.content):
        key = f"{event.seq}.{at}"
        text = hidden.output(_text(block))
        if isinstance(block, ToolUse):
            state.order.append(block.id)
            state.answer = ""
        elif isinstance(block, Thinking) and block.thinking.strip():
            state.order.append(_thinking(key, block.thinking, event.meta.get("thinking_seconds")))
        elif text.strip():
            state.order.append({"kind": "text", "key": key, "md": text, "streaming": False})
            state.answer = text


def _text(block: Block) -> str:
    if isinstance(block, Text):
        return block.text
    return text_of((block,)) if isinstance(block, Raw) else ""


def _thinking(key: str, text: str, seconds: object = None) -> Item:
    tokens = "~" + units.count(max(1, estimate(len(text))), "token")
    return {
        "kind": "thinking",
        "key": key,
        "glyph": "think",
        "word": "Thinking",
        "seconds": float(seconds) if isinstance(seconds, int | float) else None,
        "ticking": False,
        "size": tokens,
        "open": False,
        "body": {"text": hidden.output(text)},
    }


def _note(event: Event, word: str, line: Line) -> Item:
    return {"kind": "note", "key": f"n{event.seq}", "glyph": "none", "word": word, "line": line}


def _first_line(event: UserMessage | Attachment) -> str:
    label = event.label if isinstance(event, Attachment) else ""
    text = hidden.one_line(label or text_of(event.content))
    return text if len(text) <= calls.ROW_CHARS else text[: calls.ROW_CHARS] + "…"


def _compaction(state: Folding, event: CompactionEnd) -> Item:
    before, after = state.before.get(event.compaction_id, 0), event.tokens.get("post")
    if event.status == "failed":
        text = hidden.one_line(str((event.error or {}).get("text") or "no reason given"))
        words = f"{event.compaction_id} failed: {text}"
    elif isinstance(after, int):
        sizes = f"{units.short(before)} to {units.short(after)} tokens"
        words = f"{event.compaction_id}: {sizes}; nothing above is gone from the log"
    else:
        words = f"{event.compaction_id} committed"
    return _note(event, "compaction", [["t", words]])


def stream(state: Folding, live: Live) -> None:
    """Add what the running stream said so far."""
    if live.thinking.strip():
        state.order.append(_thinking("live.thinking", live.thinking) | {"ticking": False})
    if live.text.strip():
        state.order.append(
            {"kind": "text", "key": "live", "md": hidden.output(live.text), "streaming": True}
        )
        state.answer = hidden.output(live.text)
    if live.writing:
        item: Item = {
            "kind": "call",
            "key": "live.call",
            "glyph": "run",
            "word": "being written",
            "name": hidden.one_line(live.writing),
            "arg": "",
            "cut": "end",
            "seconds": None,
            "ticking": False,
            "size": "being written",
            "open": False,
            "body": {},
        }
        state.order.append(item)
