"""Compaction: the card of one compaction: before and after, what was hidden, what it cost.

May not undo or recall: it names the commands that do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.units as units
from agent_kernel.core.events import (
    Attachment,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    CompactionUndo,
    Event,
)
from agent_kernel.core.messages import text_of
from agent_kernel.widgets.doc import (
    Block,
    Commands,
    Fold,
    Head,
    Pairs,
    Para,
    Pre,
    Prose,
    Table,
    number,
    text,
)
from agent_kernel.widgets.turnview import Line

_WHY = {
    "soft": "over the soft mark",
    "hard": "over the hard mark",
    "overflow": "the provider said the prompt was too long",
    "cold": "the cache had gone cold",
    "manual": "asked for by you",
}


def ids(events: Sequence[Event]) -> list[str]:
    """Return the ids of a log's compactions in order."""
    return [event.compaction_id for event in events if isinstance(event, CompactionStart)]


def view(events: Sequence[Event], compaction_id: str | None = None) -> list[Block]:
    """Return the card of one compaction of a log, the last one unless named.

    Raises KeyError naming the compactions there are when `compaction_id` is none of them.
    """
    known = ids(events)
    if not known:
        return [Head(text("No compaction yet")), Commands(("%agent compact --dry-run",))]
    wanted = compaction_id or known[-1]
    if wanted not in known:
        raise KeyError(f"no compaction {wanted!r}; the log holds {', '.join(known)}")
    own = [event for event in events if _belongs(event, wanted)]
    start = next(event for event in own if isinstance(event, CompactionStart))
    end = next((event for event in own if isinstance(event, CompactionEnd)), None)
    out: list[Block] = [Head(text(_title(start, end)), _note(start))]
    if any(isinstance(event, CompactionUndo) for event in own):
        out.append(Para(text("Undone later: what it hid is seen by the model again.")))
    out += _layers(own)
    pairs = [*_hidden(own), *_cost(own, end), *_dropped(end)]
    if pairs:
        out.append(Pairs(pairs))
    out += _now_read(own)
    commands = [f"%agent undo compaction {wanted}", f'%agent recall {wanted} contains="TEXT"']
    committed = end is not None and end.status == "committed"
    return [*out, Commands(commands if committed else ["%agent compact", "%agent context"])]


def _belongs(event: Event, wanted: str) -> bool:
    own = getattr(event, "compaction_id", None)
    if isinstance(event, Attachment):
        own = event.meta.get("compaction_id")
    return bool(own == wanted)


def _title(start: CompactionStart, end: CompactionEnd | None) -> str:
    name, before = f"Compaction {start.compaction_id}", start.tokens.get("pre")
    if end is None:
        return f"{name}: begun, not ended"
    if end.status == "failed":
        error = end.error or {}
        why = hidden.one_line(str(error.get("text") or error.get("code") or "no reason given"))
        return f"{name} failed: {why}; nothing was changed"
    if end.status == "skipped":
        return f"{name} skipped: nothing was worth an edit"
    after = end.tokens.get("post")
    if isinstance(before, int) and isinstance(after, int):
        return f"{name}: {units.short(before)} to {units.short(after)} tokens"
    return f"{name}: committed"


def _note(start: CompactionStart) -> str:
    mark = start.tokens.get(start.trigger)
    of = f" of {units.short(mark)}" if isinstance(mark, int) else ""
    return f"{_WHY[start.trigger]}{of}"


def _layers(own: Sequence[Event]) -> list[Block]:
    prunes = [event for event in own if isinstance(event, CompactionPrune)]
    if not prunes:
        return []
    rows = []
    for event in prunes:
        before = sum(int(edit.get("before") or 0) for edit in event.edits)
        after = sum(int(edit.get("after") or 0) for edit in event.edits)
        cells = (text(event.layer), number(len(event.edits)), number(before), number(after))
        rows.append((*cells, text(units.signed(-event.freed)), text(event.reason)))
    freed = sum(event.freed for event in prunes)
    edits = number(sum(len(event.edits) for event in prunes))
    total = (text("all"), edits, text(""), text(""), text(units.signed(-freed)), text(""))
    return [Table(("layer", "edits", "before", "after", "change", "why"), rows, total)]


def _hidden(own: Sequence[Event]) -> list[tuple[str, Line]]:
    spans = [
        (int(edit["start"]), int(edit["end"]))
        for event in own
        if isinstance(event, CompactionPrune)
        for edit in event.edits
        if "start" in edit and "end" in edit
    ]
    summary = next((event for event in own if isinstance(event, CompactionSummary)), None)
    if not spans:
        return []
    count = f"{units.count(len(summary.hidden), 'event')}, " if summary is not None else ""
    first, last = min(a for a, _ in spans), max(b for _, b in spans)
    words = f"{count}seq {first} to {last}. All kept in the log, each can be recalled."
    return [("Hidden", text(words))]


def _cost(own: Sequence[Event], end: CompactionEnd | None) -> list[tuple[str, Line]]:
    cost: dict[str, Any] = end.cost if end is not None else {}
    out: list[tuple[str, Line]] = []
    call, rewrite = cost.get("call_usd"), cost.get("rewrite_usd")
    if call is not None or rewrite is not None:
        tokens = cost.get("rewrite_tokens")
        size = f" {tokens:,} cached tokens" if isinstance(tokens, int) else ""
        parts = [f"summary call {_usd(call)}", f"rewriting{size} {_usd(rewrite)}"]
        out.append(("Cost", text(", ".join(parts))))
    elif any(isinstance(event, CompactionSummary) for event in own):
        out.append(("Cost", text("price unknown")))
    even = cost.get("break_even_requests")
    if isinstance(even, int | float):
        out.append(("Break-even", text(f"after {even:.1f} requests")))
    return out


def _usd(value: object) -> str:
    return units.dollars(float(value)) if isinstance(value, int | float) else "price unknown"


def _dropped(end: CompactionEnd | None) -> list[tuple[str, Line]]:
    lost = end.dropped if end is not None else {}
    if not lost:
        return []
    words = ", ".join(f"{value} {hidden.one_line(str(key))}" for key, value in lost.items())
    return [("Left out", text(words))]


def _now_read(own: Sequence[Event]) -> list[Block]:
    out: list[Block] = []
    for event in own:
        if isinstance(event, Attachment):
            read = Pre(hidden.spans(text_of(event.content)[:20_000]))
            out.append(Fold(text(f"What the model now reads: {event.label}"), (read,)))
        elif isinstance(event, CompactionSummary) and event.text:
            size = units.count(event.usage.output or 0, "token")
            body = Prose(hidden.output(event.text))
            out.append(Fold(text(f"Summary the model wrote, {size}"), (body,)))
    return out
