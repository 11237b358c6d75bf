"""Claude Code: reads the session files under `~/.claude/projects`, main and sub-agent, 1.0 to 2.1.

May not follow a path a transcript names, nor walk the histories inside progress records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from zlib import crc32

import agent_kernel.transcripts.rows as flag
from agent_kernel.transcripts.claude_content import content_blocks
from agent_kernel.transcripts.claude_marks import marks, message_flags
from agent_kernel.transcripts.claude_usage import SYNTHETIC, Place, usages
from agent_kernel.transcripts.fields import mapping, moment, text
from agent_kernel.transcripts.jsonl import (
    HUGE,
    Parsed,
    line_issue,
    lines,
    parse,
    parsed,
    parsed_line,
)
from agent_kernel.transcripts.rows import Issue, Line, Part, Rows, sample

CHAIN = frozenset({"user", "assistant", "system", "attachment", "progress"})
SIDE = frozenset(
    {
        "summary",
        "custom-title",
        "ai-title",
        "agent-name",
        "agent-color",
        "agent-setting",
        "last-prompt",
        "tag",
        "mode",
        "permission-mode",
        "file-history-snapshot",
        "queue-operation",
        "content-replacement",
        "cost-state",
        "pr-link",
        "worktree-state",
        "fork-context-ref",
        "speculation-accept",
        "attribution-snapshot",
        "task-summary",
        "marble-origami-commit",
        "marble-origami-snapshot",
    }
)
_BATCH = 50_000
_IDENTITY = re.compile(rb'"sessionId"\s*:\s*"')
_UUID = re.compile(rb'"uuid"\s*:\s*"')


class ClaudeCode:
    """The reader of Claude Code transcripts; stateless between files."""

    name = "claude_code"
    appendable = True  # a line needs no line before it

    def sniff(self, path: str, head: bytes) -> tuple[float, str] | None:
        """Return (score, version) when `head`, the first 64 KiB, holds a line of a session."""
        best: tuple[float, str] | None = None
        for raw in head.split(b"\n")[:200]:
            try:
                record = parse(raw) if raw.strip() else None
            except ValueError:
                record = None
            if isinstance(record, dict):
                score = _score(record)
                if score and (best is None or score > best[0]):
                    best = (score, text(record.get("version")) or "")
            if best and best[0] >= 0.9:
                return best
        if best is None and _IDENTITY.search(head) and _UUID.search(head):
            return 0.6, ""
        return best

    def parts(self, file: BinaryIO, start: int, want: frozenset[str]) -> Iterator[Part]:
        """Yield the wanted parts from byte `start`; the order of rows is the order of lines."""
        rows = Rows(want)
        light = want == frozenset({"usages"})
        for line in _prefiltered(file, start) if light else parsed(file, start):
            issue = line_issue(line)
            if issue:
                rows.issues.append(issue)
            if line.value is None:
                rows.lines.append(Line(line.offset, len(line.raw), status=line.status))
            else:
                _record(rows, line, line.value)
            if max(len(rows.lines), len(rows.blocks)) >= _BATCH:
                yield from rows.parts()
        yield from rows.parts()


def _score(record: Mapping[str, Any]) -> float:
    kind = record.get("type")
    if isinstance(record.get("sessionId"), str):
        if isinstance(record.get("uuid"), str) and kind in CHAIN:
            return 0.95
        if kind in SIDE:
            return 0.9
        return 0.4 if isinstance(record.get("uuid"), str) else 0.0
    if kind == "summary" and isinstance(record.get("leafUuid"), str):
        return 0.8
    return 0.8 if kind == "file-history-snapshot" and "messageId" in record else 0.0


def _prefiltered(file: BinaryIO, start: int) -> Iterator[Parsed]:
    """Yield the lines that may state tokens, and those that are cut, bare or huge.

    Three quarters of the bytes of a session state none: what is wrong inside those lines is for
    whoever asks for the lines.
    """
    for offset, raw in lines(file, start):
        if b'"usage"' in raw or not _whole(raw) or len(raw) > HUGE:
            yield parsed_line(offset, raw)


def _whole(raw: bytes) -> bool:
    """Whether a line begins and ends as an object does."""
    return raw.startswith(b'{"') and raw.endswith((b"}\n", b"}\r\n"))


def _record(rows: Rows, line: Parsed, record: dict[str, Any]) -> None:
    kind = text(record.get("type"))
    agent = text(record.get("agentId"))
    sidechain = record.get("isSidechain") is True
    if sidechain and agent is None:
        agent = "sidechain"
    place = Place(line.offset, text(record.get("sessionId")), agent, sidechain, False)
    if "usages" in rows.want and kind == "assistant":
        rows.usages.extend(usages(record, place))
    inner = _nested(record) if kind == "progress" else None
    if inner and "usages" in rows.want and inner[0].get("type") == "assistant":
        rows.usages.extend(usages(*_placed(inner, place)))
    if "lines" in rows.want:
        rows.lines.append(_line(line, record, kind, place))
    if "issues" in rows.want:
        _check(rows, line, record, kind)
    if "blocks" in rows.want or "givens" in rows.want:
        _blocks(rows, record, kind, place, inner)
    if "marks" in rows.want:
        rows.marks.extend(marks(record, kind, place))


def _blocks(
    rows: Rows,
    record: dict[str, Any],
    kind: str | None,
    place: Place,
    inner: tuple[dict[str, Any], str | None] | None,
) -> None:
    found, strange = content_blocks(record, kind, place)
    rows.blocks.extend(found)
    if inner:
        nested, within = _placed(inner, place)
        more, odd = content_blocks(nested, text(nested.get("type")), within)
        rows.blocks.extend(more)
        strange = [*strange, *odd]
    for name in strange:
        message = f"a content block of type {name!r}; it is kept in the record, not in blocks"
        rows.issues.append(Issue("unknown_block", place.offset, 0, message))


def _nested(record: Mapping[str, Any]) -> tuple[dict[str, Any], str | None] | None:
    """Return the one sub-agent message a progress record carries and the agent's id."""
    data = mapping(record.get("data"))
    message = data.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("message"), dict):
        return None
    return message, text(data.get("agentId"))


def _placed(inner: tuple[dict[str, Any], str | None], place: Place) -> tuple[dict[str, Any], Place]:
    return inner[0], place._replace(agent=inner[1] or "progress", sidechain=True, nested=True)


def _line(line: Parsed, record: dict[str, Any], kind: str | None, place: Place) -> Line:
    message = mapping(record.get("message"))
    known = kind in CHAIN or kind in SIDE
    return Line(
        line.offset,
        len(line.raw),
        type=kind,
        subtype=_subtype(record, kind),
        status="ok" if known else "unknown_type",
        uuid=text(record.get("uuid")) if kind not in SIDE else None,
        parent=text(record.get("parentUuid")),
        logical=text(record.get("logicalParentUuid")),
        time=moment(record.get("timestamp")),
        session=place.session,
        agent=place.agent,
        sidechain=place.sidechain,
        flags=_flags(record, kind, message),
        message_id=text(message.get("id")) if kind == "assistant" else None,
        crc=crc32(line.raw.rstrip()),
        version=text(record.get("version")),
        cwd=text(record.get("cwd")),
        branch=text(record.get("gitBranch")),
    )


def _subtype(record: Mapping[str, Any], kind: str | None) -> str | None:
    if kind == "progress":
        return text(mapping(record.get("data")).get("type"))
    if kind == "attachment":
        return text(mapping(record.get("attachment")).get("type"))
    return text(record.get("subtype")) or text(record.get("operation"))


def _flags(record: Mapping[str, Any], kind: str | None, message: Mapping[str, Any]) -> int:
    bits = flag.CHAIN if kind in CHAIN else flag.LOG_ONLY
    bits |= flag.META if record.get("isMeta") is True else 0
    bits |= flag.SUMMARY if record.get("isCompactSummary") is True else 0
    bits |= flag.TEAM if text(record.get("teamName")) else 0
    if kind in ("progress", "system"):
        bits |= flag.LOG_ONLY
    if kind in ("user", "assistant"):
        bits |= flag.MESSAGE | message_flags(record, kind, message)
    fault = record.get("isApiErrorMessage")
    if fault is True or (message.get("model") == SYNTHETIC and fault is not False):
        bits |= flag.FAULT
    return bits


def _check(rows: Rows, line: Parsed, record: Mapping[str, Any], kind: str | None) -> None:
    size = len(line.raw)
    if kind not in CHAIN and kind not in SIDE:
        message = f"a line of type {kind!r}; it is kept as a record"
        rows.issues.append(Issue("unknown_type", line.offset, size, message, sample(line.raw)))
    for name in ("uuid", "parentUuid", "sessionId", "timestamp"):
        value = record.get(name)
        if value is not None and not isinstance(value, str):
            message = f"field {name!r} holds {type(value).__name__}, not text; it is read as absent"
            rows.issues.append(Issue("wrong_field", line.offset, size, message, sample(line.raw)))
    if kind in CHAIN and not text(record.get("uuid")):
        message = f"a {kind} line without uuid; it stands outside the chain"
        rows.issues.append(Issue("missing_uuid", line.offset, size, message, sample(line.raw)))
