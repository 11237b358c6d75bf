"""Provenance: where one event, or one block of a request, came from and what became of it.

May not guess: what the log does not say is not shown.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator

from agent_kernel.core.events import (
    Event,
    FileChanged,
    FileObserved,
    RequestContext,
    RequestHeader,
    SurfaceEvent,
    ToolCall,
)
from agent_kernel.core.messages import Block as Part
from agent_kernel.core.messages import ToolResult, dumps
from agent_kernel.core.model import Request
from agent_kernel.core.replay import request_at
from agent_kernel.core.session import Session
from agent_kernel.core.surface import fold
from agent_kernel.widgets import said
from agent_kernel.widgets.doc import Block, Head, Pairs, code, text

_META = (
    "path",
    "lines",
    "url",
    "sha256",
    "taint",
    "truncated",
    "original_bytes",
    "blob",
    "by",
    "exit_code",
)
PATH = re.compile(r"(?:\$\.)?(messages|system|tools)\[(\d+)\](?:\.content\[(\d+)\])?")


def of_path(
    session: Session, where: tuple[int, int | None], path: str, agent: str = "main"
) -> list[Block]:
    """Return what is known of the blocks at `path` of the request `where` (turn, step).

    `path` is `messages[4].content[1]`, `messages[4]`, `system[0]` or `tools[2]`. Raises ValueError
    on another path, KeyError when the request has no such block or the log no such request.
    """
    match = PATH.fullmatch(path)
    if match is None or (match[3] and match[1] != "messages"):
        raise ValueError(f"{path!r} names no block; write messages[4].content[1] or system[0]")
    context, request = request_at(session.events, *where, agent, session.blobs)
    kind, at = match[1], int(match[2])
    found = _seqs(session, context, request)[kind]
    if at >= len(found):
        raise KeyError(f"request {context.turn}.{context.step} has {len(found)} {kind}, no {path}")
    wanted = range(len(found[at])) if match[3] is None else [int(match[3])]
    if wanted and wanted[-1] >= len(found[at]):
        raise KeyError(f"{kind}[{at}] has {len(found[at])} blocks, no {path}")
    label = f"{context.turn}.{context.step} {kind}[{at}]"
    out: list[Block] = []
    for part in wanted:
        name = f"{label}.content[{part}]" if kind == "messages" else label
        out += [Head(text(f"Request {name}")), *provenance(session, found[at][part])]
    return out


def _seqs(
    session: Session, context: RequestContext, request: Request
) -> dict[str, list[list[int]]]:
    """Return the seqs of system texts, tools and each message's blocks."""
    return {
        "messages": origins(session, context, request),
        "system": [[context.header]] * len(request.system),
        "tools": [[context.header]] * len(request.tools),
    }


def origins(session: Session, context: RequestContext, request: Request) -> list[list[int]]:
    """Return, of each block of each message, the seq of the event it came from.

    It is the request's own (`context`) for a compaction's instruction, and for what only the
    recorded bytes of another harness hold.
    """
    surface = fold((e for e in session.events if e.seq < context.seq), context.agent)
    waiting: dict[bytes, deque[int]] = defaultdict(deque)
    for node in surface.nodes[context.left_out :]:
        for part in node.blocks():
            waiting[_name(part)].append(node.seq)

    def seq(part: Part) -> int:
        found = waiting[_name(part)]
        return found.popleft() if found else context.seq

    return [[seq(part) for part in message.content] for message in request.messages]


def _name(part: Part) -> bytes:
    """Return what makes a block itself: a result's call, whose blank parts are not sent."""
    return part.tool_use_id.encode() if isinstance(part, ToolResult) else dumps(part.wire())


def _line(session: Session, seq: int) -> str:
    """Return the log's file and line of an event, "" in memory or when a parent's file has it."""
    path = session.log.path
    if path is None or not path.is_file():
        return ""
    for number, wire in _wires(path.read_text("utf-8", "replace").splitlines()):
        if wire.get("seq") == seq:
            return f"{path.name}:{number}"
    return ""


def _wires(lines: list[str]) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(lines, 1):
        try:
            wire = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(wire, dict):
            yield number, wire


def provenance(session: Session, seq: int) -> list[Block]:
    """Return what is known of the event `seq`. Raises KeyError naming the log's range."""
    event = session.log.get(seq)
    rows = [("event", code(event.type)), ("says", text(said.words(event)))]
    line = _line(session, seq)
    if line:
        rows.append(("kept in", text(line)))
    rows.append(("place", text(f"turn.step {said.place(event)}, agent {event.agent}")))
    for source in event.sources:
        other = session.log.get(source)
        rows.append(("source", text(f"seq {source} {other.type}: {said.words(other)}")))
    call = _call(session, event)
    if call is not None:
        rows.append(("call", text(f"seq {call.seq} {said.words(call)}")))
    meta = getattr(event, "meta", None) or {}
    rows += [(name, text(meta[name])) for name in _META if meta.get(name) not in (None, "", False)]
    if call is not None:
        rows += [("file", text(line)) for line in _files(session, call)]
    rows.append(("now", text(_fate(session, event))))
    return [Head(text(f"Where seq {seq} came from")), Pairs(tuple(rows))]


def _call(session: Session, event: Event) -> ToolCall | None:
    wanted = getattr(event, "id", None) if event.type.startswith("tool/") else None
    if wanted is None:
        return None
    for other in session.events:
        if isinstance(other, ToolCall) and other.id == wanted and other.agent == event.agent:
            return other
    return None


def _files(session: Session, call: ToolCall) -> list[str]:
    out = [
        f"{e.path} {e.before or 'new'} → {e.after or 'removed'}"
        for e in session.events
        if isinstance(e, FileChanged) and e.tool_call == call.id
    ]
    path = call.input.get("path")
    for event in session.events:
        if isinstance(event, FileObserved) and event.seq > call.seq and event.path == path:
            return [*out, f"{event.path} sha256 {event.sha256}"]
    return out


def _fate(session: Session, event: Event) -> str:
    if isinstance(event, RequestHeader):
        return "system text, tools and parameters of the requests up to the next header"
    if isinstance(event, RequestContext):
        return "sent with this request only"
    if not isinstance(event, SurfaceEvent):
        return "never sent: it is no part of the surface"
    surface = session.surface(event.agent)
    if event.seq in surface.seqs:
        return "on the surface: every next request holds it"
    for node in surface.nodes:
        if event.seq in node.sources:
            return f"hidden by seq {node.seq}, which stands for it"
    return "not on the surface any more"
