"""Transaction: one compaction run, committed in a single write or leaving everything as it was.

May not decide what is hidden, and never shortens the log: every hidden seq is cited and recallable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

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
from agent_kernel.core.events import (
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionUndo,
    Event,
    Replace,
    SurfaceEvent,
    ToolResultEvent,
)
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ModelProfile, ProviderError
from agent_kernel.core.session import Session
from agent_kernel.core.surface import Surface, merged
from agent_kernel.core.usage import METER, event_tokens
from agent_kernel.core.validate import validate_messages


class UndoError(ValueError):
    """An undo that cannot be done now: names what stands in the way; nothing was changed."""


@dataclass(frozen=True)
class Plan:
    """What a run would do: edits by layer, the view after them, tokens before and after."""

    layers: tuple[tuple[str, tuple[Edit, ...]], ...]
    before: View
    after: View

    @property
    def edits(self) -> list[Edit]:
        """All edits, those inside a later layer's span left out: only the widest is logged."""
        flat = [edit for _name, edits in self.layers for edit in edits]
        return [
            e for at, e in enumerate(flat) if not any(_covers(o, e, self) for o in flat[at + 1 :])
        ]

    @property
    def freed(self) -> int:
        """Tokens the plan frees."""
        return self.before.tokens - self.after.tokens


def _covers(outer: Edit, inner: Edit, plan: Plan) -> bool:
    seqs = [node.seq for node in plan.before.nodes]
    a, b = seqs.index(outer.first), seqs.index(outer.last)
    return a <= seqs.index(inner.first) and seqs.index(inner.last) <= b


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
    compaction_id: str = ""
    desk: Desk = field(init=False)

    def __post_init__(self) -> None:
        self.desk = Desk(None, self._note)

    def _note(self, event: Event) -> None:
        self.session.append(event, agent=self.agent)

    def view(self) -> View:
        """Return what the layers look at first."""
        return View(
            nodes=tuple(self.session.surface(self.agent).nodes),
            profile=self.profile,
            marks=WaterMarks.of(self.profile),
            tokens=context_tokens(self.session, self.agent),
            trigger=self.trigger,
            cold=is_cold(self.session, self.agent),
            log=self.session.events,
            pinned=frozenset(self.session.pins),
            compaction_id=self.compaction_id,
            instructions=self.instructions,
            span=self.span,
        )

    async def plan(self) -> Plan:
        """Return what the layers would do, one after the other, each on what the former left."""
        before = view = self.view()
        layers: list[tuple[str, tuple[Edit, ...]]] = []
        for strategy in self.strategies:
            if not strategy.wants(view):
                continue
            edits = pays(await strategy.plan(view, self.desk), view)
            if edits:
                layers.append((strategy.name, tuple(edits)))
                view = apply_edits(view, edits)
        return Plan(tuple(layers), before, view)

    async def commit(self) -> Outcome:
        """Run the layers and commit; every failure after the start logs exactly one failed end
        (C3)."""
        _close_stale(self.session, self.agent)
        self.session.answer_open_calls("the context was shortened first", self.agent)
        self.compaction_id = f"c{self.session.log.next_seq}"
        before = self.view()
        self._note(self._start(before))
        seqs = [node.seq for node in before.nodes]
        try:
            plan = await self.plan()
            self._check(plan, seqs)
        except CompactionFailed as error:
            return self._failed(before, error.code, error.text)
        except ProviderError as error:
            return self._failed(before, "provider", str(error))
        except asyncio.CancelledError:
            self._failed(before, "cancelled", "it was interrupted")
            raise
        self.session.append(*self._events(plan), agent=self.agent)
        return Outcome("committed", self.compaction_id, before.tokens, plan.after.tokens)

    # ---- checks ----------------------------------------------------------------------------------

    def _check(self, plan: Plan, seqs: list[int]) -> None:
        """Raise CompactionFailed where the result is not shorter, not valid, or the surface
        moved."""
        surface = self.session.surface(self.agent)
        automatic = self.trigger not in ("manual", "overflow")
        least = max(1, plan.before.tokens // 10) if automatic else 1
        if plan.freed < least:
            text = f"the edits free {plan.freed} of {plan.before.tokens} tokens; {least} are needed"
            raise CompactionFailed("no_progress", text)
        grown = [e for e in plan.edits if e.freed < 0]
        if grown:
            raise CompactionFailed("inflated", "a replacement is larger than what it hides")
        wrong = validate_messages(merged(plan.after.nodes), self.profile, sendable=False)
        bad = [v for v in wrong if v.severity == "api"]
        if bad:
            raise CompactionFailed("invalid", bad[0].text)
        if surface.seqs[: len(seqs)] != seqs or (automatic and surface.seqs != seqs):
            raise CompactionFailed("changed", "the surface changed while the compaction ran")

    def _failed(self, before: View, code: str, text: str) -> Outcome:
        skipped = code == "no_progress" and self.trigger == "manual"
        end = CompactionEnd(
            compaction_id=self.compaction_id,
            status="skipped" if skipped else "failed",
            error={"code": code, "text": text},
            attempts=self.desk.attempts,
            generation=self.session.surface(self.agent).generation,
            usage={"calls": self.desk.usage} if self.desk.usage else None,
            cost_usd=self.desk.cost_usd,
        )
        self._note(end)
        error = {"code": code, "text": text}
        return Outcome(end.status, self.compaction_id, before.tokens, before.tokens, error)

    # ---- events ----------------------------------------------------------------------------------

    def _start(self, view: View) -> CompactionStart:
        state, marks, seqs = self.session.state(self.agent), view.marks, [n.seq for n in view.nodes]
        last = state.compactions[-1].steps if state.compactions else None
        return CompactionStart(
            compaction_id=self.compaction_id,
            trigger=self.trigger,
            strategies=tuple(s.name for s in self.strategies),
            region={"first": seqs[0], "last": seqs[-1]} if seqs else None,
            generation=self.session.surface(self.agent).generation,
            cold=view.cold,
            tokens={
                "pre": view.tokens,
                "window": marks.window,
                "soft": marks.soft,
                "hard": marks.hard,
                "tail": marks.tail,
                "meter": METER,
            },
            steps_since=None if last is None else state.steps_total - last,
            refill=_refill(view, state.compactions[-1].seq if state.compactions else -1),
        )

    def _events(self, plan: Plan) -> list[Event]:
        surface = self.session.surface(self.agent)
        kept = plan.edits
        out: list[Event] = []
        for name, edits in plan.layers:
            mine = [e for e in edits if e in kept]
            if mine:
                out.append(self._prune(name, mine))
        names = {id(e): name for name, edits in plan.layers for e in edits}
        replacements = [self._replacement(e, names[id(e)], surface) for e in kept]
        return [*out, *replacements, self._end(plan, surface, len(kept))]

    def _prune(self, name: str, edits: Sequence[Edit]) -> CompactionPrune:
        rows = tuple(
            {"start": e.first, "end": e.last, "before": e.freed + event_tokens(e.payload),
             "after": event_tokens(e.payload)}
            for e in edits
        )  # fmt: skip
        return CompactionPrune(
            compaction_id=self.compaction_id,
            layer=name,
            edits=rows,
            freed=sum(e.freed for e in edits),
            first_offset=min(e.offset for e in edits),
            reason=edits[0].reason,
        )

    def _replacement(self, edit: Edit, layer: str, surface: Surface) -> SurfaceEvent:
        first, last = surface.position(edit.first), surface.position(edit.last)
        hidden = [node.seq for node in surface.nodes[first : last + 1]]
        meta: Json = {**getattr(edit.payload, "meta", {}), "compaction_id": self.compaction_id}
        taints = [str(getattr(n, "meta", {}).get("taint")) for n in surface.nodes[first : last + 1]]
        found = [t for t in ("web", "mcp", "notebook", "repo") if t in taints]
        if not isinstance(edit.payload, ToolResultEvent):
            meta["taint"] = found[0] if found else None
        cited = [s for s in edit.payload.sources if s not in hidden]
        return edit.payload.model_copy(
            update={
                "seq": -1,
                "time": 0.0,
                "replaces": Replace(first=edit.first, last=edit.last),
                "sources": tuple(sorted({*cited, *hidden})),
                "meta": {**meta, "layer": layer},
            }
        )

    def _end(self, plan: Plan, surface: Surface, count: int) -> CompactionEnd:
        whole = sum(event_tokens(n) for n in plan.after.nodes)
        first = min(e.offset for e in plan.edits)
        rewrite = max(0, whole - first)
        return CompactionEnd(
            compaction_id=self.compaction_id,
            status="committed",
            attempts=self.desk.attempts,
            tokens={
                "pre": plan.before.tokens,
                "post": plan.after.tokens,
                "freed": plan.freed,
                "by_source": by_source(plan.after),
            },
            cost={
                "rewrite_tokens": rewrite,
                "warm_rewrite_tokens": 0 if plan.before.cold else rewrite,
                "call_usd": self.desk.cost_usd,
            },
            generation=surface.generation + count,
            usage={"calls": self.desk.usage} if self.desk.usage else None,
            cost_usd=self.desk.cost_usd,
        )


def by_source(view: View) -> Json:
    """Return the tokens of a view's nodes by what they are: user, assistant, tool_result,
    attachments."""
    out: dict[str, int] = {}
    for node in view.nodes:
        name = {"user/message": "user", "assistant/message": "assistant"}.get(node.type)
        name = name or getattr(node, "kind", None) or node.type.replace("/", "_")
        out[name] = out.get(name, 0) + event_tokens(node)
    return out


def _refill(view: View, since: int) -> Json:
    """Return the tokens that came since the last run, by source: what a thrash is blamed on."""
    new = tuple(node for node in view.nodes if node.seq > since)
    return by_source(View(new, view.profile, view.marks, 0, view.trigger, False, ()))


def _close_stale(session: Session, agent: str) -> None:
    """End a compaction that a former process left open (C1): in one process runs never overlap."""
    open_one = session.state(agent).compacting
    if open_one is not None:
        failed = CompactionEnd(
            compaction_id=open_one.compaction_id,
            status="failed",
            error={"code": "cancelled", "text": "the kernel ended while it ran"},
            generation=session.surface(agent).generation,
        )
        session.append(failed, agent=agent)


def undo(session: Session, compaction_id: str, agent: str = "main", node: int | None = None) -> int:
    """Splice what a compaction hid back in (one replacement when `node` is given); return how many.

    Raises UndoError, changing nothing, when a replacement is no longer on the surface.
    """
    made = [
        e.seq
        for e in session.events
        if isinstance(e, SurfaceEvent)
        and e.agent == agent
        and e.compaction_id == compaction_id
        and (node is None or e.seq == node)
    ]
    if not made:
        raise UndoError(
            f"compaction {compaction_id!r} replaced nothing; see %agent frames compactions"
        )
    surface = session.surface(agent)
    gone = [seq for seq in made if seq not in surface.seqs]
    if gone:
        later = next(
            (str(n.compaction_id) for n in surface.nodes if gone[0] in surface.hidden_by(n.seq)),
            "it",
        )
        raise UndoError(f"seq {gone[0]} is not on the surface any more; undo {later!r} first")
    restores = tuple({"node": s, "hidden": surface.hidden_by(s)} for s in reversed(made))
    event = CompactionUndo(
        compaction_id=compaction_id,
        restores=restores,
        generation=surface.generation + len(restores),
    )
    session.append(event, agent=agent)
    return len(restores)
