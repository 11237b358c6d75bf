"""DeepSeek Harness: reads its session logs, formats v0 to v4 and snapshots without seq and time.

May not unpack zstd itself nor expand packed chunks into lines: a packed row is one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from zlib import crc32

import agent_kernel.transcripts.rows as flag
from agent_kernel.transcripts.deepseek_marks import marks
from agent_kernel.transcripts.deepseek_rows import (
    State,
    blocks,
    body,
    source_kind,
    usages,
)
from agent_kernel.transcripts.fields import count, mapping, text
from agent_kernel.transcripts.jsonl import Parsed, line_issue, parse, parsed
from agent_kernel.transcripts.rows import Issue, Line, Part, Rows, sample

PACKED = frozenset(["text-chunks", "reasoning-chunks", "tool-call-chunks"])
# The event families seen in v0 to v4; an unknown member of a known family is no unknown type.
_FAMILIES = re.compile(
    r"(session|turn|step|user|system|developer|assistant|request|tool|job|approval|permission|"
    r"sandbox|agent|subagent|compaction|llm|hook|command|goal|plan|todo|tool-workflow|"
    r"session-log-deepseek|tool-jobs|workspace|skill|mcp)(/[\w./-]+)?"
)


class DeepSeek:
    """The reader of DeepSeek Harness session logs; a file is read from its first line."""

    name = "deepseek"

    def sniff(self, path: str, head: bytes) -> tuple[float, str] | None:
        """Return (score, version) when line 1 is a session with a numeric `createdAt`."""
        try:
            first = parse(head.split(b"\n", 1)[0])
        except ValueError:
            return None
        if not isinstance(first, dict) or first.get("type") != "session":
            return None
        if isinstance(first.get("createdAt"), bool) or count(first.get("createdAt")) is None:
            return None
        return 0.95, str(count(first.get("version")) or 0)

    def parts(self, file: BinaryIO, start: int, want: frozenset[str]) -> Iterator[Part]:
        """Yield the wanted parts; state runs through the file, so it is read whole."""
        if start:
            file.seek(0)
        rows, state = Rows(want), State()
        for line in parsed(file):
            issue = line_issue(line)
            if issue:
                rows.issues.append(issue)
            if line.value is None:
                rows.lines.append(
                    Line(line.offset, len(line.raw), status=line.status, session=state.session)
                )
            else:
                _take(rows, state, line, line.value)
        if state.projected:
            message = "events without seq and time: seq is their position, time unknown"
            rows.issues.append(Issue("projected", 0, 0, message))
        yield from rows.parts()


def _take(rows: Rows, state: State, line: Parsed, event: dict[str, Any]) -> None:
    kind = text(event.get("type"))
    seq = state.see(event, kind)
    rows.lines.append(_line(state, line, event, (kind, seq)))
    if kind is None or not (kind in PACKED or _FAMILIES.fullmatch(kind)):
        message = f"an event of type {kind!r}; it is kept as a record"
        size = len(line.raw)
        rows.issues.append(Issue("unknown_type", line.offset, size, message, sample(line.raw)))
    rows.usages.extend(usages(event, state, line.offset, seq))
    rows.blocks.extend(blocks(event, state, line.offset, seq))
    rows.marks.extend(marks(event, state, line.offset, seq))


def _line(
    state: State, line: Parsed, event: Mapping[str, Any], named: tuple[str | None, int | None]
) -> Line:
    kind, seq = named
    known = kind is not None and (kind in PACKED or _FAMILIES.fullmatch(kind))
    return Line(
        line.offset,
        len(line.raw),
        type=kind,
        subtype=source_kind(event),
        status="ok" if known else "unknown_type",
        uuid=text(mapping(event.get("data")).get("id")) or text(body(event).get("id")),
        time=state.time(event),
        session=state.owner(event),
        flags=_flags(event, kind),
        message_id=text(body(event).get("id")) if kind == "assistant/message" else None,
        crc=crc32(line.raw.rstrip()),
        version=state.version,
        cwd=state.cwd,
        seq=seq,
        turn=state.turn,
        step=count(mapping(event.get("data")).get("step")),
    )


def _flags(event: Mapping[str, Any], kind: str | None) -> int:
    if not event.get("surfaceOp"):
        return flag.LOG_ONLY
    if kind == "tool/result":
        return flag.MESSAGE | flag.RESULT
    if kind == "user/message":
        who = source_kind(event)
        if who in ("user", "goal"):
            return flag.MESSAGE | flag.PROMPT
        if who in ("compact-checkpoint", "plugin"):
            return flag.MESSAGE | flag.SUMMARY
        return flag.MESSAGE | (flag.NOTICE if who in ("tool-jobs", "subagent-settled") else 0)
    return flag.MESSAGE
