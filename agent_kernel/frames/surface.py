"""Surface: the fold of a log whose events say themselves what replaces what.

May not guess: an event joins the surface when the log says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from agent_kernel.frames.assemble import Rec, Session
from agent_kernel.frames.chain import Chain
from agent_kernel.frames.reader import LOG_ONLY

Said = dict[str, dict[str, Any]]


def fold(session: Session, sessions: Mapping[str, Session]) -> Chain:
    """Set `chain` and `active` of every record of a log session and return the walk.

    A fork begins on the surface its parent, one of `sessions`, had at the cut.
    """
    found = Chain()
    surfaces = _Surfaces(found)
    for rec, said in _inherited(session, sessions):
        surfaces.take(rec, said)
    said_of = _said(session)
    for rec in session.records:
        before = surfaces.changes
        surfaces.take(rec, said_of.get(rec.id, {}))
        if surfaces.changes != before:
            found.surfaces[rec.id] = list(surfaces.of[rec.agent])
    for rec in session.records:
        rec.chain = "side_line" if rec.flags & LOG_ONLY else "history"
        if rec.agent != "main":
            rec.chain = "sidechain"
    by_seq = {rec.seq: rec for rec in session.records}
    for seq in surfaces.of["main"]:
        if seq in by_seq:
            by_seq[seq].chain, by_seq[seq].active = "official", True
    found.ours = found.official = [rec for rec in session.records if rec.active]
    return found


def _said(session: Session) -> dict[int, Said]:
    marks: dict[int, Said] = defaultdict(dict)
    for mark in session.marks:
        marks[mark.rec.id][mark.kind] = mark.data
    return marks


def _inherited(session: Session, sessions: Mapping[str, Session]) -> list[tuple[Rec, Said]]:
    """Return the events a fork shares with its parents, oldest first."""
    fork = next(session.marked("fork"), None)
    parent = sessions.get(str(fork.data.get("from"))) if fork else None
    if fork is None or parent is None or parent is session:
        return []
    cut = fork.data.get("seq")
    said_of = _said(parent)
    own = [
        (rec, said_of.get(rec.id, {}))
        for rec in parent.records
        if isinstance(cut, int) and rec.seq is not None and rec.seq <= cut
    ]
    return [*_inherited(parent, sessions), *own]


class _Surfaces:
    """The surface of every agent, as seqs in order."""

    def __init__(self, found: Chain) -> None:
        self.of: dict[str, list[int]] = defaultdict(list)
        self.changes = 0
        self._found = found
        self._waiting: dict[str, list[tuple[Rec, dict[str, Any]]]] = defaultdict(list)
        self._hidden: dict[int, list[int]] = {}

    def take(self, rec: Rec, said: Said) -> None:
        """Apply one event; a replacement that waits for a compaction joins when it commits."""
        place = said.get("replace")
        if place is not None and place.get("waits"):
            self._waiting[str(place["waits"])].append((rec, place))
        elif place is not None:
            self._place(rec, place)
        elif "reset" in said and rec.seq is not None:
            self.of[rec.agent], self.changes = [rec.seq], self.changes + 1
        elif not rec.flags & LOG_ONLY and rec.seq is not None:
            self.of[rec.agent].append(rec.seq)
        if "commit" in said:
            for held, span in self._waiting.pop(str(said["commit"].get("id")), []):
                self._place(held, span)
        for back in said.get("undo", {}).get("restores", ()):
            self._restore(self.of[rec.agent], back)

    def _place(self, rec: Rec, place: dict[str, Any]) -> None:
        """Append `rec`, or put it in a span's place; the named start may stand after the end."""
        surface = self.of[rec.agent]
        start, end = place.get("start"), place.get("end")
        if rec.seq is None:
            return
        if place.get("append"):
            surface.append(rec.seq)
            return
        if start not in surface or end not in surface:
            text = f"seq {rec.seq} replaces {start}-{end}, which is not on the surface"
            self._found.issues.append(("bad_provenance", rec, text))
            surface.append(rec.seq)
            return
        low, high = sorted((surface.index(start), surface.index(end)))
        self.changes += 1
        self._hidden[rec.seq] = surface[low : high + 1]
        named = place.get("sources")
        missed = set(self._hidden[rec.seq]) - set(named) if named else set()
        if missed:
            text = f"seq {rec.seq} hides {sorted(missed)[:5]}, which its sources do not name"
            self._found.issues.append(("bad_provenance", rec, text))
        surface[low : high + 1] = [rec.seq]

    def _restore(self, surface: list[int], back: dict[str, Any]) -> None:
        node = back.get("node")
        if isinstance(node, int) and node in self._hidden and node in surface:
            place = surface.index(node)
            surface[place : place + 1] = self._hidden[node]
            self.changes += 1
