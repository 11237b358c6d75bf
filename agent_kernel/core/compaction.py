"""Compaction: when the surface is due to be shortened, what a layer may look at, what it may plan.

May not change anything: strategies plan edits here, `transaction.py` commits them or leaves all as
it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from agent_kernel.core.events import CompactionSummary, Event, SurfaceEvent
from agent_kernel.core.messages import Json, Usage
from agent_kernel.core.model import Done, ModelProfile
from agent_kernel.core.session import Session
from agent_kernel.core.surface import cut_positions
from agent_kernel.core.usage import event_tokens

Trigger = Literal["soft", "hard", "overflow", "cold", "manual"]
TTL_SECONDS = 300.0  # a warm prefix lives this long after a request began
HORIZON = 10  # requests over which a warm rewrite must pay (compaction.md Y9)
READ, WRITE = 0.1, 1.25  # price of a cached read and of a 5 m write, as shares of plain input
BREAKER, BREAKER_TURNS = 3, 5  # bad summaries in a row, and for how many turns no model is asked
COLD_FLOOR = 40_000  # tokens


@dataclass(frozen=True)
class WaterMarks:
    """Where layers begin, in tokens of a window (compaction.md §4)."""

    window: int
    soft: int
    mid: int
    hard: int
    tail: int
    clear_at_least: int = 20_000

    @classmethod
    def of(cls, profile: ModelProfile, **given: float) -> WaterMarks:
        """Return the marks of a model; `given` ones are a share of the window (< 1) or tokens."""
        window = profile.window
        reserve = profile.max_output + 13_000
        hard = min(0.8 * window, window - reserve) if window > 2 * reserve else 0.8 * window
        marks = {"soft": 0.6 * window, "mid": 0.7 * window, "hard": hard, "tail": 0.16 * window}
        marks |= {name: v * window if v < 1 else v for name, v in given.items()}
        least = min(20_000, 0.1 * window)
        return cls(window, **{k: round(v) for k, v in marks.items()}, clear_at_least=round(least))

    def least(self, tokens: int) -> int:
        """Return the tokens a clearing of old results must free to be worth a warm rewrite."""
        return max(self.clear_at_least, tokens // 10)


@dataclass(frozen=True)
class Edit:
    """One planned change: `payload` takes the place of the nodes from `first` to `last` (seqs).

    `freed` in tokens; `offset` = tokens before the first changed node, where a warm prefix breaks;
    `dropped` counts facts and constraints that stand nowhere any more but in the log.
    """

    first: int
    last: int
    payload: SurfaceEvent
    freed: int
    offset: int
    reason: str
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """What a layer sees: the nodes as former layers of this run left them, and the pressure in
    tokens.

    `log` is read for what nodes once were, `former` for what former layers of this run hid, by its
    first seq; `pinned` seqs and the first and present user message stay;
    `tokens` counts what the provider counted (system and tools too), less what was freed already.
    """

    nodes: tuple[SurfaceEvent, ...]
    profile: ModelProfile
    marks: WaterMarks
    tokens: int
    trigger: Trigger
    cold: bool
    log: Sequence[Event]
    pinned: frozenset[int] = frozenset()
    compaction_id: str = ""
    instructions: str | None = None
    span: tuple[int, int] | None = None  # a region the person chose
    agent: str = "main"
    former: Mapping[int, tuple[SurfaceEvent, ...]] = field(default_factory=dict)
    fresh_after: int = -1  # seq of the last request: what came after it was never cached

    @property
    def strict(self) -> bool:
        """True where thinking loops stay whole; only an adaptive model may be cut inside one."""
        return self.profile.thinking != "adaptive"

    def cuts(self, strict: bool = True) -> frozenset[int]:
        """Return the positions where these nodes may be cut (compaction.md §3.2)."""
        return cut_positions(self.nodes, strict)

    def offsets(self) -> list[int]:
        """Return, for each node, the estimated tokens before it."""
        out, total = [], 0
        for node in self.nodes:
            out.append(total)
            total += event_tokens(node)
        return out

    @property
    def exempt(self) -> bool:
        """True when a cache rewrite is no argument: cold, over hard, overflow or asked for."""
        return self.cold or self.trigger in ("hard", "overflow", "manual")


@dataclass(frozen=True)
class Asked:
    """The answer to one request of a compaction's own, its digest, dollars and milliseconds.

    `prefix_shared`: the request began with the bytes of the agent's last one.
    """

    done: Done
    digest: str
    provider: str
    prefix_shared: bool
    usd: float | None
    duration_ms: int


# One request of the compaction's own: (instruction, max_tokens, leading nodes left out).
Ask = Callable[[str, int, int], Awaitable[Asked]]


@dataclass(frozen=True)
class Prepared:
    """A compaction made in the background: what it hides, and its summary (None = the ledger)."""

    candidate_id: str
    hidden: tuple[int, ...]
    summary: CompactionSummary | None


@dataclass
class Desk:
    """What a layer that needs a model is handed, and what it says of the calls it made.

    `summaries` are logged with the commit; `lost` is the usage of answers that were not used;
    `problem` {"code", "text"} says why a summary asked for is not there; `prepared` was made in the
    background.
    """

    ask: Ask | None = None
    attempts: int = 0
    summaries: list[CompactionSummary] = field(default_factory=list)
    lost: Usage | None = None
    usd: float | None = None
    model: str | None = None
    problem: Json | None = None
    prepared: Prepared | None = None

    def paid(self, asked: Asked) -> None:
        """Count one answer's dollars; unknown dollars stay unknown."""
        self.model = asked.done.model or self.model
        known = asked.usd is not None and (self.attempts <= 1 or self.usd is not None)
        self.usd = (self.usd or 0.0) + (asked.usd or 0.0) if known else None


class Strategy(Protocol):
    """One layer: pure and deterministic given the view, unless it needs a model."""

    @property
    def name(self) -> str:
        """The layer's word in logs."""
        ...

    @property
    def needs_model(self) -> bool:
        """True for the layer that asks a model, where one is there."""
        ...

    def wants(self, view: View) -> bool:
        """Tell whether the layer runs at this pressure."""
        ...

    async def plan(self, view: View, desk: Desk) -> list[Edit]:
        """Return the edits this layer would make, [] when none is worth it."""
        ...


class CompactionFailed(Exception):
    """A layer that could not do its work: `code` is one of compaction.md §3.1."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `error` is {"code", "text"} when it failed or was skipped; tokens after
    it."""

    status: Literal["committed", "failed", "skipped"]
    compaction_id: str
    pre: int
    post: int
    error: Json | None = None

    @property
    def committed(self) -> bool:
        """True when the surface changed."""
        return self.status == "committed"


def context_tokens(session: Session, agent: str) -> int:
    """Return the tokens the next request of `agent` would hold, by the meter."""
    surface, state = session.surface(agent), session.state(agent)
    return session.meter.tokens(surface.nodes, surface.generation, state.anchored)


def is_cold(session: Session, agent: str) -> bool:
    """Tell whether the cached prefix has expired: both times are in the log, so it replays.

    The last event's time is compared with the last request's; 1-hour writes live an hour.
    """
    state = session.state(agent)
    if state.context is None:
        return False
    ttl = TTL_SECONDS
    if any(len(mark) > 3 and mark[3] == "1h" for mark in state.context.cache_breakpoints):
        ttl = 3_600.0
    return session.events[-1].time - state.context.time > ttl


def due(
    session: Session,
    agent: str,
    profile: ModelProfile,
    strategies: Sequence[Strategy],
    marks: WaterMarks | None = None,
) -> Trigger | None:
    """Return the trigger of the compaction due before the next request, None when none is.

    None again until the surface changed: a run that freed nothing is not repeated at once.
    """
    if not strategies or _tried(session, agent):
        return None
    tokens, marks = context_tokens(session, agent), marks or WaterMarks.of(profile)
    if tokens > marks.hard:
        return "hard"
    if _was_no_use(session, agent, tokens, marks):
        return None
    if session.state(agent).candidate is not None and not is_cold(session, agent):
        return None  # one is being prepared: an edit inside its span would throw it away
    if is_cold(session, agent) and tokens >= min(COLD_FLOOR, marks.soft):
        return "cold"
    return "soft" if tokens > marks.soft else None


def _tried(session: Session, agent: str) -> bool:
    """Tell whether a compaction of this agent began since its last surface event joined."""
    runs, surface = session.state(agent).compactions, session.surface(agent)
    appended = (n.seq for n in reversed(surface.nodes) if n.replaces is None)
    return bool(runs) and runs[-1].seq > next(appended, -1)


def _was_no_use(session: Session, agent: str, tokens: int, marks: WaterMarks) -> bool:
    """Tell whether the last run failed and too little came since for another to end otherwise."""
    runs = session.state(agent).compactions
    failed = bool(runs) and runs[-1].status == "failed"
    return failed and tokens - runs[-1].tokens < marks.clear_at_least


def breaker_open(session: Session, agent: str) -> bool:
    """Tell whether no model is asked for summaries: three were bad in a row, all in these turns."""
    state = session.state(agent)
    bad = state.bad_summaries
    return len(bad) >= BREAKER and state.turn - bad[-1] < BREAKER_TURNS


def thrashing(session: Session, agent: str) -> bool:
    """Tell whether three runs in a row began within 3 steps of the one before (compaction.md
    §3.3)."""
    runs = session.state(agent).compactions[-3:]
    return len(runs) == 3 and all(
        run.trigger in ("hard", "overflow") and run.steps_since is not None and run.steps_since <= 3
        for run in runs
    )


def pays(edits: Sequence[Edit], view: View) -> list[Edit]:
    """Return the edits worth a warm rewrite: the best suffix by offset, all of them when exempt
    (Y9)."""
    if view.exempt or not edits:
        return list(edits)
    ordered = sorted(edits, key=lambda e: e.offset)
    whole = sum(event_tokens(node) for node in view.nodes)
    best, chosen, freed = 0.0, len(ordered), 0
    for at in range(len(ordered) - 1, -1, -1):
        freed += ordered[at].freed
        rewritten = whole - freed - ordered[at].offset
        gain = freed * READ * HORIZON - rewritten * (WRITE - READ)
        if gain > best:
            best, chosen = gain, at
    return ordered[chosen:]


def apply_edits(view: View, edits: Sequence[Edit]) -> View:
    """Return the view after `edits`: each payload stands where its span stood, by its first seq."""
    by_first = {edit.first: edit for edit in edits}
    former = dict(view.former)
    out: list[SurfaceEvent] = []
    hidden: list[SurfaceEvent] = []
    edit: Edit | None = None
    for node in view.nodes:
        edit = edit or by_first.get(node.seq)
        if edit is None:
            out.append(node)
            continue
        hidden += former.get(node.seq, (node,))
        if node.seq == edit.last:
            out.append(edit.payload.model_copy(update={"seq": edit.first, "replaces": None}))
            former[edit.first] = tuple(hidden)
            edit, hidden = None, []
    tokens = view.tokens - sum(e.freed for e in edits)
    if tokens < 0:  # the provider counted less than we estimate: the share that stays is ours
        estimated = sum(map(event_tokens, view.nodes))
        tokens = view.tokens * sum(map(event_tokens, out)) // max(1, estimated)
    return replace(view, nodes=tuple(out), tokens=tokens, former=former)
