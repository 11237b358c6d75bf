"""Turn view: the shape of a folded turn (JSON, schema 1) and what the roof adds to its events.

May not fold or render anything: fold.py makes these values, the twins and the widgets read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

SCHEMA = 1
MIME = "application/vnd.agent-kernel.turn.v1+json"

Glyph = Literal[
    "ok", "run", "ask", "risk", "err", "lost", "stale", "pause", "unknown", "off", "think", "none"
]  # fmt: skip
Span = list[str]
"""A piece of a line: [kind, text], kind "t" text, "c" code, "b" bold, "d" dim, "x" boxed name."""
Line = list[Span]
DiffRow = list[Any]
"""A line of a diff: [old number or None, new number or None, " ", "+", "-" or "@", text]."""


class Body(TypedDict, total=False):
    """What a row shows when it is unfolded; every key is optional."""

    code: Line
    text: str
    more: str
    diff: list[DiffRow]
    tail: list[str]
    error: str
    notes: list[Line]


class Item(TypedDict, total=False):
    """One row of a turn in reading order: `kind` is call, thinking, text, note or group."""

    kind: Literal["call", "thinking", "text", "note", "group"]
    key: str
    glyph: Glyph
    word: str
    name: str
    arg: str
    cut: Literal["middle", "end"]
    seconds: float | None
    ticking: bool
    size: str
    open: bool
    body: Body
    md: str
    streaming: bool
    line: Line
    items: list[Any]


class Shown(TypedDict):
    """An exact text as an approval shows it: whole, or head, folded middle and tail."""

    head: Line
    middle: Line
    tail: Line
    hidden: int


class Choice(TypedDict, total=False):
    """One button: its label, the message `type` it sends, and what the message holds besides."""

    type: str
    label: str
    primary: bool
    send: dict[str, Any]


class Approval(TypedDict, total=False):
    """One call that waits for a person; `nonce` is "" when no kernel can take an answer."""

    id: str
    short: str
    nonce: str
    hash: str
    tool: str
    glyph: Glyph
    word: str
    title: str
    path: str
    note: str
    asked: Line
    shown: Shown | None
    diff: list[DiffRow]
    bullets: list[Line]
    choices: list[Choice]
    rules: list[str]
    edit: dict[str, str] | None
    stale: str
    commands: list[str]
    answered: bool


class Asked(TypedDict, total=False):
    """One question of the model that waits, or waited; `nonce` is "" when no kernel can take an
    answer. `blocks` are the parsed Markdown of the question."""

    id: str
    short: str
    nonce: str
    kind: str
    glyph: Glyph
    word: str
    title: str
    md: str
    blocks: list[Any]
    options: list[str]
    multiple: bool
    commands: list[str]
    answered: bool


class Queued(TypedDict):
    """Words of the person that wait for the next step; `seq` is that of their inbox item."""

    seq: int
    text: str


class Note(TypedDict, total=False):
    """A banner: what happened, what was and was not done, and what goes on from here."""

    glyph: Glyph
    word: str
    role: Literal["status", "alert"]
    lines: list[Line]
    actions: list[Choice]
    commands: list[str]


class TaskRow(TypedDict, total=False):
    """One task of a panel; `word` is running, finished, failed, stopped or lost."""

    id: str
    glyph: Glyph
    word: str
    kind: str
    label: str
    seconds: float | None
    ticking: bool
    size: str
    tail: list[str]
    line: Line
    action: str


class Head(TypedDict, total=False):
    """The line over a running turn."""

    glyph: Glyph
    word: str
    title: str
    note: str
    actions: list[Choice]
    quiet: float | None


class TurnView(TypedDict):
    """A turn, folded: the one value all four mimes and the widget are made from."""

    schema: int
    turn: int | None
    agent: str
    state: str
    seq: list[int]
    saved: str
    head: Head | None
    notes: list[Note]
    items: list[Item]
    todo: list[dict[str, str]]
    tasks: list[TaskRow]
    approvals: list[Approval]
    questions: list[Asked]
    answer: str
    steer: bool
    queued: list[Queued]
    phases: str
    footer: list[str]


class PanelView(TypedDict):
    """The task panel: what runs beside the notebook's cells, and what it asks of the person."""

    head: Head
    saved: str
    todo: list[dict[str, str]]
    tasks: list[TaskRow]
    tree: str
    approvals: list[Approval]
    questions: list[Asked]
    steer: bool
    queued: list[Queued]
    foot: list[str]


@dataclass(frozen=True, slots=True)
class Ask:
    """What the kernel keeps of an open approval and no log holds; `hash` is of the canonical input.

    `rules` are those that load and would cover the call; `diff` is a unified diff made now; `stale`
    is the sentence that says how the target changed, "" while it did not.
    """

    nonce: str
    hash: str
    rules: tuple[str, ...] = ()
    diff: str = ""
    stale: str = ""
    bullets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Live:
    """The running part of a turn that is in no event yet; times are unix seconds.

    `writing` is the tool whose input the model is writing; `tails` are the last output lines of
    running calls by call id, and of running tasks by task id; `heard` is when anything last came;
    `questions` are the kernel's own.
    """

    now: float
    text: str = ""
    thinking: str = ""
    writing: str = ""
    heard: float | None = None
    tails: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, Ask] = field(default_factory=dict)
    waiting_tasks: bool = False
    stopped_by: str = ""
    questions: Sequence[Asked] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """Why a turn is shown from the log: what this kernel lacks, and what changed since.

    `missing` are names, `changed` sentences, `calls` the number of Python calls that can be re-run.
    """

    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    calls: int = 0
