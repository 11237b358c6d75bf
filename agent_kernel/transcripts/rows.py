"""Rows: the raw columns a reader gives, one NamedTuple a part, and their transposition into parts.

May not judge across files: deduplication, chains and prices are for whoever reads the parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]
Columns = dict[str, list[Any]]
Part = tuple[str, Columns]

# Line.flags, a bit set.
META = 1  # written by the harness, hidden from people
SUMMARY = 2  # the summary a compaction left
CHAIN = 4  # a node of the parent chain
MESSAGE = 8  # a user or assistant message
RESULT = 16  # a user message that answers tool calls
TEAM = 32  # another agent of a team speaks
FAULT = 64  # an API error written as a message
PROMPT = 128  # text of a person
LOG_ONLY = 256  # the model never sees it
INTERRUPT = 512  # the person stopped the turn
COMMAND = 1024  # a slash command or its output
NOTICE = 2048  # a task notification


class Line(NamedTuple):
    """One line or event; times are milliseconds since 1970 UTC."""

    offset: int
    bytes: int
    type: str | None = None
    subtype: str | None = None
    status: str = "ok"
    uuid: str | None = None
    parent: str | None = None
    logical: str | None = None
    time: int | None = None
    session: str | None = None
    agent: str | None = None
    sidechain: bool = False
    flags: int = 0
    message_id: str | None = None
    crc: int = 0
    version: str | None = None
    cwd: str | None = None
    branch: str | None = None
    seq: int | None = None
    turn: int | None = None
    step: int | None = None


class Usage(NamedTuple):
    """One statement of tokens; several lines may state one call."""

    offset: int
    uuid: str | None = None
    call_id: str | None = None
    request_id: str | None = None
    session: str | None = None
    agent: str | None = None
    agent_kind: str | None = None
    nested: bool = False
    sidechain: bool = False
    provider: str | None = None
    model: str | None = None
    time: int | None = None
    input: int | None = None
    output: int | None = None
    write_5m: int | None = None
    write_1h: int | None = None
    split: str | None = None
    read: int | None = None
    thinking: int | None = None
    stop: str | None = None
    status: str = "ok"
    speed: str | None = None
    tier: str | None = None
    geo: str | None = None
    searches: int | None = None
    ttft: float | None = None
    seconds: float | None = None
    usd: float | None = None
    chars: int | None = None
    turn: int | None = None
    step: int | None = None
    seq: int | None = None
    fork: str | None = None  # the session whose statements this one repeats before its own
    total: str | None = None  # running totals, where a log states those: the key of the call


class Block(NamedTuple):
    """One content block; `chars` are code points, `sha` 16 hex digits of its text."""

    offset: int
    block: int
    uuid: str | None = None
    session: str | None = None
    agent: str | None = None
    nested: bool = False
    role: str | None = None
    kind: str | None = None
    source: str | None = None
    time: int | None = None
    call_id: str | None = None
    chars: int = 0
    sha: str | None = None
    tool_use_id: str | None = None
    name: str | None = None
    given: str | None = None  # the input of a tool call as JSON; a part of its own
    path: str | None = None
    command: str | None = None
    is_error: bool | None = None
    error_kind: str | None = None
    interrupted: bool | None = None
    seconds: float | None = None
    spilled: int | None = None
    media: str | None = None
    width: int | None = None
    height: int | None = None


class Mark(NamedTuple):
    """A fact beside text and tokens: a boundary, a prompt, a task; `data` is small JSON."""

    offset: int
    mark: str
    uuid: str | None = None
    session: str | None = None
    agent: str | None = None
    time: int | None = None
    data: str = "{}"


class Issue(NamedTuple):
    """A finding about one place of the file; `sample` is at most 80 code points, escaped."""

    code: str
    offset: int
    bytes: int
    message: str
    sample: str = ""


class Rows:
    """What one file gave so far, by part name; only wanted parts are kept."""

    def __init__(self, want: frozenset[str]) -> None:
        self.want = want
        self.lines: list[Line] = []
        self.usages: list[Usage] = []
        self.blocks: list[Block] = []
        self.marks: list[Mark] = []
        self.issues: list[Issue] = []

    def parts(self) -> Iterator[Part]:
        """Yield every wanted part as columns and forget the rows."""
        if "givens" in self.want:
            calls = [block for block in self.blocks if block.given is not None]
            if calls:
                yield "givens", {name: [getattr(one, name) for one in calls] for name in GIVENS}
        for name, kind in PARTS.items():
            rows = getattr(self, name)
            if rows and name in self.want | {"issues"}:
                columns = dict(zip(kind._fields, map(list, zip(*rows, strict=True)), strict=True))
                for text in GIVENS[2:]:
                    columns.pop(text, None)
                yield name, columns
            rows.clear()


GIVENS = ("offset", "block", "given", "command")
PARTS: dict[str, Any] = {
    "lines": Line,
    "usages": Usage,
    "blocks": Block,
    "marks": Mark,
    "issues": Issue,
}


def sample(raw: bytes) -> str:
    """Return the first 80 code points of `raw`, escaped so that it is one printable line."""
    text = raw[:400].decode("utf-8", "backslashreplace")[:80]
    return text.encode("unicode_escape").decode("ascii")[:160]
