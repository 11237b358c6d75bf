"""Ladder: the real layers replayed over a session's events, checked and priced edit by edit.

May not ask a model; the trajectory is held fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.core.compaction import Desk, Edit, Strategy, Trigger, View, WaterMarks
from agent_kernel.core.events import Attachment, SurfaceEvent
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.surface import merged
from agent_kernel.core.transaction import Plan, planned
from agent_kernel.core.usage import event_tokens
from agent_kernel.core.validate import validate_messages
from agent_kernel.lab.histories import History
from agent_kernel.lab.simulate import Cost, Edited
from agent_kernel.lab.trajectory import Step, Trajectory

PROFILE = ModelProfile("lab", window=200_000, max_output=32_000, thinking="adaptive")
COLD_FLOOR = 40_000


@dataclass
class Replay:
    """One session under the layers: its cost, its edits by layer, what the rules found wrong."""

    cost: Cost
    by_layer: dict[str, int] = field(default_factory=dict)
    violations: int = 0
    checked: int = 0


@dataclass
class _Place:
    """Where a replay stands."""

    nodes: list[SurfaceEvent] = field(default_factory=list)
    former: dict[int, tuple[SurfaceEvent, ...]] = field(default_factory=dict)
    length: int = 0
    cached: int = 0
    estimated: int = 0
    fresh: int = -1
    failed_at: int | None = None


def replay(
    history: History,
    made: Trajectory,
    strategies: Sequence[Strategy],
    *,
    profile: ModelProfile = PROFILE,
    marks: WaterMarks | None = None,
    after: Callable[[Plan], None] | None = None,
) -> Replay:
    """Return a session's cost under `strategies`; every committed edit is validated.

    `after` is called with each plan that was taken.
    """
    water = marks or WaterMarks.of(profile)
    place, out = _Place(), Replay(Cost(made.session))
    for number, step in enumerate(made.steps):
        new = [e for e in history.events[step.since : step.at] if not _is_summary(e)]
        place.nodes += new
        place.estimated += sum(map(event_tokens, new))
        place.length += step.other + sum(step.results)
        kept = place.length
        trigger = _due(place, step, water)
        if trigger is not None:
            view = View(
                tuple(place.nodes), profile, water, place.length, trigger, step.cold,
                history.events, former=place.former, fresh_after=place.fresh,
            )  # fmt: skip
            kept = _taken(place, out, view, strategies, number, step, made, after)
        rates = made.rates[step.model]
        read = 0 if step.cold else min(place.cached, kept)
        out.cost.usd += read * rates.read + (place.length - read) * rates.write(step.hour)
        out.cost.usd += step.output * rates.output
        out.cost.contexts.append(place.length)
        place.cached = place.length
        place.fresh = place.nodes[-1].seq if place.nodes else -1
    return out


def _is_summary(event: SurfaceEvent) -> bool:
    return isinstance(event, Attachment) and event.kind == "summary"


def _due(place: _Place, step: Step, water: WaterMarks) -> Trigger | None:
    """Return the trigger that is due, as `core.compaction.due` says it."""
    if place.length > water.hard:
        return "hard"
    if place.failed_at is not None and place.length - place.failed_at < water.clear_at_least:
        return None
    if step.cold and place.cached and place.length >= COLD_FLOOR:
        return "cold"
    return "soft" if place.length > water.soft else None


def _taken(
    place: _Place, out: Replay, view: View, strategies: Sequence[Strategy], number: int, step: Step,
    made: Trajectory, after: Callable[[Plan], None] | None,
) -> int:  # fmt: skip
    """Take the plan where it is worth it; return the tokens whose prefix still stands."""
    plan = at_once(planned(view, strategies, Desk()))
    if plan.freed < max(1, view.tokens // 10):
        place.failed_at = place.length
        return place.length
    place.failed_at = None
    place.nodes, place.former = list(plan.after.nodes), dict(plan.after.former)
    place.length -= plan.freed
    wrong = validate_messages(merged(place.nodes), view.profile, sendable=False)
    bad = sum(v.severity == "api" for v in wrong)
    out.violations += bad
    out.checked += 1
    for name, edits in plan.layers:
        out.by_layer[name] = out.by_layer.get(name, 0) + len(edits)
    if after is not None:
        after(plan)
    head = max(0, view.tokens - sum(map(event_tokens, view.nodes)))  # system and tools
    offset = head + min(edit.offset for edit in plan.edits)
    _note(place, out, plan.edits, number, step, made, offset, plan.freed)
    return offset


def _note(
    place: _Place, out: Replay, edits: Sequence[Edit], number: int, step: Step, made: Trajectory,
    offset: int, freed: int,
) -> None:  # fmt: skip
    rates = made.rates[step.model]
    rewrite = 0 if step.cold else max(0, min(place.cached - freed, place.length) - offset)
    usd = rewrite * (rates.write(step.hour) - rates.read)
    kind = "+".join(sorted({edit.reason.split(" ")[0] for edit in edits}))[:40]
    out.cost.edits.append(Edited(number, kind, offset, freed, step.cold, rewrite, usd))
    out.cost.extra += place.length * rates.read


def at_once(work: Coroutine[Any, Any, Plan]) -> Plan:
    """Return what a coroutine that waits for nothing returns."""
    try:
        work.send(None)
    except StopIteration as done:
        plan: Plan = done.value
        return plan
    work.close()
    raise RuntimeError("a layer waited for something; without a model none may")
