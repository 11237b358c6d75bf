"""Compaction: the card of one compaction: before and after, what was hidden, what it cost.

May not undo or recall: it names the commands that do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import agent_kernel.widgets.context as context
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.said as said
import agent_kernel.widgets.units as units
from agent_kernel.core.events import (
    Attachment,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    CompactionUndo,
    Event,
    RequestHeader,
)
from agent_kernel.core.messages import dumps, text_of
from agent_kernel.core.surface import fold
from agent_kernel.core.usage import estimate, event_tokens
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

LARGEST = 3
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
        asked = any(isinstance(event, CompactionSummary) for event in own)
        parts = [f"summary call {_usd(call)}"] if asked else []
        parts.append(f"rewriting{size} {_usd(rewrite)}")
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


# ---- the widget's state ----------------------------------------------------------------------


def state(
    events: Sequence[Event], compaction_id: str | None = None, *, live: bool = True
) -> dict[str, Any]:
    """Return what the widget draws of one compaction, the last one unless named.

    `rows` are (letter, source, tokens before, after, events hidden); their sums are the tokens the
    compaction's own events say. Raises KeyError naming the compactions there are.
    """
    known = ids(events)
    wanted = compaction_id or (known[-1] if known else "")
    if wanted not in known:
        raise KeyError(f"no compaction {wanted!r}; the log holds {', '.join(known) or 'none'}")
    own = [event for event in events if _belongs(event, wanted)]
    start = next(event for event in own if isinstance(event, CompactionStart))
    end = next((event for event in own if isinstance(event, CompactionEnd)), None)
    undone = any(isinstance(event, CompactionUndo) for event in own)
    done = end is not None and end.status == "committed"
    before, after = start.tokens.get("pre"), end.tokens.get("post") if end is not None else None
    rows, folds = sources(events, start, end) if done else ([], [])
    commands = [f"%agent undo compaction {wanted}", f'%agent recall {wanted} contains="TEXT"']
    return {
        "state": "compaction",
        "id": wanted,
        "live": live and done and not undone,
        "undone": undone,
        "glyph": "ok" if done else "err" if end is not None and end.status == "failed" else "off",
        "word": end.status if end is not None else "not ended",
        "title": _title(start, end),
        "note": _note(start),
        "before": before if isinstance(before, int) else sum(row[2] for row in rows),
        "after": after if isinstance(after, int) else sum(row[3] for row in rows),
        "rows": rows,
        "pairs": [list(pair) for pair in (*_hidden(own), *_cost(own, end), *_dropped(end))],
        "folds": [*folds, *_read(own)],
        "commands": commands if done else ["%agent compact", "%agent context"],
    }


def sources(
    events: Sequence[Event], start: CompactionStart, end: CompactionEnd | None
) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """Return tokens by source before and after, and the hidden events, the largest first."""
    until = end.seq if end is not None else start.seq
    pre, post = start.tokens.get("pre"), end.tokens.get("post") if end is not None else None
    was = _parts([event for event in events if event.seq < start.seq], start.agent, pre)
    now = _parts([event for event in events if event.seq <= until], start.agent, None)
    fixed = [part for part in was if part.seq is None]
    rest = [part for part in now if part.seq is not None]
    left_for = max(0, post - sum(p.tokens for p in fixed)) if isinstance(post, int) else None
    now = [*fixed, *context.scaled(rest, left_for)]  # system and tools are what they were
    left = {part.seq for part in now}
    gone = [part for part in was if part.seq is not None and part.seq not in left]
    rows = [
        [letter, name, _sum(was, letter), _sum(now, letter), sum(p.source == letter for p in gone)]
        for letter, name in context.SOURCES.items()
        if any(part.source == letter for part in (*was, *now))
    ]
    largest = sorted(gone, key=lambda part: -part.tokens)
    shown = [[part.what, str(part.seq), f"{part.tokens:,}"] for part in largest[:LARGEST]]
    if len(largest) > LARGEST:
        rest = largest[LARGEST:]
        shown.append([f"{len(rest):,} more", "", f"{sum(part.tokens for part in rest):,}"])
    meta = units.count(len(gone), "event")
    return rows, [{"title": "Hidden, largest first", "meta": meta, "rows": shown, "line": []}]


def _parts(events: Sequence[Event], agent: str, total: object) -> list[context.Part]:
    """Return the blocks the model saw after `events`, scaled to the tokens that were counted."""
    header = next((e for e in reversed(events) if isinstance(e, RequestHeader)), None)
    made = [context.Part(said.kind(n), said.words(n), event_tokens(n), n.seq)
            for n in fold(events, agent).nodes]  # fmt: skip
    if header is not None:
        tools = estimate(sum(len(dumps(tool)) for tool in header.tools))
        system = estimate(sum(len(part["text"]) for part in header.system))
        made += [context.Part("T", "tools", tools), context.Part("S", "system", system)]
    return context.scaled(made, total if isinstance(total, int) else None)


def _sum(parts: Sequence[context.Part], letter: str) -> int:
    return sum(part.tokens for part in parts if part.source == letter)


def _read(own: Sequence[Event]) -> list[dict[str, Any]]:
    """Return what the model reads now, and the summary it wrote, as folds of exact text."""
    out: list[dict[str, Any]] = []
    for event in own:
        if isinstance(event, Attachment):
            line = hidden.spans(text_of(event.content)[:20_000])
            title = f"What the model now reads: {hidden.one_line(event.label)}"
            out.append({"title": title, "meta": "", "rows": None, "line": line})
        elif isinstance(event, CompactionSummary) and event.text:
            size = units.count(event.usage.output or 0, "token")
            line = hidden.spans(event.text[:20_000])
            out.append(
                {"title": "Summary the model wrote", "meta": size, "rows": None, "line": line}
            )
    return out
