"""Forgetting: the table of what each artefact still holds of what a boundary hid.

May not compare artefacts on different cases, nor print a share without its n and interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_kernel.core.events import UserMessage
from agent_kernel.core.messages import text_of
from agent_kernel.core.usage import CHARS_PER_TOKEN
from agent_kernel.lab.bootstrap import Rate, pooled
from agent_kernel.lab.given import Given
from agent_kernel.lab.histories import History
from agent_kernel.lab.recall import (
    KINDS,
    Artefact,
    Case,
    Found,
    at_random,
    by_frequency,
    by_recency,
    case,
    ledger_of,
    measure,
    rare_facts,
    summary_of,
)

SIZE = 500  # tokens at which rankings are compared
SIZES = (250, 1_000, 2_000)


def cases_of(histories: Sequence[History], given: Given) -> list[Case]:
    """Return one case for each boundary of the sessions."""
    return [case(h, b, given) for h in histories for b in h.boundaries]


def artefacts(given: Given) -> dict[str, Artefact]:
    """Return what is compared, by name."""
    made: dict[str, Artefact] = {
        "recorded summary": summary_of,
        f"ledger {SIZE}": ledger_of(given, SIZE, given.ranks),
        f"ledger {SIZE}, untuned": ledger_of(given, SIZE, given.untuned),
        f"recency {SIZE}": ledger_of(given, SIZE, by_recency),
        f"frequency {SIZE}": ledger_of(given, SIZE, by_frequency),
        f"random {SIZE}": ledger_of(given, SIZE, at_random),
    }
    made |= {f"ledger {size}": ledger_of(given, size, given.ranks) for size in SIZES}
    both = made[f"ledger {SIZE}"]
    made[f"summary + ledger {SIZE}"] = lambda one: f"{one.boundary.summary}\n{both(one)}"
    return made


def table(
    histories: Sequence[History], cases: Sequence[Case], given: Given, resamples: int
) -> list[dict[str, Any]]:
    """Return one row an artefact: recall, by kind and rare, constraints, messages, size."""
    rare = rare_facts(histories, cases)
    people = {id(one): _messages(one, histories) for one in cases}
    rows = []
    for name, made in artefacts(given).items():
        texts = [made(one) for one in cases]
        found = [measure(one, text, given, rare) for one, text in zip(cases, texts, strict=True)]
        row = {"artefact": name, **summed(found, resamples)}
        kept = [
            (one.session, float(sum(given.survives(said, text) for said in people[id(one)])),
             float(len(people[id(one)])))
            for one, text in zip(cases, texts, strict=True)
        ]  # fmt: skip
        row["user_messages"] = pooled(kept, resamples).wire()
        row["entity_retention"] = _retention(cases, texts, given, resamples)
        rows.append(row)
    return rows


def summed(found: Sequence[Found], resamples: int) -> dict[str, Any]:
    """Return the pooled rates of one artefact's cases."""

    def rate(of: Callable[[Found], tuple[float, float]]) -> dict[str, Any]:
        return pooled(((f.session, *of(f)) for f in found), resamples).wire()

    listed = pooled(
        ((f.session, float(sum(f.hits.values())), float(f.listed)) for f in found), resamples
    )
    return {
        "recall": rate(lambda f: (sum(f.hits.values()), sum(f.wanted.values()))),
        **{f"recall {kind}": rate(_of(kind)) for kind in KINDS},
        "recall rare": rate(lambda f: f.rare),
        "precision": listed.wire(),
        "constraints": rate(lambda f: f.sentences),
        "tokens": _mean([f.chars / CHARS_PER_TOKEN for f in found]),
    }


def _of(kind: str) -> Callable[[Found], tuple[float, float]]:
    return lambda f: (f.hits[kind], f.wanted[kind])


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None


def _messages(one: Case, histories: Sequence[History]) -> list[str]:
    history = next(h for h in histories if h.session == one.session)
    hidden = history.hidden(one.boundary)
    return [text_of(e.content) for e in hidden if isinstance(e, UserMessage)]


def _retention(
    cases: Sequence[Case], texts: Sequence[str], given: Given, resamples: int
) -> dict[str, Any]:
    """Return the share of all facts of the spans that stand in the texts, by kind."""
    rows: dict[str, list[tuple[str, float, float]]] = {kind: [] for kind in KINDS}
    for one, text in zip(cases, texts, strict=True):
        there = given.holds(text)
        for kind in KINDS:
            own = [f for f in one.facts if f.kind == kind]
            rows[kind].append((one.session, float(sum(map(there, own))), float(len(own))))
    return {kind: pooled(found, resamples).wire() for kind, found in rows.items()}


def reachable(cases: Sequence[Case], given: Given, resamples: int) -> dict[str, Any]:
    """Return the share of needed facts a ledger lacks that one recall of the hidden part finds.

    The footer names the hidden range; a fact is found when its value stands there word for word.
    """
    made = ledger_of(given, SIZE, given.ranks)
    rows = []
    for one in cases:
        there = given.holds(made(one))
        lost = [fact for fact in one.wanted if not there(fact)]
        found = sum(any(fact.value in block.text for block in one.blocks) for fact in lost)
        rows.append((one.session, float(found), float(len(lost))))
    return pooled(rows, resamples).wire()


def needed(cases: Sequence[Case]) -> Mapping[str, int]:
    """Return how many facts were needed, by kind."""
    return {kind: sum(f.kind == kind for one in cases for f in one.wanted) for kind in KINDS}


__all__ = ["Rate", "artefacts", "cases_of", "needed", "reachable", "summed", "table"]
