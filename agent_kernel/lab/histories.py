"""Histories: each session of a load as events of ours, its requests and its boundaries.

May not guess an order or a chain: records and calls come from the frames it is given.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_kernel.core.events import SurfaceEvent, event_of
from agent_kernel.core.messages import text_of
from agent_kernel.lab.claude import Made
from agent_kernel.lab.given import Columns, Given, Tables

ON_CHAIN = frozenset({"official", "sibling", "repaired", "history", "preserved"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the main agent: tokens by bucket, dollars, seconds since 1970.

    `at` is the position in `events` of its answer, None when the answer is not there.
    """

    call_id: str
    at: int | None
    seq: int
    epoch: int
    time: float
    model: str
    price_id: str
    context: int
    input: int
    read: int
    write_5m: int
    write_1h: int
    output: int
    output_best: int
    usd: float | None
    cache_event: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """A full compaction: the position in `events` before which all was hidden, and its summary."""

    at: int
    start: int
    epoch: int
    trigger: str
    summary: str


@dataclass
class History:
    """One session: events in order (seq = position), requests, boundaries, micro edits."""

    session: str
    harness: str
    events: list[SurfaceEvent] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)
    boundaries: list[Boundary] = field(default_factory=list)
    damaged: int = 0

    @property
    def group(self) -> str:
        """The session without a copy's mark: what may not be parted between training and test."""
        return self.session.split(".copy")[0]

    def hidden(self, boundary: Boundary) -> list[SurfaceEvent]:
        """Return the events between the boundary before and this one."""
        return self.events[boundary.start : boundary.at]

    def after(self, boundary: Boundary) -> list[SurfaceEvent]:
        """Return the events from this boundary to the next."""
        later = [b.at for b in self.boundaries if b.at > boundary.at]
        return self.events[boundary.at : later[0] if later else len(self.events)]


def histories(tables: Tables, given: Given) -> list[History]:
    """Return the histories of a load, in the order of its sessions; copies count once."""
    sessions = tables.columns("sessions")
    harness = dict(zip(sessions["session_id"], sessions["harness"], strict=True))
    rows = _rows(tables.columns("records"))
    lines = _Lines(given)
    out: list[History] = []
    for name, kind in harness.items():
        made = History(str(name), str(kind))
        if kind == "claude_code":
            _claude(made, rows.get(name, []), lines)
        elif kind == "agent_kernel":
            _own(made, rows.get(name, []), lines)
        out.append(made)
    by_name = {made.session: made for made in out}
    for name, asked in _requests(tables.columns("calls")):
        if name in by_name:
            by_name[name].requests.append(asked)
    return [_placed(made) for made in out]


def _rows(records: Columns) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the main agent by session, in order."""
    wanted = ("session_id", "path", "offset", "bytes", "seq", "type", "subtype", "time", "epoch")
    by_session: dict[str, list[dict[str, Any]]] = defaultdict(list)
    columns = [records[name] for name in wanted]
    state = zip(records["chain"], records["superseded"], records["sidechain"],
                records["agent_id"], records["copy_of"], strict=True)  # fmt: skip
    for values, (chain, old, side, agent, copy) in zip(
        zip(*columns, strict=True), state, strict=True
    ):
        if side or copy is not None or (agent not in (None, "main")):
            continue
        row = dict(zip(wanted, values, strict=True))
        row["on"] = chain in ON_CHAIN and not old
        by_session[row["session_id"]].append(row)
    for listed in by_session.values():
        listed.sort(key=lambda row: row["seq"] or 0)
    return by_session


class _Lines:
    """The lines behind records; one file is held unpacked at a time."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.path = ""
        self.data = b""

    def of(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the JSON object of a record, None when its line is damaged."""
        if row["path"] != self.path:
            stream, _ = self.given.opened(row["path"])
            with stream:
                self.path, self.data = row["path"], stream.read()
        line = self.data[row["offset"] : row["offset"] + row["bytes"]]
        try:
            value = _loads(line)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


def _loads(line: bytes) -> Any:
    import orjson  # noqa: PLC0415

    try:
        return orjson.loads(line)
    except ValueError:  # a lone surrogate, which json takes
        return json.loads(line.decode("utf-8-sig", "replace"), strict=False)


def _claude(made: History, rows: Sequence[Mapping[str, Any]], lines: _Lines) -> None:
    events = Made()
    marks: list[tuple[int, int, str]] = []
    for row in rows:
        boundary = row["subtype"] == "compact_boundary"
        if not (row["on"] or boundary) or row["type"] not in ("user", "assistant", "system"):
            continue
        record = lines.of(row)
        if record is None:
            made.damaged += 1
        elif boundary:
            meta = record.get("compactMetadata")
            trigger = meta.get("trigger") if isinstance(meta, Mapping) else None
            marks.append((len(events.events), row["epoch"] or 0, str(trigger or "auto")))
        else:
            events.take(record, (row["time"] or 0) / 1000)
    made.events, places = events.numbered()
    places.append(len(made.events))
    _bound(made, [(places[at], epoch, trigger) for at, epoch, trigger in marks])


def _own(made: History, rows: Sequence[Mapping[str, Any]], lines: _Lines) -> None:
    """Take our own log: what was appended in order; a committed summary is a boundary."""
    marks: list[tuple[int, int, str]] = []
    held: list[SurfaceEvent] = []
    for row in rows:
        record = lines.of(row)
        if record is None:
            made.damaged += 1
            continue
        event = event_of(record)
        if not isinstance(event, SurfaceEvent):
            continue
        if event.replaces is None:
            held.append(event)
        elif getattr(event, "meta", {}).get("layer") == "auto":
            marks.append((len(held), row["epoch"] or 0, "auto"))
            held.append(event.model_copy(update={"replaces": None, "sources": ()}))
    made.events = [e.model_copy(update={"seq": at}) for at, e in enumerate(held)]
    _bound(made, marks)


def _bound(made: History, marks: Sequence[tuple[int, int, str]]) -> None:
    start = 0
    for at, epoch, trigger in marks:
        near = made.events[at : at + 6]
        texts = (text_of(e.blocks()) for e in near if getattr(e, "kind", "") == "summary")
        made.boundaries.append(Boundary(at, start, epoch, trigger, next(texts, "")))
        start = at


def _requests(calls: Columns) -> Iterator[tuple[str, Asked]]:
    names = list(calls)
    for values in zip(*calls.values(), strict=True):
        row = dict(zip(names, values, strict=True))
        if row["agent_kind"] != "main" or row["nested"] or not row["context"] or row["rewound"]:
            continue
        time = row["time_first"] if row["time_first"] is not None else row["time_last"]
        yield str(row["session_id"]), Asked(
            str(row["call_id"]), None, 0, int(row["epoch"] or 0), (time or 0) / 1000,
            str(row["model"]), str(row["price_id"] or ""), int(row["context"]),
            int(row["input"] or 0), int(row["cache_read"] or 0), int(row["cache_write_5m"] or 0),
            int(row["cache_write_1h"] or 0), int(row["output_recorded"] or 0),
            max(int(row["output_recorded"] or 0), int(row["output_est"] or 0)),
            row["usd_recorded"], str(row["cache_event"] or ""),
        )  # fmt: skip


def _placed(made: History) -> History:
    """Give each request the position of its answer."""
    at_of = {}
    for at, event in enumerate(made.events):
        meta = getattr(event, "meta", {})
        if event.type == "assistant/message":
            at_of[str(meta.get("id", ""))] = at
    made.requests = [replace(asked, at=at_of.get(asked.call_id)) for asked in made.requests]
    return made
