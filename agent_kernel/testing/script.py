"""Script: writes transcripts in the shape of Claude Code's, line by line, for fixtures.

May not hold a line of a real session: every text here is made up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Buckets = tuple[int, int, int, int, int]  # input, output, write 5m, write 1h, read
OPUS = "claude-opus-4-5-20251101"
_START = datetime(2026, 2, 1, 12, tzinfo=UTC)


@dataclass
class Expected:
    """What the tables of a fixture must say; `tables` holds columns by table, dollars to 1e-9."""

    calls: int = 0
    buckets: Buckets = (0, 0, 0, 0, 0)
    usd: float | None = 0.0
    issues: dict[str, int] = field(default_factory=dict)
    official_lost: int = 0
    ours_lost: int = 0
    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)


def tokens(buckets: Buckets, **more: Any) -> Json:
    """Return a usage object as Claude Code writes it."""
    plain, out, short, long, read = buckets
    return {
        "input_tokens": plain,
        "output_tokens": out,
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "service_tier": "standard",
        **more,
    }


def use(name: str, number: int, **given: Any) -> Json:
    """Return a tool_use block with id toolu_<number>."""
    return {"type": "tool_use", "id": f"toolu_{number:06d}", "name": name, "input": given}


def said(text: str) -> Json:
    """Return a text block."""
    return {"type": "text", "text": text}


def message_id(number: int) -> str:
    """Return a message id as long as real ones, so that it is taken for unique."""
    return f"msg_01Fixture{number:012d}"


class Script:
    """One session file under construction; every method appends a line and returns its uuid."""

    def __init__(self, session: str = "fixture-session", version: str = "2.1.4") -> None:
        self.session = session
        self.version = version
        self.lines: list[bytes] = []
        self.last: str | None = None
        self.clock = _START
        self.agent: str | None = None

    def line(self, record: Json | bytes) -> None:
        """Append one raw line."""
        raw = record if isinstance(record, bytes) else json.dumps(record).encode()
        self.lines.append(raw + b"\n")

    def node(self, kind: str, **fields: Any) -> str:
        """Append a line of the chain; `uuid`, `parent` and `seconds` override what comes next."""
        uuid = str(fields.pop("uuid", f"{self.session[:8]}-{len(self.lines):06d}"))
        parent = fields.pop("parent", self.last)
        self.clock += timedelta(seconds=fields.pop("seconds", 1))
        record = {
            "parentUuid": parent,
            "isSidechain": self.agent is not None,
            "userType": "external",
            "cwd": "/home/dev/project",
            "sessionId": self.session,
            "version": self.version,
            "gitBranch": "main",
            "type": kind,
            "uuid": uuid,
            "timestamp": self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        if self.agent is not None:
            record["agentId"] = self.agent
        self.line(record | fields)
        self.last = uuid
        return uuid

    def user(self, text: str | list[Json], **fields: Any) -> str:
        """Append a user message."""
        return self.node("user", message={"role": "user", "content": text}, **fields)

    def result(self, number: int, text: Any, error: bool | None = None, **fields: Any) -> str:
        """Append the result of tool call toolu_<number>."""
        block: Json = {"type": "tool_result", "tool_use_id": f"toolu_{number:06d}", "content": text}
        if error is not None:
            block["is_error"] = error
        return self.user([block], **fields)

    def answer(
        self, number: int, blocks: list[Json], usage: Buckets | Json | None, **fields: Any
    ) -> str:
        """Append one line of response <number>; `model` and `stop` go into the message."""
        message: Json = {
            "id": fields.pop("id", message_id(number)),
            "type": "message",
            "role": "assistant",
            "model": fields.pop("model", OPUS),
            "content": blocks,
            "stop_reason": fields.pop("stop", None),
        }
        if usage is not None:
            message["usage"] = usage if isinstance(usage, dict) else tokens(usage)
        if message["id"] is None:
            del message["id"]
        fields.setdefault("requestId", f"req_{number}")
        if fields["requestId"] is None:
            del fields["requestId"]
        return self.node("assistant", message=message, **fields)

    def boundary(self, trigger: str = "auto", pre: int = 1000, **meta: Any) -> str:
        """Append a compaction boundary; `logical` is the last uuid before it."""
        logical = self.last
        data = {"trigger": trigger, "preTokens": pre, **meta}
        return self.node(
            "system",
            subtype="compact_boundary",
            parent=None,
            logicalParentUuid=logical,
            compactMetadata=data,
            content="Conversation compacted",
        )

    def summary(self, text: str = "A summary of what happened.") -> str:
        """Append the summary a compaction leaves."""
        return self.user(text, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def progress(self, inner: Json, agent: str, **data: Any) -> str:
        """Append a progress record that carries one message of a sub-agent."""
        body = {"type": "agent_progress", "agentId": agent, "message": inner, **data}
        return self.node(
            "progress", data=body, toolUseID="agent_msg", parentToolUseID="toolu_000001"
        )

    def write(self, folder: Path, name: str | None = None) -> Path:
        """Write the lines as a file of `folder` and return its path."""
        path = folder / (name or f"{self.session}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(self.lines))
        return path


def dollars(*calls: Buckets) -> float:
    """Return the list price of Opus 4.5 calls: 5, 25, 6.25, 10 and 0.5 dollars a million."""
    rates = (5.0, 25.0, 6.25, 10.0, 0.5)
    return sum(n * rate for call in calls for n, rate in zip(call, rates, strict=True)) / 1e6


def total(*calls: Buckets) -> Buckets:
    """Return the sum of calls, bucket by bucket."""
    one, two, three, four, five = (sum(column) for column in zip(*calls, strict=True))
    return one, two, three, four, five


def expected(*calls: Buckets, **more: Any) -> Expected:
    """Return what a fixture with exactly these Opus calls must give."""
    return Expected(len(calls), total(*calls), dollars(*calls), **more)
