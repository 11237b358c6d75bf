"""Entries: the events one compaction run logs, and its tokens and dollars before and after.

May not append them, and may not decide what is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from agent_kernel.core.compaction import READ, WRITE, Desk, Edit, View
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionPrune,
    Replace,
    SurfaceEvent,
    ToolResultEvent,
    UserMessage,
)
from agent_kernel.core.messages import Json, ToolUse
from agent_kernel.core.prices import rates
from agent_kernel.core.usage import event_tokens

TAINTS = ("web", "mcp", "notebook", "repo")  # worst first
LARGEST = 8  # sources named in a refill


def source_of(node: SurfaceEvent) -> str:
    """Return what a node is: user, assistant, tool_result, or an attachment's kind."""
    match node:
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case Attachment():
            return node.kind
    return node.type.replace("/", "_")


def by_source(nodes: Iterable[SurfaceEvent], whole: int) -> Json:
    """Return tokens by source; `system` is what the provider counted beyond the nodes."""
    out: dict[str, int] = {}
    for node in nodes:
        name = source_of(node)
        out[name] = out.get(name, 0) + event_tokens(node)
    return {"system": max(0, whole - sum(out.values())), **out}


def refill(nodes: Sequence[SurfaceEvent], since: int) -> Json:
    """Return the tokens that came after seq `since`, by source, and the largest single ones.

    `attachment` is split by kind: memory attached again is not blamed on a file.
    """
    new = [node for node in nodes if node.seq > since]
    out: Json = {"user": 0, "assistant": 0, "tool_result": 0, "attachment": {}}
    calls = {b.id: b for n in nodes if isinstance(n, AssistantMessage) for b in n.content
             if isinstance(b, ToolUse)}  # fmt: skip
    single: dict[str, int] = {}
    for node in new:
        tokens, label = event_tokens(node), _label(node, calls)
        single[label] = single.get(label, 0) + tokens
        where = out["attachment"] if isinstance(node, Attachment) else out
        name = source_of(node)
        where[name] = where.get(name, 0) + tokens
    largest = sorted(single.items(), key=lambda item: (-item[1], item[0]))
    return {**out, "largest": [list(item) for item in largest[:LARGEST]]}


def _label(node: SurfaceEvent, calls: Mapping[str, ToolUse]) -> str:
    """Return what a node's tokens are blamed on: a file, a tool, or an attachment's kind."""
    if isinstance(node, Attachment):
        return f"{node.kind} {node.label}"
    if not isinstance(node, ToolResultEvent):
        return source_of(node)
    call = calls.get(node.id)
    path = node.meta.get("path") or (call.input.get("path") if call else None)
    name = call.name if call else "tool"
    return f"{name} {path}" if isinstance(path, str) else name


def worst_taint(nodes: Iterable[SurfaceEvent]) -> str | None:
    """Return the worst taint of some nodes: what stands for them is as trusted as its worst."""
    found = {getattr(node, "meta", {}).get("taint") for node in nodes}
    return next((taint for taint in TAINTS if taint in found), None)


def prune(name: str, edits: Sequence[Edit], view: View) -> CompactionPrune:
    """Return the row of one layer's edits, by what they hide of the surface before the run."""
    rows = []
    for edit in edits:
        hidden = spanned(view, edit)
        before, after = sum(map(event_tokens, hidden)), event_tokens(edit.payload)
        rows.append({"start": edit.first, "end": hidden[-1].seq, "before": before, "after": after})
    reasons = sorted({edit.reason for edit in edits})
    return CompactionPrune(
        compaction_id=view.compaction_id,
        layer=name,
        edits=tuple(rows),
        freed=sum(row["before"] - row["after"] for row in rows),
        first_offset=min(edit.offset for edit in edits),
        reason="; ".join(reasons[:3]),
    )


def spanned(view: View, edit: Edit) -> tuple[SurfaceEvent, ...]:
    """Return the nodes of the surface before the run whose place `edit` takes."""
    seqs = [node.seq for node in view.nodes]
    return view.nodes[seqs.index(edit.first) : seqs.index(edit.last) + 1]


def replacement(
    edit: Edit, layer: str, view: View, start: int, summary: int | None
) -> SurfaceEvent:
    """Return the event that takes a span's place: it cites the start, the summary, what it hides.

    Untrusted text stays untrusted: its taint is the worst of what is hidden.
    """
    hidden = spanned(view, edit)
    meta: Json = {**getattr(edit.payload, "meta", {}), "compaction_id": view.compaction_id}
    meta["layer"] = layer
    if not isinstance(edit.payload, ToolResultEvent):
        meta["taint"] = worst_taint(hidden)
    cited = {start, *(node.seq for node in hidden)}
    if summary is not None and layer == "auto":
        cited.add(summary)
    return edit.payload.model_copy(
        update={
            "seq": -1,
            "time": 0.0,
            "replaces": Replace(first=edit.first, last=hidden[-1].seq),
            "sources": tuple(sorted(cited)),
            "meta": meta,
        }
    )


def cost_of(
    before: View, after: View, edits: Sequence[Edit], desk: Desk, model: str, time: float
) -> Json:
    """Return what a run costs: tokens written again, dollars, and the requests until it pays.

    `warm_rewrite_tokens` were in the cache and are written again; None dollars = no known price.
    """
    whole = sum(event_tokens(node) for node in after.nodes)
    offset = min((edit.offset for edit in edits), default=whole)
    rewrite = max(0, whole - offset)
    fresh = sum(event_tokens(n) for n in after.nodes if n.seq > before.fresh_after)
    warm = 0 if before.cold else max(0, rewrite - fresh)
    out: Json = {"rewrite_tokens": rewrite, "warm_rewrite_tokens": warm, "rewrite_usd": None}
    out |= {"call_usd": desk.usd, "break_even_requests": None}
    found = rates(model, datetime.fromtimestamp(time, UTC).date(), after.tokens) if model else None
    freed = before.tokens - after.tokens
    read, write = (found.cache_read, found.cache_write_5m) if found else (READ, WRITE)
    if read is None or write is None:
        return out
    extra = warm * (write - read)
    if found is not None:
        out["rewrite_usd"] = round(warm * write / 1e6, 6)
        extra += (desk.usd or 0.0) * 1e6
    if freed > 0 and read:
        out["break_even_requests"] = round(extra / (freed * read), 2)
    return out
