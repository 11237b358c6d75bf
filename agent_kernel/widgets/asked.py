"""Asked: what waits for the person in the events of agents: calls, questions, words not yet read.

May not answer anything: the kernel hands in who can, by a nonce each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.markdown as markdown
from agent_kernel.core.events import (
    Event,
    InboxClaimed,
    InboxDropped,
    InboxQueued,
    SurfaceEvent,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolResultEvent,
    ToolStart,
)
from agent_kernel.widgets.calls import Call, short_id
from agent_kernel.widgets.turnview import Ask, Asked, Queued

YES_PLAN = "Approve the plan"


def of_others(events: Iterable[Event], agent: str | None) -> list[Call]:
    """Return the calls of all agents but `agent` that are open, in the order they were made."""
    found: dict[str, Call] = {}
    for event in events:
        if event.agent == agent:
            continue
        match event:
            case ToolCall():
                found[event.id] = Call(event)
            case ToolAsk() if event.id in found:
                found[event.id].ask, found[event.id].decision = event, None
            case ToolDecision() if event.id in found:
                found[event.id].decision = event
            case ToolStart() if event.id in found:
                found[event.id].start = event
            case ToolResultEvent():
                found.pop(event.id, None)
    return list(found.values())


def questions(calls: Iterable[Call], asks: Mapping[str, Ask], *, live: bool) -> list[Asked]:
    """Return the questions of running `ask` calls; without an entry in `asks` none can be
    answered here."""
    return [
        _question(call, asks.get(call.call.id), live)
        for call in calls
        if call.call.name == "ask" and call.start is not None and call.result is None
    ]


def _question(call: Call, ask: Ask | None, live: bool) -> Asked:
    given, short = call.input, short_id(call.call.id)
    plan = given.get("kind") == "plan"
    text = hidden.output(str(given.get("question") or ""))
    options = given.get("options")
    names = [hidden.one_line(str(each)) for each in options] if isinstance(options, list) else []
    if plan and not names:
        names = [YES_PLAN]
    title = "Approve this plan?" if plan else "The model asks you"
    out: Asked = {
        "id": call.call.id,
        "short": short,
        "nonce": ask.nonce if ask is not None and live else "",
        "kind": "plan" if plan else "question",
        "glyph": "ask" if live else "off",
        "word": "waiting for you" if live else "inactive",
        "title": title if live else f"Was waiting: {title}",
        "md": text,
        "blocks": markdown.blocks(text),
        "options": names,
        "multiple": bool(given.get("multiple")) and not plan,
        "commands": [f'%agent answer {short} "text"'],
        "answered": not live,
    }
    return out


def own(ident: str, nonce: str, text: str, options: Sequence[str], *, multiple: bool) -> Asked:
    """Return a question of the kernel itself, no call of the model."""
    shown = hidden.output(text)
    return {
        "id": ident,
        "short": short_id(ident),
        "nonce": nonce,
        "kind": "question",
        "glyph": "ask",
        "word": "waiting for you",
        "title": "One question",
        "md": shown,
        "blocks": markdown.blocks(shown),
        "options": [hidden.one_line(option) for option in options],
        "multiple": multiple,
        "commands": [f'%agent answer {short_id(ident)} "text"'],
        "answered": False,
    }


def queued(events: Sequence[Event], agent: str = "main") -> list[Queued]:
    """Return the person's words that no request of `agent` has read yet, as they were queued."""
    waiting: dict[int, Queued] = {}
    for event in events:
        if event.agent != agent:
            continue
        if isinstance(event, InboxQueued) and event.item.get("kind") is None:
            text = hidden.one_line(str(event.item.get("text") or ""))
            waiting[event.seq] = {"seq": event.seq, "text": text}
        elif isinstance(event, InboxClaimed | InboxDropped):
            waiting.pop(event.item, None)
        elif isinstance(event, SurfaceEvent):
            for seq in event.sources:
                waiting.pop(seq, None)
    return list(waiting.values())
