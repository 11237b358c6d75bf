"""Assemble: the lines of all files as records of sessions, copies known, numbered in order.

May not decide which records the model saw; chain.py does.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from agent_kernel.frames.reader import MESSAGE, RESULT, SUMMARY, Columns
from agent_kernel.frames.scan import File
from agent_kernel.frames.values import clean_mark

SHIFT = 40  # record_id = file_id << 40 | byte offset, or seq in our own logs
OWN = "agent_kernel"
LOGS = (OWN, "notebook", "deepseek", "codex")  # the log itself says what replaces what


@dataclass(slots=True)
class Rec:
    """One record: a line or event, where it stands and what became of it."""

    id: int
    file: int
    offset: int
    bytes: int
    type: str | None
    subtype: str | None
    status: str
    uuid: str | None
    parent: str | None
    logical: str | None
    time: int | None
    session: str
    agent: str
    sidechain: bool
    flags: int
    message_id: str | None
    crc: int
    version: str | None
    cwd: str | None
    branch: str | None
    seq: int | None
    turn: int | None
    step: int | None
    epoch: int = 0
    chain: str | None = None
    active: bool = False
    copy_of: int | None = None
    superseded: bool = False


@dataclass(slots=True)
class Mark:
    """A fact beside text and tokens, with the record it stands in."""

    rec: Rec
    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class Session:
    """One session: its records in order without copies, and its marks."""

    id: str
    harness: str
    records: list[Rec] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def main(self) -> list[Rec]:
        """Return the records of the main agent, in order."""
        return [rec for rec in self.records if rec.agent == "main" and not rec.sidechain]

    def marked(self, *kinds: str) -> Iterator[Mark]:
        """Yield the marks of these kinds, in order."""
        return (mark for mark in self.marks if mark.kind in kinds)


@dataclass(slots=True)
class Assembled:
    """All records of a load: in file order, by place, and by session."""

    records: list[Rec]
    places: dict[tuple[int, int], Rec]
    sessions: dict[str, Session]


def assemble(lines: Columns, marks: Columns, files: list[File]) -> Assembled:
    """Return the records behind the `lines` part, with marks, seqs, epochs and turns."""
    records = list(_records(lines, files))
    _apart(records, files)
    _copies(records)
    out = Assembled(records, {(rec.file, rec.offset): rec for rec in records}, {})
    for rec in records:
        session = out.sessions.get(rec.session)
        if session is None:
            harness = files[rec.file].reader
            session = out.sessions[rec.session] = Session(rec.session, harness)
        if rec.copy_of is None:
            session.records.append(rec)
    for mark in _marks(marks, out):
        out.sessions[mark.rec.session].marks.append(mark)
    for session in out.sessions.values():
        _number(session)
        _rewritten(session)
        _epochs(session)
        _turns(session)
    return out


def _records(lines: Columns, files: list[File]) -> Iterator[Rec]:
    fallback = _default_sessions(lines, files)
    own = {file.id for file in files if file.reader in (OWN, "notebook")}
    names = list(lines)
    at = {name: position for position, name in enumerate(names)}
    for row in zip(*lines.values(), strict=True):
        file, offset = row[at["file"]], row[at["offset"]]
        seq = row[at["seq"]]
        low = seq if file in own and seq is not None else offset
        yield Rec(
            file << SHIFT | low,
            file,
            offset,
            row[at["bytes"]] or 0,
            row[at["type"]],
            row[at["subtype"]],
            row[at["status"]],
            row[at["uuid"]],
            row[at["parent"]],
            row[at["logical"]],
            row[at["time"]],
            row[at["session"]] or fallback[file],
            row[at["agent"]] or "main",
            bool(row[at["sidechain"]]),
            row[at["flags"]] or 0,
            row[at["message_id"]],
            row[at["crc"]] or 0,
            row[at["version"]],
            row[at["cwd"]],
            row[at["branch"]],
            seq,
            row[at["turn"]],
            row[at["step"]],
        )


def _default_sessions(lines: Columns, files: list[File]) -> dict[int, str]:
    """Return, by file, the session of lines that name none: the most named, else its name."""
    counts: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for file, session in zip(lines["file"], lines["session"], strict=True):
        if session:
            counts[file][session] += 1
    return {
        file.id: max(counts[file.id], key=lambda name: counts[file.id][name])
        if counts[file.id]
        else PurePath(file.path).name.split(".")[0]
        for file in files
    }


def _apart(records: list[Rec], files: list[File]) -> None:
    """Tell sessions apart that share an id: two logs that differ at one seq are two sessions."""
    logs = {file.id for file in files if file.reader in LOGS}
    seen: dict[tuple[str, int], int] = {}
    clash: dict[tuple[int, str], str] = {}
    for rec in records:
        if rec.file in logs and rec.seq is not None and rec.status == "ok":
            first = seen.setdefault((rec.session, rec.seq), rec.crc)
            if first != rec.crc:
                clash[rec.file, rec.session] = f"{rec.session}#{rec.file}"
    for rec in records:
        rec.session = clash.get((rec.file, rec.session), rec.session)


def _copies(records: list[Rec]) -> None:
    """Mark a line that an earlier file of the same session already holds, byte for byte."""
    seen: dict[tuple[Any, ...], Rec] = {}
    for rec in records:
        if rec.status in ("bad_json", "torn", "not_object"):
            continue
        key = (rec.session, rec.agent, rec.uuid or rec.type, rec.crc, rec.bytes if rec.uuid else 0)
        first = seen.setdefault(key, rec)
        if first is not rec and first.file != rec.file:
            rec.copy_of = first.id
            rec.chain = "copy"


def _marks(marks: Columns, out: Assembled) -> Iterator[Mark]:
    for file, offset, kind, data in zip(
        marks["file"], marks["offset"], marks["mark"], marks["data"], strict=True
    ):
        rec = out.places.get((file, offset))
        if rec is not None and rec.copy_of is None:
            yield Mark(rec, kind, clean_mark(json.loads(data)))


def _number(session: Session) -> None:
    for number, rec in enumerate(session.records, 1):
        if rec.seq is None:
            rec.seq = number


def _rewritten(session: Session) -> None:
    """Mark what is written again with the same id, as kept messages are after a compaction."""
    last: dict[str, Rec] = {}
    for rec in session.records:
        if rec.uuid is not None:
            if rec.uuid in last:
                last[rec.uuid].superseded = True
            last[rec.uuid] = rec


def _epochs(session: Session) -> None:
    """Number the epochs: a boundary of the main agent begins one."""
    begins = {
        mark.rec.id
        for mark in session.marked("boundary")
        if mark.rec.agent == "main" and not mark.rec.sidechain
    }
    epoch = 0
    for rec in session.records:
        if rec.id in begins:
            epoch += 1
        rec.epoch = epoch


def _turns(session: Session) -> None:
    """Number the turns by their opening prompts; other agents join the turn of their time.

    A queued text or a notification that arrives between two steps belongs to the turn under way;
    what a compaction by hand wrote before its command belongs to the command's.
    """
    opens = _openings(session)
    turn, working = 0, False
    begun: list[tuple[int, int]] = []
    for rec in session.records:
        if rec.turn is not None:
            continue
        if rec.id in opens and rec.agent == "main" and not (working and rec.type == "attachment"):
            turn += 1
            if rec.time is not None:
                begun.append((rec.time, turn))
        if rec.agent == "main":
            rec.turn = turn or None
            if rec.flags & MESSAGE:
                working = bool(rec.flags & RESULT)
    begun.sort()
    for rec in session.records:
        if rec.turn is None and rec.agent != "main" and rec.time is not None:
            rec.turn = _turn_at(begun, rec.time)


def _openings(session: Session) -> set[int]:
    """Return the ids of the records turns begin with."""
    prompts = {mark.rec.id: mark for mark in session.marked("prompt") if not mark.rec.sidechain}
    by_hand = {
        mark.rec.id for mark in session.marked("boundary") if mark.data.get("trigger") == "manual"
    }
    opens, began = set(prompts), None
    for rec in session.main if by_hand else ():
        if rec.id in by_hand:
            began = rec.id
        elif rec.message_id is not None:
            began = None
        elif rec.id in prompts and began is not None:
            if prompts[rec.id].data.get("origin") == "command":
                opens = (opens - {rec.id}) | {began}
            began = None
    return opens


def _turn_at(begun: list[tuple[int, int]], time: int) -> int | None:
    place = bisect_right(begun, (time, 1 << 60))
    return begun[place - 1][1] if place else None


def is_summary(rec: Rec) -> bool:
    """Return whether the record is the summary a compaction left."""
    return bool(rec.flags & SUMMARY)
