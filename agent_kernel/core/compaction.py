"""Compaction: when the surface is shortened, and the transaction that does it or leaves it as it
was.

May not choose what to hide: strategies plan edits, this checks them, logs them and commits them at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_kernel.core.events import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    Event,
    SurfaceEvent,
)
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.session import Session
from agent_kernel.core.surface import Surface
from agent_kernel.core.usage import METER, Meter
from agent_kernel.core.validate import validate_messages

Trigger = Literal["soft", "hard", "overflow", "cold", "manual"]


@dataclass(frozen=True)
class WaterMarks:
    """Where compaction begins, in tokens of a window (compaction.md §4)."""

    window: int
    soft: int
    hard: int
    tail: int

    @classmethod
    def of(cls, profile: ModelProfile) -> WaterMarks:
        """Return the default marks of a model."""
        window = profile.window
        hard = min(round(0.8 * window), window - profile.max_output - 13_000)
        return cls(
            window, round(0.6 * window), max(hard, round(0.5 * window)), round(0.16 * window)
        )


@dataclass(frozen=True)
class Edit:
    """One planned change: `payload` takes the place of the span `first`…`last` (seqs).

    `freed` in tokens; `reason` in words for the log.
    """

    first: int
    last: int
    payload: SurfaceEvent
    freed: int
    reason: str


@dataclass(frozen=True)
class View:
    """What a strategy may look at: the surface, the marks, the tokens now, the agent's profile."""

    surface: Surface
    profile: ModelProfile
    marks: WaterMarks
    tokens: int
    trigger: Trigger
    pinned: frozenset[int] = frozenset()


class Strategy(Protocol):
    """One layer of shortening: pure, deterministic given the view."""

    name: str

    def plan(self, view: View) -> list[Edit]:
        """Return the edits this layer would make, [] when none is worth it."""
        ...


@dataclass
class Outcome:
    """How a run ended: `error` is {"code", "text"} when it failed."""

    committed: bool
    freed: int = 0
    error: Json | None = None
    edits: list[Edit] = field(default_factory=list)


def context_tokens(session: Session, agent: str) -> int:
    """Return the tokens the next request of `agent` would hold, by the meter."""
    surface, state = session.surface(agent), session.state(agent)
    return Meter().tokens(surface.nodes, surface.generation, state.anchored)


def due(
    session: Session, agent: str, profile: ModelProfile, strategies: Sequence[Strategy]
) -> Trigger | None:
    """Return the trigger of the compaction that is due before the next request, None when none is.

    After a run that freed nothing in this step, none is due until the surface changed.
    """
    if not strategies or session.state(agent).failed_compactions >= 3:
        return None
    tokens, marks = context_tokens(session, agent), WaterMarks.of(profile)
    if tokens <= marks.soft or _tried(session, agent):
        return None
    return "hard" if tokens > marks.hard else "soft"


def _tried(session: Session, agent: str) -> bool:
    """Tell whether a compaction already ran since the last surface event of this agent."""
    surface, state = session.surface(agent), session.state(agent)
    last = max(surface.seqs, default=-1)
    return bool(state.compactions) and state.compactions[-1][0] > last


def run(
    session: Session,
    agent: str,
    profile: ModelProfile,
    strategies: Sequence[Strategy],
    trigger: Trigger,
) -> Outcome:
    """Plan and commit one compaction; every failure leaves messages and generation unchanged
    (C3)."""
    surface = session.surface(agent)
    if session.state(agent).compacting is not None:
        _close_stale(session, agent)
    before, marks = context_tokens(session, agent), WaterMarks.of(profile)
    cid = f"c{session.log.next_seq}"
    session.append(_start(cid, trigger, strategies, surface, before, marks, session), agent=agent)
    view = View(surface, profile, marks, before, trigger)
    layers = [(s.name, s.plan(view)) for s in strategies]
    edits = [edit for _name, planned in layers for edit in planned]
    freed = sum(edit.freed for edit in edits)
    error = _refused(surface, edits, freed, before, trigger, profile)
    if error is not None:
        failed = CompactionEnd(
            compaction_id=cid, status="failed", error=error, generation=surface.generation
        )
        session.append(failed, agent=agent)
        return Outcome(False, error=error)
    session.append(*_commit(cid, layers, surface.generation, before, freed), agent=agent)
    return Outcome(True, freed, edits=edits)


def _close_stale(session: Session, agent: str) -> None:
    """End a compaction that a former process left open (C1): this one runs without a pause."""
    open_one = session.state(agent).compacting
    if open_one is not None:
        error = {"code": "cancelled", "text": "the kernel ended while it ran"}
        failed = CompactionEnd(
            compaction_id=open_one.compaction_id,
            status="failed",
            error=error,
            generation=session.surface(agent).generation,
        )
        session.append(failed, agent=agent)


def _start(
    cid: str,
    trigger: Trigger,
    strategies: Sequence[Strategy],
    surface: Surface,
    before: int,
    marks: WaterMarks,
    session: Session,
) -> CompactionStart:
    state = session.state(surface.agent)
    last = state.compactions[-1][2] if state.compactions else None
    tokens = {"pre": before, "window": marks.window, "soft": marks.soft, "hard": marks.hard}
    return CompactionStart(
        compaction_id=cid,
        trigger=trigger,
        strategies=tuple(s.name for s in strategies),
        region={"first": surface.seqs[0], "last": surface.seqs[-1]} if surface.nodes else None,
        generation=surface.generation,
        tokens={**tokens, "tail": marks.tail, "meter": METER},
        steps_since=None if last is None else state.steps_total - last,
    )


def _refused(
    surface: Surface,
    edits: list[Edit],
    freed: int,
    before: int,
    trigger: Trigger,
    profile: ModelProfile,
) -> Json | None:
    """Return why the edits may not be committed: nothing gained, or a list the API would refuse."""
    least = 1 if trigger in ("manual", "overflow") else max(1, before // 10)
    if freed < least:
        text = f"the edits free {freed} of {before} tokens, {least} are needed"
        return {"code": "no_progress", "text": text}
    trial = Surface(surface.agent)
    for node in surface.nodes:
        trial.apply(node.model_copy(update={"replaces": None}))
    for at, edit in enumerate(edits):
        trial.apply(edit.payload.model_copy(update={"seq": -2 - at, "meta": {}}))
    wrong = validate_messages(trial.messages(), profile, sendable=False)
    if wrong:
        return {"code": "invalid", "text": wrong[0].text}
    return None


def _commit(
    cid: str, layers: list[tuple[str, list[Edit]]], generation: int, before: int, freed: int
) -> list[Event]:
    out: list[Event] = []
    count = 0
    for name, edits in layers:
        if not edits:
            continue
        rows = tuple({"start": e.first, "end": e.last, "freed": e.freed} for e in edits)
        total = sum(e.freed for e in edits)
        out.append(
            CompactionPrune(
                compaction_id=cid, layer=name, edits=rows, freed=total, reason=edits[0].reason
            )
        )
        for edit in edits:
            meta: dict[str, Any] = {**getattr(edit.payload, "meta", {}), "compaction_id": cid}
            out.append(edit.payload.model_copy(update={"meta": {**meta, "layer": name}}))
            count += 1
    end = CompactionEnd(
        compaction_id=cid,
        status="committed",
        tokens={"pre": before, "post": before - freed, "freed": freed},
        generation=generation + count,
    )
    return [*out, end]
