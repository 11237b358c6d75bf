"""DeepSeek rows: one event of a DeepSeek Harness log as calls and blocks.

May not fold, nor keep text but tool inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from agent_kernel.transcripts.fields import count, digest, items, mapping, moment, text
from agent_kernel.transcripts.jsonl import dumps, parse
from agent_kernel.transcripts.rows import Block, Usage

Event = Mapping[str, Any]
_UNIQUE = 16  # a message id is a UUID; what is shorter names nothing by itself
_PATHS = ("file_path", "path", "filePath", "url")


@dataclass(slots=True)
class State:
    """What earlier events of a file say about later ones."""

    session: str | None = None
    parent: str | None = None
    origin: str | None = None
    version: str | None = None
    cwd: str | None = None
    created: int | None = None
    turn: int | None = None
    provider: str | None = None
    model: str | None = None
    position: int = -1
    projected: bool = False
    seeded: bool = False
    approvals: dict[str, str] = field(default_factory=dict)
    compaction: dict[str, Any] = field(default_factory=dict)

    def see(self, event: Event, kind: str | None) -> int | None:
        """Take the state an event sets and return its seq: stated, or its position."""
        data = mapping(event.get("data"))
        if kind == "session" and self.session is None:
            self._header(event)
            return None
        self.position += 1
        if kind == "turn/start":
            self.turn = count(data.get("turn"))
        if kind in ("request/header", "request/context"):
            config = mapping(mapping(data.get("header")).get("config")) or data
            self.provider = text(config.get("provider")) or self.provider
            self.model = text(config.get("model")) or self.model
        stated = count(event.get("seq"))
        if stated is None:
            stated = count(event.get("seq0"))
        if stated is None:
            self.projected = True
            return self.position
        return stated

    def _header(self, event: Event) -> None:
        self.session = text(event.get("id"))
        self.parent = text(event.get("parentSession"))
        self.origin = text(event.get("origin"))
        self.version = f"v{count(event.get('version')) or 0}"
        self.cwd = text(event.get("cwd"))
        self.created = moment(event.get("createdAt"))
        self.seeded = event.get("isSeeded") is True or bool(count(event.get("seedLength")))

    def time(self, event: Event) -> int | None:
        """Return when an event was written."""
        name = "time" if "time" in event else "time0" if "time0" in event else "createdAt"
        return moment(event.get(name))

    def owner(self, event: Event) -> str | None:
        """Return whose event it is: what a fork copied is its parent's."""
        when = self.time(event)
        copied = self.seeded and self.parent and when and self.created and when < self.created
        return self.parent if copied and event.get("type") != "session" else self.session

    @property
    def agent_kind(self) -> str:
        """Return main, or subagent for a session another one started."""
        return "subagent" if self.origin == "subagent" else "main"


def body(event: Event) -> Mapping[str, Any]:
    """Return the message of an event: inside `data.message` from v3 on, `data` itself before."""
    data = mapping(event.get("data"))
    return mapping(data.get("message")) or data


def source_kind(event: Event) -> str | None:
    """Return who wrote a message: user, runtime-context, tool-jobs, compact-checkpoint, …"""
    found = mapping(body(event).get("source")) or mapping(mapping(event.get("data")).get("source"))
    return text(found.get("kind"))


def usages(event: Event, state: State, offset: int, seq: int | None) -> Iterator[Usage]:
    """Yield the call an event states: an answer, a failed try, a summary, a title."""
    kind = str(event.get("type"))
    data = mapping(event.get("data"))
    said = data.get("usage")
    answers = kind in ("assistant/message", "assistant/attempt", "compaction/summary")
    if not isinstance(said, dict) or not (answers or kind.endswith("-llm-request")):
        return
    message = body(event)
    source = mapping(message.get("source")) or mapping(data.get("provenance"))
    what = {"compaction/summary": "compaction"}.get(kind, state.agent_kind)
    owner = state.owner(event)
    writes = count(said.get("cacheWriteTokens")) or 0
    listed = list(blocks(event, state, offset, seq))
    yield Usage(
        offset=offset,
        uuid=text(message.get("id")),
        call_id=event_key(event, state, seq),
        session=owner,
        agent_kind="title" if kind.endswith("-llm-request") else what,
        provider=text(source.get("provider")) or text(data.get("provider")) or state.provider,
        model=text(source.get("model")) or text(data.get("model")) or state.model,
        time=state.time(event),
        input=count(said.get("inputTokens")) or 0,
        output=count(said.get("outputTokens")),
        write_5m=writes,
        write_1h=0,
        split="assumed_5m" if writes else None,
        read=count(said.get("cacheReadTokens")) or 0,
        thinking=count(said.get("reasoningTokens")),
        stop=text(mapping(data.get("finishReason")).get("kind")),
        status="failed_attempt" if kind == "assistant/attempt" else "ok",
        seconds=_took(data),
        chars=sum(block.chars for block in listed) if listed else None,
        turn=state.turn,
        step=count(data.get("step")),
        seq=seq,
    )


def event_key(event: Event, state: State, seq: int | None) -> str:
    """Return the id of the call an event states: its message id, else place and content.

    Older formats have no message ids, and snapshots put one placeholder for all of them.
    """
    named = text(body(event).get("id"))
    if named and len(named) >= _UNIQUE:
        return named
    content = crc32(dumps(event).encode("utf-8", "surrogatepass"))
    return f"{state.owner(event)}:{seq}:{content:08x}"


def _took(data: Mapping[str, Any]) -> float | None:
    """Return the seconds from the first to the last streamed chunk."""
    times = [count(mapping(one).get("time")) for one in items(data.get("stream"))]
    known = [one for one in times if one is not None]
    return (max(known) - min(known)) / 1000 if len(known) > 1 else None


def blocks(event: Event, state: State, offset: int, seq: int | None) -> Iterator[Block]:
    """Yield the content blocks of an event on the surface."""
    kind = str(event.get("type"))
    if not event.get("surfaceOp") or not kind.endswith(("/message", "/result")):
        return
    message = body(event)
    base = Block(
        offset,
        0,
        uuid=text(message.get("id")),
        session=state.owner(event),
        role="assistant" if kind == "assistant/message" else "user",
        time=state.time(event),
    )
    if kind == "assistant/message":
        base = base._replace(call_id=event_key(event, state, seq))
    content = message.get("content")
    if kind == "tool/result":
        yield _result(event, message, items(content), base)
        listed = [one for one in items(content) if mapping(one).get("type") == "image"]
    else:
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
    first = 1 if kind == "tool/result" else 0
    for number, block in enumerate(listed, first):
        if isinstance(block, dict):
            yield _block(block, base._replace(block=number, source=_source(kind, event)))


def _source(kind: str, event: Event) -> str:
    if kind == "user/message":
        who = source_kind(event)
        if who in ("compact-checkpoint", "plugin"):
            return "summary"
        return "prompt" if who in ("user", "goal", None) else "attachment"
    fixed = {"assistant/message": "assistant", "tool/result": "tool_result"}
    return fixed.get(kind, "system")


def _block(block: Mapping[str, Any], base: Block) -> Block:
    kind = text(block.get("type")) or ""
    if kind in ("tool-call", "tool_use"):
        return _use(block, base)
    if kind == "image":
        media = text(block.get("mediaType")) or text(block.get("mimeType"))
        return base._replace(kind="image", media=media)
    said = block.get("text")
    said = said if isinstance(said, str) else ""
    shown = {"reasoning": "thinking"}.get(kind, "text")
    if base.source in ("attachment", "summary"):
        shown = base.source or shown
    return base._replace(kind=shown, chars=len(said), sha=digest(said))


def _use(block: Mapping[str, Any], base: Block) -> Block:
    given = block.get("arguments", block.get("input"))
    said = given if isinstance(given, str) else dumps(given)
    try:
        found = mapping(parse(said.encode("utf-8", "surrogatepass")))
    except ValueError:
        found = {}
    return base._replace(
        kind="tool_use",
        chars=len(said) + len(text(block.get("name")) or ""),
        sha=digest(said),
        tool_use_id=text(block.get("id")),
        name=text(block.get("name")),
        given=said,
        path=next((found[one] for one in _PATHS if text(found.get(one))), None),
        command=text(found.get("command")),
    )


def call_id(event: Event) -> str | None:
    """Return the tool call an event belongs to."""
    data, message = mapping(event.get("data")), body(event)
    source = mapping(message.get("source"))
    return text(data.get("callId")) or text(message.get("toolCallId")) or text(source.get("callId"))


def _result(event: Event, message: Mapping[str, Any], content: list[Any], base: Block) -> Block:
    said = "".join(str(mapping(one).get("text") or "") for one in content)
    failed = message.get("isError")
    return base._replace(
        kind="tool_result",
        source="summary" if isinstance(event.get("surfaceOp"), dict) else "tool_result",
        chars=len(said),
        sha=digest(said),
        tool_use_id=call_id(event),
        is_error=failed if isinstance(failed, bool) else None,
        error_kind="other" if failed is True else None,
    )
