"""Transaction: one compaction run, committed in a single write or leaving everything as it was.

May not decide what is hidden, and never shortens the log: every hidden seq is cited and recallable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent_kernel.core.compaction import (
    CompactionFailed,
    Desk,
    Edit,
    Outcome,
    Strategy,
    Trigger,
    View,
    WaterMarks,
    apply_edits,
    context_tokens,
    is_cold,
    pays,
)
from agent_kernel.core.entries import by_source, cost_of, prune, refill, replacement, spanned
from agent_kernel.core.events import (
    CompactionCandidate,
    CompactionEnd,
    CompactionStart,
    CompactionUndo,
    Event,
    SurfaceEvent,
)
from agent_kernel.core.log import LogError
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ModelProfile, ProviderError
from agent_kernel.core.session import Session
from agent_kernel.core.surface import merged
from agent_kernel.core.usage import METER, event_tokens
from agent_kernel.core.validate import validate_messages


class UndoError(ValueError):
    """An undo that cannot be done now: names what stands in the way; nothing was changed."""


@dataclass(frozen=True)
class Plan:
    """What a run would do: edits by layer, the view before and after them, the calls it made."""

    layers: tuple[tuple[str, tuple[Edit, ...]], ...]
    before: View
    after: View
    desk: Desk = field(default_factory=Desk)

    @property
    def kept(self) -> list[tuple[str, Edit]]:
        """Layer and edit of what is logged: edits inside a later edit's span are left out."""
        flat = [(name, edit) for name, edits in self.layers for edit in edits]
        places = {node.seq: at for at, node in enumerate(self.before.nodes)}
        spans = [(places[edit.first], places[edit.last]) for _name, edit in flat]
        return [
            pair
            for at, pair in enumerate(flat)
            if not any(a <= spans[at][0] and spans[at][1] <= b for a, b in spans[at + 1 :])
        ]

    @property
    def edits(self) -> list[Edit]:
        """The edits that are logged."""
        return [edit for _name, edit in self.kept]

    @property
    def freed(self) -> int:
        """Tokens the plan frees."""
        return self.before.tokens - self.after.tokens


async def planned(before: View, strategies: Sequence[Strategy], desk: Desk) -> Plan:
    """Return what `strategies` would do to a view, one after the other."""
    view = before
    layers: list[tuple[str, tuple[Edit, ...]]] = []
    for strategy in strategies:
        if not strategy.wants(view):
            continue
        edits = pays(await strategy.plan(view, desk), view)
        if edits:
            after = apply_edits(view, edits)
            whole = [replace(e, last=after.former[e.first][-1].seq) for e in edits]
            layers.append((strategy.name, tuple(whole)))
            view = after
    return Plan(tuple(layers), before, view, desk)


@dataclass
class Run:
    """One compaction of one agent: who it is for, what started it, what a person asked for."""

    session: Session
    agent: str
    profile: ModelProfile
    strategies: Sequence[Strategy]
    trigger: Trigger
    span: tuple[int, int] | None = None
    instructions: str | None = None
    model: str = ""
    marks: WaterMarks | None = None
    compaction_id: str = ""
    desk: Desk = field(default_factory=Desk)

    def view(self) -> View:
        """Return what the layers look at first."""
        state = self.session.state(self.agent)
        return View(
            nodes=tuple(self.session.surface(self.agent).nodes),
            profile=self.profile,
            marks=self.marks or WaterMarks.of(self.profile),
            tokens=context_tokens(self.session, self.agent),
            trigger=self.trigger,
            cold=is_cold(self.session, self.agent),
            log=self.session.events,
            pinned=frozenset(self.session.pins),
            compaction_id=self.compaction_id or f"c{self.session.log.next_seq}",
            instructions=self.instructions,
            span=self.span,
            agent=self.agent,
            fresh_after=state.context.seq if state.context else -1,
        )

    async def plan(self) -> Plan:
        """Return what the layers would do, one after the other, each on what the former left."""
        return await planned(self.view(), self.strategies, self.desk)

    async def commit(self) -> Outcome:
        """Run the layers and commit; every failure after the start logs exactly one failed end
        (C3).

        Raises ValueError, changing nothing, when the span a person chose has no legal ends.
        """
        if self.session.state(self.agent).compacting is not None:
            if self.agent in self.session.compacting:
                error: Json = {"code": "busy", "text": "another compaction is running"}
                return Outcome("failed", "", 0, 0, error)
            self.session.end_compactions(self.agent)
        self.session.answer_open_calls("the context was shortened first", self.agent)
        if self.span is not None:
            self.session.surface(self.agent).region(*self.span, self.profile, strict=self._strict)
        self.session.compacting.add(self.agent)
        try:
            return await self._commit()
        finally:
            self.session.compacting.discard(self.agent)

    @property
    def _strict(self) -> bool:
        return self.profile.thinking != "adaptive"

    async def _commit(self) -> Outcome:
        self.compaction_id = f"c{self.session.log.next_seq}"
        before = self.view()
        (start,) = self.session.append(self._start(before), agent=self.agent)
        seqs = [node.seq for node in before.nodes]
        try:
            await self.session.log.commit()
            plan = await self.plan()
            self._check(plan, seqs)
            self.session.append(*self._events(plan, start.seq), agent=self.agent)
        except CompactionFailed as error:
            return self._failed(before, error.code, error.text)
        except ProviderError as error:
            return self._failed(before, "provider", str(error))
        except LogError as error:
            return self._failed(before, "persistence", str(error))
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            self._failed(before, "cancelled", "it was interrupted" if cancelled else repr(error))
            raise
        return Outcome("committed", self.compaction_id, before.tokens, plan.after.tokens)

    # ---- checks ----------------------------------------------------------------------------------

    def _check(self, plan: Plan, seqs: list[int]) -> None:
        """Raise CompactionFailed where the result is not shorter, not valid, or the surface
        moved."""
        surface = self.session.surface(self.agent)
        automatic = self.trigger not in ("manual", "overflow")
        if surface.seqs[: len(seqs)] != seqs or (automatic and surface.seqs != seqs):
            raise CompactionFailed("changed", "the surface changed while the compaction ran")
        least = max(1, plan.before.tokens // 10) if automatic else 1
        if plan.freed < least:
            text = f"the edits free {plan.freed} of {plan.before.tokens} tokens; {least} are needed"
            raise CompactionFailed("no_progress", text)
        for edit in plan.edits:
            hidden = sum(map(event_tokens, spanned(plan.before, edit)))
            if event_tokens(edit.payload) >= hidden:
                text = f"what stands for seq {edit.first} is not smaller than it"
                raise CompactionFailed("inflated", text)
        wrong = validate_messages(merged(plan.after.nodes), self.profile, sendable=False)
        bad = [v for v in wrong if v.severity == "api"]
        if bad:
            raise CompactionFailed("invalid", bad[0].text)

    def _failed(self, before: View, code: str, text: str) -> Outcome:
        skipped = code == "no_progress" and self.trigger == "manual"
        error = {"code": code, "text": text}
        end = CompactionEnd(
            compaction_id=self.compaction_id,
            status="skipped" if skipped else "failed",
            error=error,
            attempts=self.desk.attempts,
            generation=self.session.surface(self.agent).generation,
            **self._unused(committed=False),
        )
        try:
            self.session.append(end, agent=self.agent)
        except LogError:
            if code != "persistence":  # the log is what failed: the next opening closes the run
                raise
        return Outcome(end.status, self.compaction_id, before.tokens, before.tokens, error)

    def _unused(self, *, committed: bool) -> Json:
        """Return usage and dollars of the calls whose text no summary event holds."""
        lost = self.desk.lost
        if not committed:
            for made in self.desk.summaries:
                lost = made.usage if lost is None else lost + made.usage
        usd = self.desk.usd if lost is not None else None
        return {"usage": lost.wire() if lost else None, "cost_usd": usd, "model": self.desk.model}

    # ---- events ----------------------------------------------------------------------------------

    def _start(self, view: View) -> CompactionStart:
        state, marks, seqs = self.session.state(self.agent), view.marks, [n.seq for n in view.nodes]
        last = state.compactions[-1] if state.compactions else None
        first, end = self.span or (seqs[0], seqs[-1]) if seqs else (None, None)
        prepared = self.desk.prepared
        return CompactionStart(
            compaction_id=self.compaction_id,
            trigger=self.trigger,
            strategies=tuple(s.name for s in self.strategies),
            region={"first": first, "last": end} if seqs else None,
            generation=self.session.surface(self.agent).generation,
            cold=view.cold,
            candidate_id=prepared.candidate_id if prepared else None,
            tokens={
                "pre": view.tokens,
                "window": marks.window,
                "soft": marks.soft,
                "hard": marks.hard,
                "tail": marks.tail,
                "meter": METER,
            },
            steps_since=None if last is None else state.steps_total - last.steps,
            refill=refill(view.nodes, last.seq if last else -1),
        )

    def _events(self, plan: Plan, start: int) -> list[Event]:
        """Return summary, prunes, replacements and end: what one write commits (C2, C8)."""
        kept, desk = plan.kept, plan.desk
        out: list[Event] = list(desk.summaries[-1:])
        at = self.session.log.next_seq if out else None
        for name, _edits in plan.layers:
            mine = [edit for layer, edit in kept if layer == name]
            if mine:
                out.append(prune(name, mine, plan.before))
        out += [replacement(edit, name, plan.before, start, at) for name, edit in kept]
        if desk.prepared is not None:
            name = desk.prepared.candidate_id
            out.append(CompactionCandidate(candidate_id=name, status="committed"))
        return [*out, self._end(plan)]

    def _end(self, plan: Plan) -> CompactionEnd:
        before, after, edits = plan.before, plan.after, plan.edits
        dropped: dict[str, int] = {}
        for edit in edits:
            for name, count in edit.dropped.items():
                dropped[name] = dropped.get(name, 0) + count
        return CompactionEnd(
            compaction_id=self.compaction_id,
            status="committed",
            error=plan.desk.problem,
            attempts=plan.desk.attempts,
            tokens={
                "pre": before.tokens,
                "post": after.tokens,
                "freed": plan.freed,
                "by_source": by_source(after.nodes, after.tokens),
            },
            cost=cost_of(before, after, edits, plan.desk, self.model, self.session.events[-1].time),
            dropped={"facts": 0, "constraints": 0, **dropped},
            generation=self.session.surface(self.agent).generation + len(edits),
            **self._unused(committed=True),
        )


def undo(
    session: Session,
    compaction_id: str | None = None,
    agent: str = "main",
    node: int | None = None,
    window: int | None = None,
) -> int:
    """Splice what a compaction hid back in (one replacement when `node` is given); return how many.

    None names the newest that may be undone. Raises UndoError, changing nothing, when a replacement
    is no longer on the surface, when a compaction runs, or when the messages would exceed `window`.
    """
    surface = session.surface(agent)
    if session.state(agent).compacting is not None:
        raise UndoError("a compaction is running; wait for its end")
    if compaction_id is None:
        made = [n.compaction_id for n in surface.nodes if n.compaction_id and n.replaces]
        if not made:
            raise UndoError("no compaction of this session can be undone: none hides anything now")
        compaction_id = max((name for name in made if name), key=lambda name: (len(name), name))
    made_by = _replacements(session, compaction_id, agent, node)
    _check_there(session, compaction_id, agent, made_by)
    back = [seq for made_seq in made_by for seq in surface.hidden_by(made_seq)]
    _check_room(session, agent, made_by, back, window)
    restores = tuple({"node": s, "hidden": surface.hidden_by(s)} for s in reversed(made_by))
    event = CompactionUndo(
        compaction_id=compaction_id,
        restores=restores,
        generation=surface.generation + len(restores),
    )
    session.append(event, agent=agent)
    return len(restores)


def _replacements(session: Session, compaction_id: str, agent: str, node: int | None) -> list[int]:
    made = [
        e.seq
        for e in session.events
        if isinstance(e, SurfaceEvent)
        and e.agent == agent
        and e.compaction_id == compaction_id
        and e.replaces is not None
        and (node is None or e.seq == node)
    ]
    if not made:
        what = f"compaction {compaction_id!r}" + ("" if node is None else f" at seq {node}")
        raise UndoError(f"{what} replaced nothing; see %agent frames compactions")
    return made


def _check_there(session: Session, compaction_id: str, agent: str, made: list[int]) -> None:
    surface = session.surface(agent)
    gone = [seq for seq in made if seq not in surface.seqs]
    if not gone:
        return
    for node in surface.nodes:
        if gone[0] in _all_hidden(session, agent, node.seq):
            raise UndoError(
                f"seq {gone[0]} is not on the surface any more; "
                f"undo {node.compaction_id or node.seq!r} first"
            )
    raise UndoError(f"compaction {compaction_id!r} hides nothing now: it failed or was undone")


def _all_hidden(session: Session, agent: str, seq: int) -> set[int]:
    """Return every seq a node hides, also through what it hides."""
    surface, found, todo = session.surface(agent), set[int](), [seq]
    while todo:
        inner = set(surface.hidden_by(todo.pop())) - found
        found |= inner
        todo += inner
    return found


def _check_room(
    session: Session, agent: str, made: list[int], back: list[int], window: int | None
) -> None:
    state = session.state(agent)
    window = window or (state.context.window if state.context else None)
    if window is None:
        return
    now = context_tokens(session, agent)
    by_seq = {seq: session.log.get(seq) for seq in (*made, *back)}
    sizes = {s: event_tokens(e) for s, e in by_seq.items() if isinstance(e, SurfaceEvent)}
    then = now - sum(sizes[s] for s in made) + sum(sizes[s] for s in back)
    if then > window:
        raise UndoError(
            f"the messages would hold {then:,} tokens (now {now:,}), more than the window of "
            f"{window:,}; undo one node, or recall what you need"
        )
