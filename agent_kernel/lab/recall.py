"""Recall: which facts of a hidden span were needed again, and which artefact still names them.

May not count a fact as needed once a later result or the person has said it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.core.events import AssistantMessage, Attachment, SurfaceEvent
from agent_kernel.core.messages import ToolUse, text_of
from agent_kernel.lab.given import Given
from agent_kernel.lab.histories import Boundary, History

OPS = 40  # tool calls after a boundary in which a use counts
KINDS = ("path", "identifier", "hash")
Key = tuple[str, str]


@dataclass
class Case:
    """One boundary: the facts it hid, those used after it with the op of their first use."""

    session: str
    group: str
    boundary: Boundary
    facts: list[Any]
    blocks: list[Any]
    used: dict[Key, int]
    constraints: list[Any]
    lines: list[str] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)  # facts of every kind

    @property
    def wanted(self) -> list[Any]:
        """Return the facts that were used."""
        return [f for f in self.facts if (f.kind, f.norm) in self.used]


def case(history: History, boundary: Boundary, given: Given) -> Case:
    """Return what a boundary hid and what of it was used within 40 calls after it."""
    return case_of(history, boundary, history.hidden(boundary), history.after(boundary), given)


def case_of(
    history: History,
    boundary: Boundary,
    hidden: Sequence[SurfaceEvent],
    after: Sequence[SurfaceEvent],
    given: Given,
) -> Case:
    """Return the case of any cut: `hidden` before it, `after` behind it."""
    blocks = list(given.said(hidden))
    every = given.facts_of(blocks)
    facts = [f for f in every if f.kind in KINDS]
    known = {(f.kind, f.norm) for f in facts}
    return Case(
        history.session, history.group, boundary, facts, blocks, used_after(after, known, given),
        given.constraints(hidden), given.standing(list(hidden)), every,
    )  # fmt: skip


def used_after(
    events: Iterable[SurfaceEvent], known: set[Key], given: Given, ops: int = OPS
) -> dict[Key, int]:
    """Return the known facts that occur in tool input values, before anything says them again.

    Value: the number of the call, from 1. A summary does not count as saying them: it is measured.
    """
    again: set[Key] = set()
    used: dict[Key, int] = {}
    calls = 0
    for event in events:
        if isinstance(event, AssistantMessage):
            for block in event.content:
                if isinstance(block, ToolUse):
                    calls += 1
                    if calls > ops:
                        return used
                    for key in _keys("\n".join(given.values(block.input)), given):
                        if key in known and key not in again:
                            used.setdefault(key, calls)
        elif not (isinstance(event, Attachment) and event.kind == "summary"):
            again.update(_keys(text_of(event.blocks()), given))
    return used


def _keys(text: str, given: Given) -> Iterator[Key]:
    for kind, value in given.found_in(text):
        if kind in KINDS:
            yield kind, given.norm_of(kind, value)


# ---- artefacts -----------------------------------------------------------------------------------

Artefact = Callable[[Case], str]


def summary_of(one: Case) -> str:
    """Return the recorded summary."""
    return one.boundary.summary


def ledger_of(given: Given, tokens: int, rank: Any, **more: Any) -> Artefact:
    """Return the artefact: a ledger of so many tokens under a ranking, constraints within it."""

    def made(one: Case) -> str:
        text: str = given.ledger(
            one.blocks,
            one.constraints,
            tokens=tokens,
            rank=rank,
            lines=one.lines,
            known=one.known,
            **more,
        ).text
        return text

    return made


def by_frequency(facts: Sequence[Any], _end: int) -> list[float]:
    """Rank by how many blocks hold a fact."""
    return [float(f.mentions) for f in facts]


def by_recency(facts: Sequence[Any], _end: int) -> list[float]:
    """Rank by the last block that holds a fact."""
    return [float(f.places[-1].block + 1) for f in facts]


def at_random(facts: Sequence[Any], _end: int) -> list[float]:
    """Rank by a fixed draw."""
    order = sorted(range(len(facts)), key=lambda at: (facts[at].kind, facts[at].norm))
    chance = random.Random(0)
    drawn = {at: chance.random() + 1e-9 for at in order}
    return [drawn[at] for at in range(len(facts))]


@dataclass(frozen=True)
class Found:
    """What one artefact holds of one case: hits by kind, sentences, its size."""

    session: str
    hits: Mapping[str, int]
    wanted: Mapping[str, int]
    rare: tuple[int, int]
    sentences: tuple[int, int]
    listed: int
    chars: int


def measure(one: Case, text: str, given: Given, rare: set[Key]) -> Found:
    """Return which used facts and which constraints of a case a text holds."""
    there = given.holds(text)
    hits = dict.fromkeys(KINDS, 0)
    wanted = dict.fromkeys(KINDS, 0)
    seldom = [0, 0]
    for fact in one.wanted:
        held = there(fact)
        wanted[fact.kind] += 1
        hits[fact.kind] += held
        if (fact.kind, fact.norm) in rare:
            seldom[0] += held
            seldom[1] += 1
    kept = sum(given.survives(c.text, text) for c in one.constraints)
    listed = sum(1 for kind, _ in given.found_in(text) if kind in KINDS)
    sentences = (kept, len(one.constraints))
    return Found(one.session, hits, wanted, (seldom[0], seldom[1]), sentences, listed, len(text))


def rare_facts(histories: Sequence[History], cases: Sequence[Case], share: float = 0.1) -> set[Key]:
    """Return the facts that occur in at most `share` of the sessions with a boundary."""
    seen: dict[Key, set[str]] = {}
    for one in cases:
        for fact in one.facts:
            seen.setdefault((fact.kind, fact.norm), set()).add(one.session)
    most = max(1, int(share * len({one.session for one in cases})))
    return {key for key, sessions in seen.items() if len(sessions) <= most}
