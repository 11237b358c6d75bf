"""Facts: what a session knew before a compaction, and whether it was there when it was needed.

May not take a JSON key or a word of a tool's schema for a fact.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.frames.assemble import Mark, Session
from agent_kernel.frames.blocks import compaction_id
from agent_kernel.frames.load import Block, Load
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows
from agent_kernel.frames.texts import Texts, strings

WINDOW = 40  # tool calls after a boundary in which a fact counts as used
_FACT = re.compile(
    r"(?P<url>https?://[^\s<>\"'`)\]}]{4,200})"
    r"|(?P<path>(?<![\w./@-])(?:~/|\.{1,2}/|/)?(?:[\w.@+-]+/)+[\w.@+-]*\w)"
    r"|(?P<hash>(?<![\w-])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{7,40})(?![\w-]))"
    r"|(?P<identifier>(?<!\w)[A-Za-z_]\w{4,60}(?!\w))"
    r"|(?P<number>(?<![\w.])\d{3,12}(?:\.\d+)?(?!\w))"
)
# An identifier is a name, not a word: it has a hump or an underscore inside.
_NAME = re.compile(r"[a-z\d][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z\d]_[A-Za-z\d]")
# Constants of tool schemas.
ENUMS = frozenset(
    "in_progress files_with_matches general_purpose output_mode head_limit replace_all activeForm "
    "run_in_background subagent_type tool_use_id tool_result tool_use is_error file_path "
    "old_string new_string notebook_path acceptEdits".split()
)
Fact = tuple[str, str]


def facts_of(text: str) -> Iterator[Fact]:
    """Yield (kind, value) of every fact in a text; a path is its last two components."""
    for found in _FACT.finditer(text):
        kind, value = str(found.lastgroup), found[0].rstrip(".,:;")
        if kind == "path":
            yield kind, "/".join(value.rstrip("/").split("/")[-2:])
        elif kind == "hash":
            if re.search(r"\d", value) and re.search(r"[a-f]", value):
                yield kind, value
        elif kind != "identifier" or (_NAME.search(value) and value not in ENUMS):
            yield kind, value


def values_of(text: str, kind: str) -> str:
    """Return what of a block's text may hold facts: of a tool's input its values, not its keys."""
    if kind != "tool_use":
        return text
    try:
        given = json.loads(text)
    except ValueError:
        return text
    return "\n".join(strings(given))


@dataclass(slots=True)
class Seen:
    """Where a fact stood before a boundary."""

    first: int
    last: int
    count: int = 0


@dataclass(slots=True)
class Around:
    """The facts around one boundary: before, in summary and kept text, used and seen after."""

    before: dict[Fact, Seen] = field(default_factory=dict)
    summary: set[Fact] = field(default_factory=set)
    kept: set[Fact] = field(default_factory=set)
    used: set[Fact] = field(default_factory=set)
    back: dict[Fact, Block] = field(default_factory=dict)


def around(load: Load) -> dict[tuple[str, int], Around]:
    """Return the facts around every committed boundary, by (session, seq of the boundary)."""
    load.records  # noqa: B018 - the chain must be known
    texts = Texts(load.store)
    by_session: dict[str, list[Block]] = defaultdict(list)
    for block in load.blocks:
        if block["agent"] == "main" and not block["nested"] and not block["rec"].superseded:
            by_session[block["rec"].session].append(block)
    found: dict[tuple[str, int], Around] = {}
    for session in load.assembled.sessions.values():
        marks = [mark for mark in session.marked("boundary") if mark.rec.agent == "main"]
        if marks:
            told = _told(by_session[session.id], texts)
            for mark in marks:
                found[session.id, mark.rec.seq or 0] = _around(mark, told)
    return found


def _told(blocks: list[Block], texts: Texts) -> list[tuple[Block, list[Fact]]]:
    """Return every block with its facts, in order."""
    groups: dict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        groups[block["rec"].id].append(block)
    told = []
    for group in groups.values():
        said = texts.blocks(group[0]["rec"], [block["sha"] for block in group])
        for block, text in zip(group, said, strict=True):
            told.append((block, list(facts_of(values_of(text, block["kind"])))))
    told.sort(key=lambda one: one[0]["rec"].seq or 0)
    return told


def _around(mark: Mark, told: list[tuple[Block, list[Fact]]]) -> Around:
    out, epoch, kept = Around(), mark.rec.epoch, set(mark.data.get("kept") or ())
    after: list[tuple[Block, list[Fact]]] = []
    for block, facts in told:
        rec = block["rec"]
        if rec.epoch == epoch - 1:
            _known(out, block, facts, held=rec.uuid in kept or rec.chain == "preserved")
        elif rec.epoch == epoch and block["source"] == "summary":
            out.summary.update(facts)
        elif rec.epoch == epoch:
            after.append((block, facts))
    _used(out, after)
    return out


def _known(out: Around, block: Block, facts: list[Fact], *, held: bool) -> None:
    seq = block["rec"].seq or 0
    for fact in facts:
        seen = out.before.setdefault(fact, Seen(seq, seq))
        seen.last, seen.count = seq, seen.count + 1
    if held:
        out.kept.update(facts)


def _used(out: Around, after: list[tuple[Block, list[Fact]]]) -> None:
    """Note which facts the model used within the window before anything told them again."""
    again: set[Fact] = set()
    calls = 0
    for block, facts in after:
        if block["kind"] == "tool_use":
            calls += 1
            out.used.update(fact for fact in facts if fact not in again)
        elif block["source"] in ("tool_result", "prompt"):
            for fact in facts:
                if fact not in again and fact in out.before:
                    out.back.setdefault(fact, block)
            again.update(facts)
        if calls >= WINDOW:
            return


def build(load: Load) -> Columns:
    """Return one row a fact and boundary, for path, identifier, hash, url and number."""
    found = load.once(around)
    spread = _spread(found)
    rows: list[dict[str, Any]] = []
    for session in load.assembled.sessions.values():
        for mark in session.marked("boundary"):
            here = found.get((session.id, mark.rec.seq or 0))
            if here is not None:
                rows += _rows(session, mark, here, spread)
    return of_rows("facts", rows)


def _spread(found: dict[tuple[str, int], Around]) -> dict[Fact, int]:
    sessions: dict[Fact, set[str]] = defaultdict(set)
    for (session, _), here in found.items():
        for fact in here.before:
            sessions[fact].add(session)
    return {fact: len(names) for fact, names in sessions.items()}


def _rows(
    session: Session, mark: Mark, here: Around, spread: dict[Fact, int]
) -> Iterable[dict[str, Any]]:
    name = compaction_id(mark.rec, mark.data)
    for fact, seen in here.before.items():
        used, told, kept = fact in here.used, fact in here.summary, fact in here.kept
        back = here.back.get(fact)
        yield {
            "session_id": session.id,
            "compaction_id": name,
            "kind": fact[0],
            "value": fact[1],
            "first_seq": seen.first,
            "last_seq": seen.last,
            "n": seen.count,
            "in_summary": told,
            "in_kept": kept,
            "used_after": used,
            "lost": used and not told and not kept,
            "recovered_call": back["tool_use_id"] if back else None,
            "recovery_tokens": round((back["chars"] or 0) / 2.75) if back else None,
            "sessions_with_it": spread[fact],
        }


def recall(here: Around, kinds: Iterable[str] = ("path", "identifier", "hash")) -> float | None:
    """Return the share of facts used after that the summary or a kept message holds."""
    wanted = set(kinds)
    used = [fact for fact in here.used if fact in here.before and fact[0] in wanted]
    if not used:
        return None
    return sum(fact in here.summary or fact in here.kept for fact in used) / len(used)
