"""Codex: reads rollout files of the Codex CLI, 0.104 and its neighbours.

May not count a repeated token count: only a total that changed is a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from zlib import crc32

import agent_kernel.transcripts.rows as flag
from agent_kernel.transcripts.codex_items import item_blocks
from agent_kernel.transcripts.fields import count, items, mapping, moment, text
from agent_kernel.transcripts.jsonl import Parsed, dumps, line_issue, parsed
from agent_kernel.transcripts.rows import Block, Issue, Line, Mark, Part, Rows, Usage, sample

KNOWN = frozenset(
    ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "ghost_snapshot"]
)
_TOTALS = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)
_META = re.compile(rb'"type"\s*:\s*"session_meta"')


@dataclass(slots=True)
class State:
    """What earlier lines of a rollout say about later ones."""

    session: str | None = None
    parent: str | None = None
    version: str | None = None
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    provider: str | None = None
    total: tuple[int, ...] | None = None
    summed: list[int] = field(default_factory=lambda: [0] * len(_TOTALS))
    waiting: list[Block] = field(default_factory=list)


class Codex:
    """The reader of Codex rollouts; a file is read from its first line."""

    name = "codex"

    def sniff(self, path: str, head: bytes) -> tuple[float, str] | None:
        """Return (score, version) when line 1 is a session_meta."""
        first = head.split(b"\n", 1)[0]
        if not _META.search(first[:4096]) or b'"payload"' not in first:
            return None
        found = re.search(rb'"cli_version"\s*:\s*"([^"]{1,40})"', first)
        return 0.95, found[1].decode("ascii", "replace") if found else ""

    def parts(self, file: BinaryIO, start: int, want: frozenset[str]) -> Iterator[Part]:
        """Yield the wanted parts; totals run through the file, so it is read whole."""
        if start:
            file.seek(0)
        rows, state = Rows(want), State()
        for line in parsed(file):
            issue = line_issue(line)
            if issue:
                rows.issues.append(issue)
            if line.value is None:
                place = Line(line.offset, len(line.raw), status=line.status)
                rows.lines.append(place._replace(session=state.session))
            else:
                _take(rows, state, line, line.value)
        rows.blocks.extend(state.waiting)
        if state.total is not None and tuple(state.summed) != state.total:
            message = f"calls sum to {tuple(state.summed)}, the file says {state.total}"
            rows.issues.append(Issue("total_mismatch", 0, 0, message))
        yield from rows.parts()


def _take(rows: Rows, state: State, line: Parsed, record: Mapping[str, Any]) -> None:
    kind, payload = text(record.get("type")), mapping(record.get("payload"))
    inner = text(payload.get("type"))
    _remember(state, kind, payload)
    when = moment(record.get("timestamp"))
    if kind not in KNOWN:
        message = f"a line of type {kind!r}; it is kept as a record"
        size = len(line.raw)
        rows.issues.append(Issue("unknown_type", line.offset, size, message, sample(line.raw)))
    rows.lines.append(_line(state, line, (kind, inner), payload, when))
    if kind == "response_item":
        _items(rows, state, line.offset, payload, when)
    elif inner == "token_count":
        _count(rows, state, line.offset, payload, when)
    for name, data in _marks(kind, inner, payload, state):
        kept = {key: value for key, value in data.items() if value is not None}
        rows.marks.append(Mark(line.offset, name, None, state.session, None, when, dumps(kept)))


def _remember(state: State, kind: str | None, payload: Mapping[str, Any]) -> None:
    if kind == "session_meta":
        if state.session is None:
            state.session = text(payload.get("id"))
            state.parent = text(payload.get("forked_from_id"))
            state.version = text(payload.get("cli_version"))
            state.cwd = text(payload.get("cwd"))
            state.branch = text(mapping(payload.get("git")).get("branch"))
            state.provider = text(payload.get("model_provider"))
        elif state.parent is None and text(payload.get("id")) != state.session:
            state.parent = text(payload.get("id"))
    elif kind == "turn_context":
        state.model = text(payload.get("model")) or state.model


def _line(
    state: State,
    line: Parsed,
    kinds: tuple[str | None, str | None],
    payload: Mapping[str, Any],
    when: int | None,
) -> Line:
    kind, inner = kinds
    bits = flag.LOG_ONLY
    if kind == "response_item":
        bits = flag.MESSAGE
        if inner and inner.endswith("_output"):
            bits |= flag.RESULT
        elif payload.get("role") == "user":
            bits |= flag.PROMPT
    elif kind == "compacted":
        bits = flag.MESSAGE | flag.SUMMARY
    return Line(
        line.offset,
        len(line.raw),
        type=kind,
        subtype=inner or text(payload.get("role")),
        status="ok" if kind in KNOWN else "unknown_type",
        time=when,
        session=state.session,
        flags=bits,
        message_id=_speaker(kind, inner, payload),
        crc=crc32(line.raw.rstrip()),
        version=state.version,
        cwd=state.cwd,
        branch=state.branch,
    )


def _speaker(kind: str | None, inner: str | None, payload: Mapping[str, Any]) -> str | None:
    """Return a value for what the model said, so that a turn's end can be told."""
    said = payload.get("role") == "assistant" or inner in ("reasoning", "function_call")
    return inner if kind == "response_item" and said else None


def _items(
    rows: Rows, state: State, offset: int, payload: Mapping[str, Any], when: int | None
) -> None:
    base = Block(offset, 0, session=state.session, time=when)
    for block in item_blocks(payload, base):
        if block.role == "assistant":
            state.waiting.append(block)
        else:
            rows.blocks.append(block)


def _count(
    rows: Rows, state: State, offset: int, payload: Mapping[str, Any], when: int | None
) -> None:
    """Take a token count: a call when its total changed, a repeat otherwise."""
    info = mapping(payload.get("info"))
    totals = mapping(info.get("total_token_usage"))
    now = tuple(count(totals.get(name)) or 0 for name in _TOTALS)
    if not totals or now == state.total:
        return
    last = mapping(info.get("last_token_usage"))
    before = state.total or (0,) * len(_TOTALS)
    used = [count(last.get(name)) or 0 for name in _TOTALS] if last else _minus(now, before)
    state.total = now
    state.summed = [a + b for a, b in zip(state.summed, used, strict=True)]
    total = "/".join(map(str, now))
    key = f"{state.session}:{total}"
    said = [block._replace(call_id=key) for block in state.waiting]
    state.waiting.clear()
    rows.blocks.extend(said)
    rows.usages.append(
        Usage(
            offset=offset,
            call_id=key,
            session=state.session,
            agent_kind="fork" if state.parent else "main",
            provider=state.provider,
            model=state.model,
            time=when,
            input=max(0, used[0] - used[1]),
            output=used[2],
            write_5m=0,
            write_1h=0,
            read=used[1],
            thinking=used[3],
            chars=sum(block.chars for block in said) or None,
            fork=state.parent,
            total=total,
        )
    )


def _minus(now: tuple[int, ...], before: tuple[int, ...]) -> list[int]:
    return [max(0, a - b) for a, b in zip(now, before, strict=True)]


def _marks(
    kind: str | None, inner: str | None, payload: Mapping[str, Any], state: State
) -> Iterator[tuple[str, dict[str, Any]]]:
    if kind == "session_meta" and state.parent:
        yield "fork", {"from": state.parent}
    elif kind == "compacted":
        said = text(payload.get("message")) or ""
        kept = len(items(payload.get("replacement_history")))
        yield "boundary", {"trigger": "auto", "summary_chars": len(said), "hidden": kept}
        yield "reset", {}
    elif kind == "event_msg" and inner == "user_message":
        yield "prompt", {"origin": "human"}
    elif kind == "event_msg" and inner == "task_complete":
        yield "turn_end", {"reason": "completed"}
    elif kind == "event_msg" and inner == "turn_aborted":
        yield "turn_end", {"reason": "interrupted"}
