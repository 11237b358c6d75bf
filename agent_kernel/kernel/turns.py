"""Turns: a log's recorded turns: events, key, record for the notebook, and what a re-run does.

May not send or append anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from agent_kernel.core.events import (
    AssistantMessage,
    CompactionEnd,
    CompactionSummary,
    Event,
    StepStart,
    TurnEnd,
    TurnStart,
)
from agent_kernel.core.messages import Json, Usage, canonical
from agent_kernel.core.session import Session
from agent_kernel.core.usage import cost

SCHEMA = 1


@dataclass(frozen=True)
class Recorded:
    """One turn of a log: the index of its first event, its start, its end (None = still open)."""

    first: int
    start: TurnStart
    end: TurnEnd | None

    @property
    def number(self) -> int:
        """The turn's number."""
        return self.start.turn or 0


# By session and agent: how many events were looked at and the turns in them; a log only grows.
_LOOKED: WeakKeyDictionary[Session, dict[str, tuple[int, tuple[Recorded, ...]]]] = (
    WeakKeyDictionary()
)


def turn_key(prompt: Any, model: str, settings: Json) -> str:
    """Return 32 hex digits of prompt, model and settings: equal ones are the same turn."""
    value = {"prompt": prompt, "model": model, "settings": settings}
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


def recorded(session: Session, agent: str = "main") -> list[Recorded]:
    """Return the turns of `agent` in order; a log read once is read on from there."""
    looks = _LOOKED.setdefault(session, {})
    seen, before = looks.get(agent, (0, ()))
    out = [*before]
    events, total = session.events, len(session.events)
    for index in range(seen, total):
        event = events[index]
        if event.agent != agent:
            continue
        if isinstance(event, TurnStart):
            out.append(Recorded(index, event, None))
        elif isinstance(event, TurnEnd) and out:
            out[-1] = Recorded(out[-1].first, out[-1].start, event)
    looks[agent] = (total, tuple(out))
    return out


def turn_number(session: Session, number: int) -> Recorded:
    """Return turn `number`. Raises KeyError naming how many there are."""
    found = recorded(session)
    for each in found:
        if each.number == number:
            return each
    raise KeyError(f"there is no turn {number}; the log holds {len(found)}")


def events_from(session: Session, first: int) -> list[Event]:
    """Return the events of the turn that begins at index `first`, its agents' among them."""
    events = session.events
    agent = events[first].agent
    out: list[Event] = []
    for index in range(first, len(events)):
        event = events[index]
        if index > first and isinstance(event, TurnStart) and event.agent == agent:
            break
        out.append(event)
        if isinstance(event, TurnEnd) and event.agent == agent:
            break
    return out


def record(session: Session, first: int, *, replayed: bool = False) -> Json:
    """Return what a notebook keeps of a turn (log.md §5): the record under its output."""
    events = events_from(session, first)
    usage, dollars, model = _spent(events)
    end = events[-1] if isinstance(events[-1], TurnEnd) else None
    return {
        "schema": SCHEMA,
        "session": session.id,
        "turn": events[0].turn,
        "seq": [events[0].seq, events[-1].seq],
        "head_h": session.log.hash_at(events[-1].seq),
        "model": model,
        "steps": sum(isinstance(e, StepStart) and e.agent == events[0].agent for e in events),
        "usage": usage.wire(),
        "cost": dollars,
        "reason": end.reason if end is not None else None,
        "replayed": replayed,
        "time": events[-1].time,
        "compactions": _compactions(events),
    }


def _spent(events: Sequence[Event]) -> tuple[Usage, float | None, str | None]:
    """Return tokens, dollars (None = some price unknown) and the model of a turn's requests."""
    usage, dollars, model = Usage(), 0.0, None
    known = True
    for event in events:
        if isinstance(event, AssistantMessage):
            made = cost(event.model, event.usage)
            model = event.model
        elif isinstance(event, CompactionSummary):
            made = event.cost_usd
        else:
            continue
        usage = usage + event.usage
        known = known and made is not None
        dollars += made or 0.0
    return usage, round(dollars, 6) if known else None, model


def _compactions(events: Sequence[Event]) -> list[Json]:
    return [
        {
            "seq": e.seq,
            "kind": e.compaction_id,
            "before": e.tokens.get("pre"),
            "after": e.tokens.get("post"),
        }
        for e in events
        if isinstance(e, CompactionEnd) and e.status == "committed"
    ]  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What running a cell does: a new turn, the recorded one shown, the open one continued, a fork.

    `turn` is the recorded turn it is about; `later` are the turns that stay on the former branch.
    """

    kind: Literal["new", "replay", "resume", "fork"]
    turn: Recorded | None = None
    later: tuple[int, ...] = ()


def plan(
    turns: Sequence[Recorded], cell: str | None, key: str, *, fresh: bool, notebook_order: bool
) -> Plan:
    """Return what a cell does, by the turns recorded and its cell id (kernel.md §4).

    A turn that did not complete is run again, not shown again; without a cell id every run is new.
    """
    mine = [t for t in turns if cell is not None and t.start.cell == cell]
    if not mine:
        return Plan("new")
    last = mine[-1]
    same = last.start.key == key
    if last.end is None and same:
        return Plan("resume", last)
    if same and not fresh and last.end is not None and last.end.reason == "completed":
        return Plan("replay", last)
    if not notebook_order:
        return Plan("new")
    later = tuple(t.number for t in turns if t.number > last.number)
    return Plan("fork", last, later)
