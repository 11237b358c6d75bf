"""Recall history: events of this session word for word, also those a compaction hid.

May not summarise, and may not return what redaction or a permission rule withheld.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from pydantic import Field

from agent_kernel.core.events import Event
from agent_kernel.core.messages import Block, Json, Text
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError
from agent_kernel.tools.recall import Book, Wanted, hidden_by, known_kinds, span, text_of_event

CHARS_PER_TOKEN = 4
DIMENSIONS = (
    *("turn", "step", "seq", "tool_use_id", "path"),
    *("compaction_id", "kind", "contains"),
)

DESCRIPTION = (
    "Get back earlier events of this session word for word, also hidden ones (markers name the "
    "seq). Give at least one of turn, step, seq (`412` or `388-389`), tool_use_id, path, "
    "compaction_id, kind (event type, or `constraint`), contains (exact text); all must fit. "
    "`cursor` goes on where an answer stopped."
)


class RecallInput(Input):
    """Input of `recall_history`."""

    turn: int | None = None
    step: int | None = None
    seq: int | str | None = None
    tool_use_id: str | None = None
    path: str | None = None
    compaction_id: str | None = None
    kind: str | None = None
    contains: str | None = None
    limit: int = Field(20, ge=1, le=200)
    cursor: str | None = None
    max_tokens: int = Field(4000, ge=100, le=20_000)
    transitive: bool = False


def _kind_seqs(kind: str | None, ctx: ToolContext) -> frozenset[int] | None:
    """The seqs of a fact kind, None for an event type. Raises ToolError on an unknown kind."""
    if kind is None or kind in known_kinds():
        return None
    facts: dict[str, Callable[[Any, str], Collection[int]]] = dict(ctx.services.get("facts", {}))
    if kind in facts:
        return frozenset(facts[kind](ctx.session, ctx.agent))
    raise ToolError(
        f"no kind {kind!r}; the kinds are: {', '.join((*sorted(facts), *known_kinds()))}"
    )


def wanted_of(value: RecallInput, ctx: ToolContext) -> Wanted:
    """Return what is asked for. Raises ToolError on a bad range, an unknown kind or compaction."""
    if all(getattr(value, name) is None for name in DIMENSIONS):
        raise ToolError(f"give at least one of {', '.join(DIMENSIONS)}")
    try:
        seqs = None if value.seq is None else span(str(value.seq))
        hidden = None
        if value.compaction_id is not None:
            hidden = hidden_by(ctx.session, value.compaction_id, value.transitive)
    except ValueError as error:
        raise ToolError(str(error)) from None
    except KeyError:
        ids = sorted({i for e in ctx.session.events if (i := getattr(e, "compaction_id", None))})
        raise ToolError(
            f"no compaction {value.compaction_id!r}; there are: {', '.join(ids) or 'none'}"
        ) from None
    return Wanted(
        value.turn,
        value.step,
        seqs,
        value.tool_use_id,
        value.path,
        hidden,
        value.kind,
        _kind_seqs(value.kind, ctx),
        value.contains,
    )


def matching(
    book: Book, wanted: Wanted, may_read: Callable[[str], bool]
) -> tuple[list[Event], int]:
    """Return the events that fit, in order, and how many were looked at (H2, H7)."""
    found, scanned = list[Event](), 0
    for event in book.candidates(wanted):
        scanned += 1
        if book.fits(event, wanted):
            path = book.path(event)
            if path is None or may_read(path):
                found.append(event)
    return found, scanned


def _cursor(text: str | None) -> tuple[int, int]:
    if text is None:
        return -1, 0
    seq, _, offset = text.partition(":")
    if not seq.isdigit() or not offset.isdigit():
        raise ToolError(f"cursor {text!r} is none that an answer gave; leave it out to begin anew")
    return int(seq), int(offset)


def page(
    book: Book, found: list[Event], value: RecallInput
) -> tuple[list[Block], list[int], str | None]:
    """Return one text block an event, their seqs, and the cursor of what is left."""
    seq, offset = _cursor(value.cursor)
    left = value.max_tokens * CHARS_PER_TOKEN
    blocks, seqs = list[Block](), list[int]()
    for event in found:
        if event.seq < seq:
            continue
        if len(blocks) == value.limit or left <= 0:
            return blocks, seqs, f"{event.seq}:0"
        text = text_of_event(book.session, event)
        begin = offset if event.seq == seq else 0
        piece = text[begin : begin + left]
        blocks.append(Text(f"{book.head(event)}\n{piece}"))
        seqs.append(event.seq)
        left -= len(piece)
        if begin + len(piece) < len(text):
            return blocks, seqs, f"{event.seq}:{begin + len(piece)}"
    return blocks, seqs, None


def nearest(book: Book, value: RecallInput, ctx: ToolContext) -> str:
    """Return which single dimension would match something, in words."""
    for name in ("seq", "tool_use_id", "path", "contains", "kind", "turn", "step"):
        given = getattr(value, name)
        if given is None:
            continue
        found, _ = matching(book, wanted_of(RecallInput(**{name: given}), ctx), lambda _path: True)
        if found:
            return f"{name}={given!r} alone fits {len(found)} events, first seq {found[0].seq}"
    last = ctx.session.events[-1].seq if ctx.session.events else -1
    return f"none of these fits anything; the log ends at seq {last}"


def _run(value: RecallInput, ctx: ToolContext) -> Answer:
    book = Book(ctx.session, ctx.agent)
    may_read: Callable[[str], bool] = ctx.services.get("may_read", lambda _path: True)
    found, scanned = matching(book, wanted_of(value, ctx), may_read)
    blocks, seqs, cursor = page(book, found, value)
    meta: Json = {"recalled": seqs, "scanned": scanned, "matched": len(found)}
    meta |= {"truncated": cursor is not None, "next_cursor": cursor}
    if not found:
        return Answer((Text(f"nothing matched: {nearest(book, value, ctx)}"),), meta)
    taints = {e.meta.get("taint") for e in found if e.seq in set(seqs) and hasattr(e, "meta")}
    if worst := next((t for t in ("web", "mcp", "notebook", "repo") if t in taints), None):
        meta["taint"] = worst
    if cursor is not None:
        blocks.append(Text(f"[{len(found)} events match; cursor={cursor!r} goes on]"))
    return Answer(tuple(blocks), meta)


async def run(value: RecallInput, ctx: ToolContext) -> Answer:
    """Return the events asked for, one text block each."""
    return await asyncio.to_thread(_run, value, ctx)


RECALL_HISTORY = Tool(
    "recall_history",
    DESCRIPTION,
    RecallInput,
    run,
    concurrent=True,
    read_only=True,
    timeout=60.0,
    spill=False,
)
