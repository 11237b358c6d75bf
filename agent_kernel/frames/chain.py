"""Chain: which records of a session the model sees, by the official walk and by ours.

May not use time: timestamps are data, the order of lines is the order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.frames.assemble import Rec, Session
from agent_kernel.frames.reader import CHAIN, FAULT, MESSAGE, META, SUMMARY, TEAM


@dataclass(slots=True)
class Chain:
    """The walk of one session: records seen now by rule, losses of the official walk, findings."""

    official: list[Rec] = field(default_factory=list)
    ours: list[Rec] = field(default_factory=list)
    results: int = 0
    official_lost: int = 0
    ours_lost: int = 0
    sibling_calls: int = 0
    walked: set[int] = field(default_factory=set)
    forked_from: str | None = None
    surfaces: dict[int, list[int]] = field(default_factory=dict)  # after a change, by record id
    issues: list[tuple[str, Rec, str]] = field(default_factory=list)


@dataclass(slots=True)
class Tools:
    """Which tool calls records make and answer, by record id, and whose session a uuid is of."""

    asks: Mapping[int, list[str]]
    answers: Mapping[int, list[str]]
    sessions: Mapping[str, str] = field(default_factory=dict)  # of every uuid of the load


def walk(session: Session, tools: Tools) -> Chain:
    """Set `chain` and `active` of every record of a transcript session and return the walk."""
    found = Chain()
    nodes = _Nodes(session, tools)
    _strangers(session)
    leaf = nodes.leaf()
    if leaf is None:
        return found
    official = nodes.up(leaf, found, repair=False)
    found.official = [r for r in reversed(official) if not r.flags & META or r.flags & SUMMARY]
    seen = nodes.up(leaf, found, repair=True)
    on = {rec.id for rec in official}
    for rec in seen:
        rec.chain = "official" if rec.id in on else "repaired"
        rec.active = True
    _join(nodes, seen, "sibling", found, active=True)
    _preserved(session, nodes, seen, found)
    _history(nodes, seen, found)
    _hang(session, nodes)
    for rec in session.main:
        if rec.chain is None:
            rec.chain = "rewound" if rec.flags & CHAIN else "side_line"
    found.ours = _ordered([rec for rec in session.main if rec.active and not rec.flags & META])
    _losses(session, nodes, found)
    return found


class _Nodes:
    """The parent graph of a session's main agent; the last line of a uuid gives its parent."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self.tools = tools
        self.main = [rec for rec in session.main if rec.flags & CHAIN and rec.uuid]
        self.by_uuid = {rec.uuid: rec for rec in self.main}
        self.place = {rec.id: number for number, rec in enumerate(self.main)}
        self.by_message: dict[str, list[Rec]] = defaultdict(list)
        self.by_answer: dict[str, list[Rec]] = defaultdict(list)
        for rec in self.main:
            if rec.superseded:
                continue
            if rec.message_id:
                self.by_message[rec.message_id].append(rec)
            for name in tools.answers.get(rec.id, ()):
                self.by_answer[name].append(rec)

    def leaf(self) -> Rec | None:
        """Return the last message nobody follows, found by walking back from any last node."""
        parents = {rec.parent for rec in self.by_uuid.values()}
        best: Rec | None = None
        for rec in self.by_uuid.values():
            if rec.uuid in parents:
                continue
            message = self._message(rec)
            if message and (best is None or self.place[message.id] > self.place[best.id]):
                best = message
        return best

    def _message(self, rec: Rec) -> Rec | None:
        seen: set[int] = set()
        at: Rec | None = rec
        while at is not None and not _is_message(at):
            if at.id in seen:
                return None
            seen.add(at.id)
            at = self.by_uuid.get(at.parent) if at.parent else None
        return at

    def up(self, leaf: Rec, found: Chain, *, repair: bool) -> list[Rec]:
        """Return the records from `leaf` to its root; `repair` bridges a lost parent."""
        walked: list[Rec] = []
        seen: set[int] = set()
        at: Rec | None = leaf
        while at is not None:
            if at.id in seen:
                if repair:
                    found.issues.append(
                        ("parent_cycle", at, f"line {at.uuid!r} is its own ancestor; walk stops")
                    )
                break
            seen.add(at.id)
            found.walked.add(at.id)
            walked.append(at)
            at = self._parent(at, found, repair)
        return walked

    def _parent(self, rec: Rec, found: Chain, repair: bool) -> Rec | None:
        if rec.parent is None:
            return None
        parent = self.by_uuid.get(rec.parent)
        if parent is not None or not repair:
            return parent
        if rec.parent in self.tools.sessions:  # a resumed session goes on from another's lines
            found.forked_from = self.tools.sessions[rec.parent]
            return None
        before = self.place[rec.id] - 1
        while before >= 0 and self.main[before].superseded:
            before -= 1
        bridged = self.main[before] if before >= 0 else None
        how = f"continued at {bridged.uuid!r}" if bridged else "nothing stands before it"
        found.issues.append(
            ("dangling_parent", rec, f"parent {rec.parent!r} is not in the file; {how}")
        )
        return bridged


def _is_message(rec: Rec) -> bool:
    return bool(rec.flags & MESSAGE) and not rec.flags & (META | TEAM)


def _strangers(session: Session) -> None:
    for rec in session.records:
        if rec.sidechain or rec.agent != "main":
            rec.chain = "sidechain"
        elif not rec.flags & CHAIN or not rec.uuid:
            rec.chain = "side_line"


def _join(nodes: _Nodes, seen: list[Rec], reason: str, found: Chain, *, active: bool) -> None:
    """Add lines of the same response and the results of its calls; first result of an id wins."""
    here = {rec.id for rec in seen}
    answered = {name for rec in seen for name in nodes.tools.answers.get(rec.id, ())}
    queue = list(seen)
    while queue:
        rec = queue.pop()
        more = [one for one in nodes.by_message.get(rec.message_id or "", ()) if one.id not in here]
        found.sibling_calls += sum(len(nodes.tools.asks.get(one.id, ())) for one in more)
        for name in nodes.tools.asks.get(rec.id, ()):
            given = [one for one in nodes.by_answer.get(name, ()) if one.id not in here]
            if given and name not in answered:
                more.append(given[0])
        for one in more:
            if one.id in here:
                continue
            here.add(one.id)
            answered.update(nodes.tools.answers.get(one.id, ()))
            one.chain, one.active = reason, active
            seen.append(one)
            queue.append(one)


def _preserved(session: Session, nodes: _Nodes, seen: list[Rec], found: Chain) -> None:
    """Add the tail the last active boundary kept, unless it was written again on the chain."""
    here = {rec.id for rec in seen}
    for mark in session.marked("boundary"):
        if mark.rec.id not in here:
            continue
        for name in _kept(mark.data, nodes):
            rec = nodes.by_uuid.get(name)
            if rec is None:
                text = f"boundary {mark.rec.uuid!r} keeps {name!r}, which is not in the file"
                found.issues.append(("preserved_missing", mark.rec, text))
            elif rec.id not in here:
                here.add(rec.id)
                rec.chain, rec.active = "preserved", True
                seen.append(rec)
        _join(nodes, seen, "preserved", found, active=True)


def _kept(data: Mapping[str, Any], nodes: _Nodes) -> Iterable[str]:
    """Return the uuids a boundary keeps: listed, or from head to tail along the parents."""
    if data.get("kept"):
        return [str(one) for one in data["kept"]]
    head, tail = data.get("head"), data.get("tail")
    if not head or not tail:
        return []
    names: list[str] = []
    at = nodes.by_uuid.get(tail)
    while at is not None and at.uuid and at.uuid not in names:
        names.append(at.uuid)
        if at.uuid == head:
            return reversed(names)
        at = nodes.by_uuid.get(at.parent) if at.parent else None
    return [head, tail] if head != tail else [head]


def _ordered(active: list[Rec]) -> list[Rec]:
    """Return the active records as the model sees them: a kept tail stands after the summary."""
    kept = [rec for rec in active if rec.chain == "preserved"]
    rest = [rec for rec in active if rec.chain != "preserved"]
    at = next((n + 1 for n, rec in enumerate(rest) if rec.flags & SUMMARY), 0)
    return [*rest[:at], *kept, *rest[at:]]


def _history(nodes: _Nodes, seen: list[Rec], found: Chain) -> None:
    """Follow the logical parents of boundaries: what earlier epochs saw, on the branch that won."""
    todo = list(seen)
    done: set[int] = set()
    while todo:
        rec = todo.pop()
        if rec.logical is None or rec.id in done:
            continue
        done.add(rec.id)
        start = nodes.by_uuid.get(rec.logical) or _before(nodes, rec)
        if start is None:
            continue
        old = [one for one in nodes.up(start, found, repair=True) if one.chain is None]
        for one in old:
            one.chain = "history"
        _join(nodes, old, "history", Chain(), active=False)
        todo.extend(old)


def _before(nodes: _Nodes, rec: Rec) -> Rec | None:
    place = nodes.place.get(rec.id, 0)
    return nodes.main[place - 1] if place else None


def _hang(session: Session, nodes: _Nodes) -> None:
    """Let progress, hooks and notes beside a message share its place."""
    for rec in session.main:
        if rec.chain is not None or not rec.uuid:
            continue
        at: Rec | None = rec
        seen: set[int] = set()
        while at is not None and at.chain is None and at.id not in seen:
            if at.flags & MESSAGE and not at.flags & FAULT:
                at = None
                break
            seen.add(at.id)
            at = nodes.by_uuid.get(at.parent) if at.parent else None
        if at is not None and at.chain is not None:
            rec.chain = "history" if at.chain == "history" else "sibling"
            rec.active = at.active
            if at.chain == "rewound":
                rec.chain, rec.active = "rewound", False


def _losses(session: Session, nodes: _Nodes, found: Chain) -> None:
    """Count results of on-chain calls that each walk does not reach, over all epochs."""
    for rec in session.main:
        if rec.chain in (None, "rewound", "side_line", "copy") or rec.superseded:
            continue
        for name in nodes.tools.asks.get(rec.id, ()):
            given = nodes.by_answer.get(name)
            if given:
                found.results += 1
                found.official_lost += given[0].id not in found.walked
                found.ours_lost += given[0].chain in (None, "rewound", "side_line")
