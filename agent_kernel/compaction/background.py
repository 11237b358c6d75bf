"""Background: a compaction prepared while the turn goes on, used at the hard mark if it still fits.

May not touch the surface: what it writes is its own log lines, until a transaction commits it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent_kernel.compaction.auto import Auto, payload_of
from agent_kernel.compaction.region import Region, choose, of_seqs
from agent_kernel.compaction.summary import POLICY, instruction_of, summarise
from agent_kernel.core.agent import Agent
from agent_kernel.core.calling import ask_apart
from agent_kernel.core.compaction import (
    Asked,
    CompactionFailed,
    Desk,
    Prepared,
    View,
    WaterMarks,
    breaker_open,
    context_tokens,
)
from agent_kernel.core.events import CompactionCandidate, CompactionSummary, SurfaceEvent
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ProviderError
from agent_kernel.core.session import Session
from agent_kernel.core.transaction import Run
from agent_kernel.core.usage import event_tokens

AGE_SECONDS, AGE_STEPS = 600.0, 20
TAIL_SHARE = 0.5  # of the whole, after which too little is hidden


@dataclass
class Candidates:
    """Starts and takes candidates (B1-B8); `use_model=False` makes the ledger the replacement."""

    use_model: bool = True
    auto: Auto = field(default_factory=Auto)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def start(self, session: Session, agent: Agent) -> str | None:
        """Begin a candidate when the context is over soft and none is at work; return its id."""
        state, marks = session.state(agent.id), agent.marks or WaterMarks.of(agent.profile)
        over = marks.soft < context_tokens(session, agent.id) <= marks.hard
        if state.candidate is not None and _age(session, agent, state.candidate):
            self._drop(session, agent, state.candidate, "age")
        if state.candidate is not None or state.compacting is not None or not over:
            return None
        view = _view(session, agent)
        region = choose(view)
        if region is None or region.tokens < view.tokens // 10:
            return None
        with_model = self.use_model and not breaker_open(session, agent.id)
        name = f"k{session.log.next_seq}"
        begun = _begun(session, agent, name, view, region)
        session.append(begun, agent=agent.id)
        if not with_model:
            ready = CompactionCandidate(candidate_id=name, status="ready")
            session.append(_whole(begun, ready), agent=agent.id)
            return name
        session.compacting.add(name)
        work = self._write(session, agent, begun, view, region)
        self.tasks[name] = asyncio.ensure_future(work)
        return name

    async def _write(
        self, session: Session, agent: Agent, begun: CompactionCandidate, view: View, region: Region
    ) -> None:
        name = begun.candidate_id
        desk = Desk()

        async def ask(instruction: str, limit: int, left_out: int) -> Asked:
            return await ask_apart(session, agent, name, instruction, limit, left_out)

        desk.ask = ask
        room = region.tokens - event_tokens(payload_of(view, region, self.auto.parts(view, region)))
        try:
            made = await summarise(view, region, list(region.nodes), desk, room)
        except (ProviderError, CompactionFailed) as error:
            desk.problem, made = {"code": "provider", "text": str(error)}, None
        except asyncio.CancelledError:
            self._end(session, agent, name, "failed", "cancelled")
            raise
        finally:
            session.compacting.discard(name)
        if not self._still(session, agent, name):
            return
        if made is None:
            lost = desk.lost.wire() if desk.lost else None
            why = str((desk.problem or {}).get("code") or "provider")
            self._end(session, agent, name, "failed", why, usage=lost)
            return
        spent = made.usage if desk.lost is None else made.usage + desk.lost
        ready = CompactionCandidate(
            candidate_id=name, status="ready", text=made.text, usage=spent.wire(),
            summary=made.model_dump(mode="json", exclude={"usage"}),
        )  # fmt: skip
        session.append(_whole(begun, ready), agent=agent.id)

    def _still(self, session: Session, agent: Agent, name: str) -> bool:
        held = session.state(agent.id).candidate
        return held is not None and held.candidate_id == name

    def _end(
        self,
        session: Session,
        agent: Agent,
        name: str,
        status: Literal["discarded", "failed"],
        reason: str,
        usage: Json | None = None,
    ) -> None:
        if self._still(session, agent, name):
            event = CompactionCandidate(
                candidate_id=name, status=status, reason=reason, usage=usage
            )
            session.append(event, agent=agent.id)

    def _drop(self, session: Session, agent: Agent, held: CompactionCandidate, reason: str) -> None:
        self._end(session, agent, held.candidate_id, "discarded", reason)
        task = self.tasks.pop(held.candidate_id, None)
        if task is not None and not task.done():
            task.cancel()

    async def take(self, session: Session, agent: Agent) -> Prepared | None:
        """Return what was prepared if it still fits (B2, B3), waiting for it while it is written.

        One that no longer fits is logged as discarded, with the reason.
        """
        held = session.state(agent.id).candidate
        if held is None:
            return None
        task = self.tasks.pop(held.candidate_id, None)
        if held.status == "started" and task is not None:
            await asyncio.shield(task)
        held = session.state(agent.id).candidate
        if held is None:
            return None
        reason = _unfit(session, agent, held)
        if reason is not None:
            self._drop(session, agent, held, reason)
            return None
        return Prepared(held.candidate_id, held.hidden, _summary(held))


def _view(session: Session, agent: Agent) -> View:
    return Run(
        session, agent.id, agent.profile, (), "soft", model=agent.model, marks=agent.marks
    ).view()


def region_digest(nodes: Sequence[SurfaceEvent]) -> str:
    """Return 32 hex digits of what some nodes put into requests."""
    made = hashlib.blake2b(digest_size=16)
    for node in nodes:
        made.update(node.message().bytes)
    return made.hexdigest()


def instruction_digest(agent: Agent) -> str:
    """Return 16 hex digits of what a summary would be asked for."""
    return hashlib.blake2b(instruction_of(None).encode(), digest_size=8).hexdigest()


def _begun(
    session: Session, agent: Agent, name: str, view: View, region: Region
) -> CompactionCandidate:
    state = session.state(agent.id)
    return CompactionCandidate(
        candidate_id=name,
        status="started",
        base_generation=session.surface(agent.id).generation,
        hidden=tuple(node.seq for node in region.nodes),
        region_digest=region_digest(region.nodes),
        policy=POLICY,
        model=agent.model,
        instruction_digest=instruction_digest(agent),
        created={"turn": state.turn, "step": state.steps_total, "tokens": view.tokens,
                 "time": round(session.events[-1].time, 3)},
    )  # fmt: skip


def _whole(begun: CompactionCandidate, later: CompactionCandidate) -> CompactionCandidate:
    """Return a later status with all that was said at the start."""
    said = {key: value for key, value in later.model_dump().items() if value not in (None, (), {})}
    keep = {k: v for k, v in said.items() if k not in ("seq", "time", "turn", "step", "sources")}
    return begun.model_copy(update=keep)


def _age(session: Session, agent: Agent, held: CompactionCandidate) -> bool:
    steps = session.state(agent.id).steps_total - int(held.created.get("step", 0))
    seconds = session.events[-1].time - float(held.created.get("time", 0.0))
    return steps > AGE_STEPS or seconds > AGE_SECONDS


def _unfit(session: Session, agent: Agent, held: CompactionCandidate) -> str | None:
    """Return why a candidate may not be committed, None when it may (B2, B3)."""
    if held.status != "ready":
        return "lost_race"
    if held.model != agent.model:
        return "model"
    if held.instruction_digest != instruction_digest(agent):
        return "instruction"
    if _age(session, agent, held):
        return "age"
    view = _view(session, agent)
    region = of_seqs(view, held.hidden)
    if region is None or region_digest(region.nodes) != held.region_digest:
        return "overlap"
    cuts = view.cuts(view.strict)
    if region.start not in cuts or region.end not in cuts:
        return "overlap"
    tail = sum(map(event_tokens, view.nodes[region.end :]))
    whole = sum(map(event_tokens, view.nodes))
    return "tail_growth" if tail > TAIL_SHARE * whole else None


def _summary(held: CompactionCandidate) -> CompactionSummary | None:
    """Return the summary a ready candidate holds; its usage was counted when it was written."""
    said = held.summary
    if not held.text or said is None:
        return None
    kept = {k: v for k, v in said.items() if k in CompactionSummary.model_fields}
    fresh = {"seq": -1, "time": 0.0, "usage": {}, "cost_usd": None}
    return CompactionSummary(**{**kept, **fresh, "candidate_id": held.candidate_id})
