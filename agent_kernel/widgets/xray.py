"""X-ray: every request of a session and the next one, block by block, and what broke the cache.

May not send or rebuild by itself: requests come from core/replay.py, the next one is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import agent_kernel.widgets.context as context
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.said as said
import agent_kernel.widgets.units as units
from agent_kernel.core.events import (
    AssistantMessage,
    CompactionEnd,
    CompactionStart,
    Event,
    RequestContext,
    RequestHeader,
    SurfaceEvent,
)
from agent_kernel.core.files import Blobs
from agent_kernel.core.messages import Usage
from agent_kernel.core.model import Request
from agent_kernel.core.replay import rebuild
from agent_kernel.core.surface import Surfaces
from agent_kernel.core.usage import cost
from agent_kernel.widgets.request import compare

ROWS = 40
"""Requests shown: the last ones; the rest are counted."""
AROUND = 24
CAUSES = {
    "request/header": "new system text, tools or parameters",
    "compaction/end": "a compaction",
    "compaction/undo": "an undone compaction",
}


class Broken(TypedDict):
    """Where a request leaves its forerunner: the byte, its place in tokens, and the text around."""

    byte: int
    at: int
    where: str
    cause: str
    before: list[str]
    after: list[str]


class Row(TypedDict):
    """One request: `blocks` are (index into `blocks` of the x-ray, tokens, those of them from the
    cache, age in requests or -1, then 1 where a layer would take it)."""

    label: str
    total: int
    counted: bool
    cached: int | None
    dollars: str
    next: bool
    mark: str
    blocks: list[list[int]]
    broken: Broken | None


class Xray(TypedDict):
    """What the widget draws: blocks once each, requests that name them, marks of the window.

    A block is [source letter, words, seq or null, facts]: facts are pairs of a name and a text.
    """

    state: str
    window: int | None
    soft: int | None
    hard: int | None
    left_out: int
    selected: int
    sources: list[list[str]]
    blocks: list[list[Any]]
    rows: list[Row]


@dataclass(frozen=True)
class Next:
    """The request that would be sent now, and which layer would take an event out of it first."""

    request: Request
    nodes: Sequence[SurfaceEvent]
    layer: Mapping[int, str] = field(default_factory=dict)


@dataclass
class _Sent:
    """A request as it was sent, with what came of it."""

    context: RequestContext | None
    request: Request | None  # None = not rebuilt: it is not shown
    nodes: tuple[SurfaceEvent, ...]
    answer: AssistantMessage | None = None
    mark: str = ""
    cause: str = ""


def sent(
    events: Sequence[Event],
    agent: str = "main",
    blobs: Blobs | None = None,
    last: int | None = None,
) -> list[_Sent]:
    """Return the turn requests of an agent with their answers, the `last` of them rebuilt from the
    log (None = all).

    A request of another harness whose bytes are gone is left out.
    """
    mine = [e for e in events if _is_turn(e, agent)]
    shown = {e.seq for e in mine[-last if last else 0 :]}
    surfaces, headers = Surfaces(), dict[int, RequestHeader]()
    out: list[_Sent] = []
    mark = cause = ""
    began: dict[str, int] = {}
    for event in events:
        if isinstance(event, RequestHeader):
            headers[event.seq] = event
        if event.agent == agent:
            if isinstance(event, CompactionStart):
                began[event.compaction_id] = int(event.tokens.get("pre") or 0)
            mark = _mark(event, began) or mark
            cause = f"{CAUSES[event.type]} (seq {event.seq})" if event.type in CAUSES else cause
            if isinstance(event, RequestContext) and _is_turn(event, agent):
                made = _made(event, headers, surfaces, blobs) if event.seq in shown else None
                if made is not None or event.seq not in shown:
                    nodes = tuple(surfaces[agent].nodes)
                    out.append(_Sent(event, made, nodes, mark=mark, cause=cause))
                    mark = cause = ""
            elif isinstance(event, AssistantMessage) and event.replaces is None and out:
                out[-1].answer = out[-1].answer or event
        surfaces.apply(event)
    return out


def _is_turn(event: Event, agent: str) -> bool:
    return isinstance(event, RequestContext) and event.purpose == "turn" and event.agent == agent


def _mark(event: Event, began: Mapping[str, int]) -> str:
    if not isinstance(event, CompactionEnd) or event.status != "committed":
        return ""
    return f"compaction {event.compaction_id} at {units.short(began.get(event.compaction_id, 0))}"


def _made(
    event: RequestContext,
    headers: Mapping[int, RequestHeader],
    surfaces: Surfaces,
    blobs: Blobs | None,
) -> Request | None:
    if event.header not in headers:
        return None
    try:
        return rebuild(event, headers[event.header], surfaces[event.agent], blobs)
    except KeyError:
        return None


class _Table:
    """Blocks, each once: a request names them by their index."""

    def __init__(self) -> None:
        self.blocks: list[list[Any]] = []
        self.known: dict[int, tuple[str, str, int, bool]] = {}
        self._at: dict[tuple[Any, ...], int] = {}

    def index(self, part: context.Part, node: SurfaceEvent | None) -> int:
        key = (part.source, part.what, part.seq)
        if key not in self._at:
            self._at[key] = len(self.blocks)
            facts = _facts(part, node)
            self.blocks.append([part.source, hidden.one_line(part.what), part.seq, facts])
        return self._at[key]


def _facts(part: context.Part, node: SurfaceEvent | None) -> list[list[str]]:
    """Return what is known of a block beside its size: where it came from, what it holds."""
    if node is None:
        return []
    meta: Mapping[str, Any] = getattr(node, "meta", None) or {}
    out = [["Event", f"seq {node.seq}, {said.place(node)}"]]
    came = meta.get("path") or meta.get("url") or meta.get("source")
    if isinstance(came, str):
        out.append(["Source", hidden.one_line(came)])
    if meta.get("truncated"):
        whole = meta.get("original_bytes")
        size = f" of {whole:,} bytes" if isinstance(whole, int) else ""
        out.append(["Size", f"cut{size}; the rest is in a blob"])
    out.append(["Data values", "yes, of this kernel" if part.values else "none"])
    if node.sources:
        out.append(["Made from", "seq " + ", ".join(map(str, node.sources[:8]))])
    return out


def state(
    events: Sequence[Event],
    *,
    following: Next | None = None,
    window: int | None = None,
    soft: int | None = None,
    hard: int | None = None,
    blobs: Blobs | None = None,
    agent: str = "main",
) -> Xray:
    """Return the x-ray of a session: its last requests in order and, last, the one that follows.

    Tokens of a request that was answered sum to the provider's own count; others are estimates.
    """
    found = sent(events, agent, blobs, ROWS + 1)
    if following is not None:
        found.append(_Sent(None, following.request, tuple(following.nodes)))
    table, rows = _Table(), list[Row]()
    seen: dict[int, int] = {}
    for at, each in enumerate(found):
        for node in each.nodes:
            seen.setdefault(node.seq, at)
        if at >= len(found) - ROWS:
            layer = following.layer if following is not None else {}
            before = found[at - 1] if at else None
            rows.append(_row(each, before, table, at, seen, layer))
    return {
        "state": f"context, {units.count(len(rows), 'request')}",
        "window": window,
        "soft": soft,
        "hard": hard,
        "left_out": max(0, len(found) - ROWS),
        "selected": max(0, len(rows) - 1),
        "sources": [[letter, name] for letter, name in context.SOURCES.items()],
        "blocks": table.blocks,
        "rows": rows,
    }


def _row(
    each: _Sent,
    before: _Sent | None,
    table: _Table,
    at: int,
    seen: Mapping[int, int],
    layer: Mapping[int, str],
) -> Row:
    assert each.request is not None
    usage = each.answer.usage if each.answer is not None else None
    total = _given(usage)
    parts = context.parts_of(
        each.request,
        each.nodes,
        total=total,
        cached=(usage.cache_read or 0) if usage is not None else 0,
        age=lambda seq: at - seen[seq],
        layer=(lambda seq: layer.get(seq, "")) if each.context is None else None,
        known=table.known,
    )
    nodes = {node.seq: node for node in each.nodes}
    blocks: list[list[int]] = []
    start, warm = 0, (usage.cache_read or 0) if usage is not None else 0
    for part in parts:
        held = max(0, min(part.tokens, warm - start))
        index = table.index(part, nodes.get(part.seq if part.seq is not None else -1))
        blocks.append([index, part.tokens, held, part.age if part.age is not None else -1])
        start += part.tokens
    for line, part in zip(blocks, parts, strict=True):
        if part.layer:
            line.append(_layers(table, line[0], part.layer))
    return {
        "label": "next" if each.context is None else said.place(each.context),
        "total": sum(part.tokens for part in parts),
        "counted": total is not None,
        "cached": usage.cache_read if usage is not None else None,
        "dollars": _price(each, usage),
        "next": each.context is None,
        "mark": each.mark,
        "blocks": blocks,
        "broken": _broken(before, each, sum(part.tokens for part in parts)),
    }


def _layers(table: _Table, index: int, layer: str) -> int:
    """Note on a block which layer would take it; return 1, the flag of its line."""
    facts: list[list[str]] = table.blocks[index][3]
    if not any(name == "Later" for name, _value in facts):
        facts.append(["Later", f"would go by {layer}, recall by its seq"])
        table.blocks[index].append(layer)
    return 1


def _given(usage: Usage | None) -> int | None:
    """Return the input tokens a provider counted, None where it said nothing."""
    if usage is None:
        return None
    counts = (usage.input, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h)
    total = sum(count or 0 for count in counts)
    return total if usage.input is not None and total > 0 else None


def _price(each: _Sent, usage: Usage | None) -> str:
    """Return what the tokens that were not cached cost, "" where no price is known."""
    if usage is None or each.answer is None:
        return ""
    fresh = Usage(usage.input, 0, 0, usage.cache_write_5m, usage.cache_write_1h)
    usd = cost(each.answer.model, fresh)
    return units.dollars(usd) if usd is not None else ""


def _broken(before: _Sent | None, each: _Sent, total: int) -> Broken | None:
    if before is None or before.request is None or each.request is None:
        return None
    found = compare(before.request, each.request)
    if found.byte is None:
        return None
    where = found.layer if found.message is None else f"messages, message {found.message}"
    size = len(each.request.prefix) or 1
    return {
        "byte": found.byte,
        "at": round(total * found.byte / size),
        "where": where,
        "cause": each.cause or "other content in the same place",
        "before": _around(before.request.prefix, found.byte),
        "after": _around(each.request.prefix, found.byte),
    }


def _around(body: bytes, at: int) -> list[str]:
    """Return the text before and after a byte."""
    pieces = (body[max(0, at - AROUND) : at], body[at : at + AROUND])
    return [hidden.one_line(piece.decode("utf-8", "replace")) for piece in pieces]
