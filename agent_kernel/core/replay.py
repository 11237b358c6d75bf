"""Replay: any past request rebuilt from the log alone, and the proof that its bytes are those sent.

May not read anything but the log, and never runs a tool.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_kernel.core.bodies import header_fields, normal, request_of
from agent_kernel.core.events import Event, RequestContext, RequestHeader, SurfaceEvent
from agent_kernel.core.files import Blobs
from agent_kernel.core.messages import Json, Message, dumps, message_of
from agent_kernel.core.model import Mark, Request, SystemText, ToolSchema
from agent_kernel.core.surface import Surface, Surfaces, merged


def rebuild(
    context: RequestContext, header: RequestHeader, surface: Surface, blobs: Blobs | None = None
) -> Request:
    """Return the request `context` stands for, from its header and the surface just before it.

    One of another harness is read from the blob that holds its bytes, which needs `blobs`. Raises
    KeyError when that is missing.
    """
    if context.body is not None:
        return _foreign(context, context.body, blobs)
    messages = surface.messages()
    if context.left_out:
        messages = merged(surface.nodes[context.left_out :])
    if context.instruction is not None:
        messages = with_instruction(messages, message_of(context.instruction))
    tools = (
        ToolSchema(t["name"], t["description"], t["input_schema"], bool(t.get("defer_loading")))
        for t in header.tools
    )
    return Request(
        model=header.model,
        messages=messages,
        system=tuple(SystemText(s["name"], s["text"]) for s in header.system),
        tools=tuple(tools),
        max_tokens=context.max_tokens,
        params=header.params,
        betas=header.beta,
        marks=tuple(Mark(*mark) for mark in context.cache_breakpoints),
    )


_SHA256 = re.compile(r"[0-9a-f]{64}")


def _foreign(context: RequestContext, body: Json, blobs: Blobs | None) -> Request:
    name = str(body.get("blob"))
    if blobs is None or not _SHA256.fullmatch(name):
        raise KeyError(
            f"the body of seq {context.seq} is in blob {name!r:.80}; give the log's own folder"
        )
    exact = blobs.get(name)
    try:
        return request_of(exact)
    except (ValueError, RecursionError):  # recorded as it was, though it is no request
        return Request(model="", messages=(), max_tokens=0, exact=exact)


def _agrees(request: Request, header: RequestHeader, surface: Surface) -> bool:
    """Tell whether header and surface say what the bytes of another harness say."""
    wire, fields = header.wire(), header_fields(request)
    said = {key: wire[key] for key in fields}
    return dumps(said) == dumps(fields) and surface.messages() == normal(request.messages)


def with_instruction(messages: tuple[Message, ...], instruction: Message) -> tuple[Message, ...]:
    """Return `messages` with an instruction behind them, inside the last one when it is a
    user's."""
    if messages and messages[-1].role == instruction.role:
        last = messages[-1]
        grown = Message(last.role, (*last.content, *instruction.content))
        return (*messages[:-1], grown)
    return (*messages, instruction)


def fingerprint(event: Event) -> str:
    """Return 16 hex digits of what an event puts into requests: its message, or a header's
    fields."""
    if isinstance(event, SurfaceEvent):
        data = dumps(event.message().wire())
    else:
        wire = event.wire()
        data = dumps({key: wire[key] for key in ("model", "params", "system", "tools", "beta")})
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def requests(
    events: Iterable[Event], blobs: Blobs | None = None
) -> Iterator[tuple[RequestContext, Request]]:
    """Yield every request of a log in order, rebuilt from the events before it.

    Raises KeyError when the blob of another harness's request is missing.
    """
    for context, header, surface in _contexts(events):
        yield context, rebuild(context, header, surface, blobs)


def _contexts(
    events: Iterable[Event],
) -> Iterator[tuple[RequestContext, RequestHeader, Surface]]:
    surfaces = Surfaces()
    headers: dict[int, RequestHeader] = {}
    for event in events:
        if isinstance(event, RequestContext) and event.header in headers:
            yield event, headers[event.header], surfaces[event.agent]
        elif isinstance(event, RequestHeader):
            headers[event.seq] = event
        surfaces.apply(event)


def request_at(
    events: Sequence[Event],
    turn: int,
    step: int | None,
    agent: str = "main",
    blobs: Blobs | None = None,
) -> tuple[RequestContext, Request]:
    """Return the last request of a turn's step (step None = the turn's last) and its context event.

    Raises KeyError naming the turns and steps there are, a header or a blob that is missing.
    """
    wanted = [
        e
        for e in events
        if isinstance(e, RequestContext) and e.agent == agent and e.turn == turn
        and (step is None or e.step == step)
    ]  # fmt: skip
    if not wanted:
        known = sorted(
            {f"{e.turn}.{e.step}" for e in events if isinstance(e, RequestContext)},
            key=lambda ts: [int(part) if part.isdigit() else 0 for part in ts.split(".")],
        )
        raise KeyError(
            f"no request {turn}.{step or ''}; the log holds {', '.join(known) or 'none'}"
        )
    last = wanted[-1]
    until = [e for e in events if e.seq <= last.seq]
    found = next((found for found in _contexts(until) if found[0].seq == last.seq), None)
    if found is None:
        raise KeyError(f"request {turn}.{last.step} (seq {last.seq}) has no header in this log")
    return last, rebuild(*found, blobs)


_CAUSES = {
    "request/header": "new system text, tools or parameters",
    "compaction/end": "a compaction",
    "compaction/undo": "an undone compaction",
}


def cause(events: Iterable[Event], before: RequestContext, after: RequestContext) -> str:
    """Return the first event between two requests that changed their shared prefix, in words.

    "" when the log names none. A replacement counts by itself when no compaction made it.
    """
    low, high = sorted((before.seq, after.seq))
    edited = ""
    for event in events:
        if not low < event.seq < high or event.agent != after.agent:
            continue
        if event.type in _CAUSES:
            return f"{_CAUSES[event.type]} (seq {event.seq})"
        if isinstance(event, SurfaceEvent) and event.replaces is not None and not edited:
            span = event.replaces
            edited = (
                f"an edit: {event.type} seq {event.seq} in place of {span.first} to {span.last}"
            )
    return edited


@dataclass
class Report:
    """What a verification found: `verified` of `requests` rebuilt to the digest the log holds."""

    requests: int = 0
    verified: int = 0
    findings: list[Json] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when every request was verified and nothing else was found."""
        return self.requests == self.verified and not self.findings

    def wire(self) -> Json:
        """Return the report as JSON."""
        return {
            "requests": self.requests,
            "verified": self.verified,
            "ok": self.ok,
            "findings": self.findings,
        }


def verify(
    events: Sequence[Event], findings: Iterable[Json] = (), blobs: Blobs | None = None
) -> Report:
    """Return how many requests of a log rebuild to their digest, and the seq of each changed line.

    `findings` are those of reading the file (broken hashes, torn lines). A changed line whose
    hashes were made anew is found because the next request noted what joined the surface before it
    was sent. Of a request another harness made, the bytes in `blobs` must have the digest, and
    header and surface must say what the bytes say.
    """
    report = Report(findings=list(findings))
    by_seq = {event.seq: event for event in events}
    told: set[int] = {f["seq"] for f in report.findings if "seq" in f}
    for context, header, surface in _contexts(events):
        report.requests += 1
        try:
            why = _differs(context, header, surface, blobs)
        except KeyError as error:
            report.findings.append(
                {"code": "no_body", "seq": context.seq, "text": str(error.args[0])}
            )
            continue
        if why:
            _find(report, context, by_seq, told, why)
        else:
            report.verified += 1
    missing = sum(isinstance(e, RequestContext) for e in events) - report.requests
    if missing:
        report.requests += missing
        report.findings.append({"code": "no_header", "text": f"{missing} requests name no header"})
    return report


def _differs(
    context: RequestContext, header: RequestHeader, surface: Surface, blobs: Blobs | None
) -> str:
    """Return how a rebuilt request differs from what the log says of it, "" when it does not."""
    request = rebuild(context, header, surface, blobs)
    body = context.body or {}
    if request.digest != body.get("written", context.digest):
        return "rebuilds to other bytes"
    if context.body is None or "loose" in body or _agrees(request, header, surface):
        return ""
    return "has other messages in its bytes than in the log's events"


def _find(
    report: Report, context: RequestContext, by_seq: dict[int, Event], told: set[int], why: str
) -> None:
    """Add which lines were changed before a request that differs, or only that it does."""
    name = f"request {context.turn}.{context.step}"
    changed = [
        seq
        for seq, print_ in context.joined
        if seq not in by_seq or fingerprint(by_seq[seq]) != print_
    ]
    for seq in changed:
        if seq not in told:
            told.add(seq)
            text = f"seq {seq} is not what was sent in {name}"
            report.findings.append({"code": "changed_line", "seq": seq, "text": text})
    if not changed and not told:
        text = f"{name} (seq {context.seq}) {why}"
        report.findings.append({"code": "digest", "seq": context.seq, "text": text})
