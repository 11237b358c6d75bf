"""Facts: the names, places and numbers of a history by what they are, and the person's constraints.

May not read a JSON key as a value, nor count what a recall or a marker only repeats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from agent_kernel.compaction.markers import MARKER
from agent_kernel.compaction.nodes import RECALL, WRITE, path_of
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    Event,
    SurfaceEvent,
    ToolResultEvent,
    UserMessage,
)
from agent_kernel.core.messages import Block, Text, Thinking, ToolUse, text_of

Kind = Literal["path", "identifier", "hash", "url", "number"]
Role = Literal["user", "input", "assistant", "summary", "result", "thinking"]
KINDS: tuple[Kind, ...] = ("path", "identifier", "hash", "url", "number")

_EXTENSIONS = (
    "py|pyi|go|mod|sum|ts|tsx|js|jsx|mjs|cjs|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|lua|r|"
    "md|rst|txt|json|jsonl|yaml|yml|toml|ini|cfg|conf|env|sh|bash|zsh|sql|html|css|scss|svg|png|"
    "ipynb|csv|tsv|parquet|lock|xml|proto|gz|zip|log|tmpl|vue|ex|exs|tf|dockerfile|gradle"
)
_FACT = re.compile(
    r"(?P<url>https?://[^\s<>\"'`)\]}]+)"
    r"|(?P<path>(?<![\w./@-])(?:~/|\.{1,2}/|/)?(?:[\w.@+-]+/)+[\w.@+*-]*[\w*]"
    rf"|(?<![\w./@-])[\w-][\w.-]*\.(?:{_EXTENSIONS})(?![\w.-]*\w))"
    r"|(?P<hash>(?<![\w-])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{7,40})(?![\w-]))"
    r"|(?P<identifier>(?<![\w])[A-Za-z_]\w{4,}(?![\w]))"
    r"|(?P<number>(?<![\w.])\d{3,}(?:\.\d+)?(?![\w]))"
)
_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|\\]{3,2000}")
_HUMP = re.compile(r"[a-z\d][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z\d]_[A-Za-z\d]")
_LAST = re.compile(rf"[\w.+*-]+\.(?:{_EXTENSIONS})", re.IGNORECASE)
_NAMED = frozenset({"Makefile", "Dockerfile", "Justfile", "Gemfile", "Rakefile", "Vagrantfile"})
_MIME = re.compile(r"(?:text|application|image|audio|video)/[\w.+-]+")
# Words of tool schemas: constants, not facts of the work.
ENUMS = frozenset(
    "in_progress files_with_matches general_purpose output_mode head_limit multiline acceptEdits "
    "is_background run_in_background replace_all activeForm subagent_type toolUseId tool_use_id "
    "tool_result tool_use is_error file_path old_string new_string notebook_path".split()
)


@dataclass(frozen=True, slots=True)
class Mention:
    """One block that holds a fact: its event, its number in the history, who said it.

    `tool` is the one an input was for; `among` = how many facts the block holds.
    """

    seq: int
    block: int
    role: Role
    tool: str = ""
    among: int = 1


@dataclass
class Fact:
    """One value of the history and the blocks that hold it; two spellings share `norm`."""

    kind: Kind
    value: str
    norm: str
    places: list[Mention] = field(default_factory=list)
    changed: bool = False  # a path that an edit or write was about

    @property
    def first_seq(self) -> int:
        """The first event that holds it."""
        return self.places[0].seq

    @property
    def last_seq(self) -> int:
        """The last event that holds it."""
        return self.places[-1].seq

    @property
    def mentions(self) -> int:
        """In how many blocks it stands."""
        return len(self.places)

    @property
    def role(self) -> Role:
        """Who said it first."""
        return self.places[0].role


@dataclass(frozen=True, slots=True)
class Said:
    """One block of the history: who said what, and the number of the block."""

    seq: int
    block: int
    role: Role
    text: str
    tool: str = ""
    path: str = ""  # the file an edit or write is about


@lru_cache(maxsize=200_000)
def norm_of(kind: Kind, value: str) -> str:
    """Return what two spellings of one value share: a path's last two parts, else the value.

    Two paths match when equal, or when their last two parts are and the name is longer than 5.
    """
    if kind != "path":
        return value.rstrip("/") if kind == "url" else value
    parts = [part for part in value.split("/") if part not in ("", ".", "~", "..")]
    if len(parts) >= 2 and len(parts[-1]) > 5:
        return "/".join(parts[-2:])
    return "/".join(parts)


def found_in(text: str) -> Iterator[tuple[Kind, str]]:
    """Yield kind and value of the facts of a text, each once, in no order that means anything."""
    for token in dict.fromkeys(_TOKEN.findall(text)):
        yield from _of_token(token)


@lru_cache(maxsize=400_000)
def _of_token(token: str) -> tuple[tuple[Kind, str], ...]:
    made = (_checked(match.lastgroup, match.group()) for match in _FACT.finditer(token))
    return tuple(fact for fact in made if fact is not None)


def _checked(kind: str | None, value: str) -> tuple[Kind, str] | None:
    match kind:
        case "url":
            return ("url", value.rstrip(".,;:!?"))
        case "path":
            return _path(value)
        case "hash":
            mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
            return ("hash", value) if mixed else None
        case "identifier":
            good = len(value) > 5 and _HUMP.search(value) and value not in ENUMS
            return ("identifier", value) if good else None
    return ("number", value)


def _path(value: str) -> tuple[Kind, str] | None:
    """Return the path of a match: a file by its ending; a folder is part of its files' paths."""
    value = value.rstrip(".,;:")
    while value.startswith("./"):
        value = value[2:]
    name = value.rsplit("/", 1)[-1]
    known = _LAST.fullmatch(name) is not None or name in _NAMED
    return ("path", value) if known and not _MIME.fullmatch(value) else None


def values(value: Any) -> Iterator[str]:
    """Yield the texts among a tool input's values, never its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from values(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from values(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def said(events: Iterable[Event]) -> Iterator[Said]:
    """Yield the blocks of surface events in order; recalled copies and our own markers are left
    out."""
    number, recalls = 0, set[str]()
    for event in events:
        if not isinstance(event, SurfaceEvent):
            continue
        for role, text, call in _texts(event, recalls):
            tool = call.name if call is not None else ""
            path = (path_of(call) or "") if call is not None and tool in WRITE else ""
            yield Said(event.seq, number, role, MARKER.sub("", text), tool, path)
            number += 1


Spoken = tuple[Role, str, ToolUse | None]


def _texts(event: SurfaceEvent, recalls: set[str]) -> Iterator[Spoken]:
    match event:
        case ToolResultEvent():
            if event.id not in recalls and not event.meta.get("recalled"):
                yield "result", text_of(event.content), None
        case UserMessage():
            yield "user", text_of(event.content), None
        case Attachment():
            role: Role = "summary" if event.kind == "summary" else "result"
            yield role, text_of(event.content), None
        case AssistantMessage():
            for block in event.content:
                yield from _spoken(block, recalls)


def _spoken(block: Block, recalls: set[str]) -> Iterator[Spoken]:
    match block:
        case ToolUse(name=name) if name == RECALL:
            recalls.add(block.id)
        case ToolUse():
            yield "input", "\n".join(values(block.input)), block
        case Text():
            yield "assistant", block.text, None
        case Thinking():
            yield "thinking", block.thinking, None


def facts(events: Iterable[Event]) -> list[Fact]:
    """Return the facts of a history in the order of their first mention; once a block each.

    Values only: keys of tool inputs are no facts. Equal paths of two spellings are one fact, under
    the longest spelling.
    """
    return facts_of(said(events))


def facts_of(blocks: Iterable[Said]) -> list[Fact]:
    """Return the facts of blocks already taken apart."""
    by_norm: dict[tuple[Kind, str], Fact] = {}
    for block in blocks:
        here: dict[tuple[Kind, str], str] = {}
        for kind, value in found_in(block.text):
            key = (kind, norm_of(kind, value))
            if len(value) > len(here.get(key, "")):
                here[key] = value
        written = ("path", norm_of("path", block.path)) if block.path else None
        for key, value in here.items():
            fact = by_norm.get(key)
            if fact is None:
                fact = by_norm[key] = Fact(key[0], value, key[1])
            elif len(value) > len(fact.value):
                fact.value = value
            fact.changed = fact.changed or key == written
            fact.places.append(Mention(block.seq, block.block, block.role, block.tool, len(here)))
    return list(by_norm.values())
