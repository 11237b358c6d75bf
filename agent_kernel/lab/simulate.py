"""Simulate: what a session would have cost under another rule of hiding, with the cache's prices.

May not change what was asked or answered: the trajectory is held fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_kernel.lab.trajectory import Rates, Step, Trajectory

MARK = 30  # tokens of a placeholder
WINDOW = 200_000


@dataclass(frozen=True)
class Policy:
    """One rule, by name. `keep` newest results stay when older ones are cleared.

    Clearing happens at each request (`batch` = 1), when `batch` results or `least` tokens wait to
    be cleared, or when the cache is cold and at least `cold_least` do. At `replace_at` tokens all
    before the tail gives way to `artefact` tokens, written by a model when `call_output` > 0.
    """

    name: str
    keep: int | None = None
    batch: int = 0
    least: int = 0
    cold_least: int | None = None
    replace_at: int | None = None
    replace_cold: int | None = None  # the same where the cache is cold anyway
    artefact: int = 500
    call_output: int = 0
    tail: int = 32_000
    pay: float | None = None  # requests over which a warm clearing must pay (Y9)
    snip: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Edited:
    """One edit: before which request, where the prefix broke, what it freed and rewrote."""

    request: int
    kind: str
    offset: int
    freed: int
    cold: bool
    rewrite: int
    usd: float


@dataclass
class Cost:
    """What one session costs under one policy."""

    session: str
    usd: float = 0.0
    contexts: list[int] = field(default_factory=list)
    edits: list[Edited] = field(default_factory=list)
    calls: int = 0
    extra: float = 0.0  # dollars of one more request after each edit, at its context


class _State:
    """The context as it stands: what is hidden, what is cleared, what of it is cached."""

    def __init__(self, made: Trajectory) -> None:
        self.base = 0  # tokens that stand for what was replaced
        self.start = 0  # first step whose text is still there
        self.cleared: list[list[int]] = []  # per step, tokens of each result as they stand now
        self.others: list[int] = []
        self.counts: list[int] = []
        self.at = 0  # results before this step are cleared
        self.length = 0
        self.cached = 0
        self.prefix = made.prefix

    def grow(self, step: Step) -> None:
        """Take in what joined before a request."""
        self.others.append(step.other)
        self.cleared.append(list(step.results))
        self.counts.append(len(step.results))
        self.length += step.other + sum(step.results)

    def limit(self, keep: int) -> int:
        """Return the step before which all results may be cleared: the newest `keep` stay."""
        left, at = keep, len(self.counts)
        while at > self.start and left > 0:
            at -= 1
            left -= self.counts[at]
        return max(at, self.at) if left <= 0 else self.at

    def waiting(self, limit: int) -> tuple[int, int]:
        """Return how many results, and how many tokens, a clearing up to `limit` would free."""
        count = freed = 0
        for at in range(max(self.at, self.start), limit):
            for size in self.cleared[at]:
                if size > MARK:
                    count, freed = count + 1, freed + size - MARK
        return count, freed

    def offset(self, step: int) -> int:
        """Return the tokens before the first result of a step."""
        total = self.base
        for at in range(self.start, step):
            total += self.others[at] + sum(self.cleared[at])
        return total + self.others[step] if step < len(self.others) else total

    def clear(self, limit: int) -> tuple[int, int]:
        """Clear the results before `limit`; return the offset of the first and the tokens freed."""
        first, freed = None, 0
        for at in range(max(self.at, self.start), limit):
            for number, size in enumerate(self.cleared[at]):
                if size > MARK:
                    first = at if first is None else first
                    freed += size - MARK
                    self.cleared[at][number] = MARK
        self.at = max(self.at, limit)
        self.length -= freed
        return (self.offset(first) if first is not None else self.length), freed

    def replace(self, artefact: int, tail: int) -> int:
        """Let `artefact` tokens stand for all before the tail; return the tokens freed."""
        kept, at = 0, len(self.others)
        while at > self.start + 1:
            size = self.others[at - 1] + sum(self.cleared[at - 1])
            if kept + size > tail:
                break
            kept, at = kept + size, at - 1
        head = min(self.prefix or self.others[0], self.length)
        if self.length - kept - head - artefact <= 0:
            return 0
        freed = self.length - (head + artefact + kept)
        self.base, self.start, self.at = head + artefact, at, max(at, self.at)
        self.length -= freed
        return freed


def simulate(made: Trajectory, policy: Policy) -> Cost:
    """Return the cost of a session under a policy."""
    state, cost = _State(made), Cost(made.session)
    for number, step in enumerate(made.steps):
        state.grow(step)
        rates = made.rates[step.model]
        kept = _clear(state, policy, number, step, rates, cost)
        kept = min(kept, _replace(state, policy, number, step, rates, cost))
        read = 0 if step.cold else min(state.cached, kept)
        price = read * rates.read + (state.length - read) * rates.write(step.hour)
        cost.usd += price + step.output * rates.output
        if cost.edits and cost.edits[-1].request == number:
            cost.extra += state.length * rates.read
        cost.contexts.append(state.length)
        state.cached = state.length
    return cost


def _clear(state: _State, policy: Policy, number: int, step: Step, rates: Rates, cost: Cost) -> int:
    """Clear old results where the policy says so; return the tokens whose prefix still stands."""
    if policy.keep is None:
        return state.length
    limit = state.limit(policy.keep)
    if limit <= state.at:
        return state.length
    count, freed = state.waiting(limit)
    if not count or not _wants(state, policy, step, rates, limit, count, freed):
        return state.length
    offset, freed = state.clear(limit)
    _note(cost, number, "clear", offset, freed, step, state, rates)
    return offset


def _wants(
    state: _State, policy: Policy, step: Step, rates: Rates, limit: int, count: int, freed: int
) -> bool:
    if step.cold and policy.cold_least is not None:
        return freed >= policy.cold_least
    warm = (policy.batch and count >= policy.batch) or (policy.least and freed >= policy.least)
    if not warm or policy.pay is None:
        return bool(warm)
    first = next(
        at
        for at in range(max(state.at, state.start), limit)
        if max(state.cleared[at], default=0) > MARK
    )
    rewritten = state.length - freed - state.offset(first)
    gain = freed * rates.read * policy.pay
    return gain > rewritten * (rates.write(step.hour) - rates.read)


def _replace(
    state: _State, policy: Policy, number: int, step: Step, rates: Rates, cost: Cost
) -> int:
    """Replace history where it is over the policy's mark; return the tokens that still stand."""
    marks = (policy.replace_at, policy.replace_cold if step.cold and number else None)
    if not any(mark is not None and state.length > mark for mark in marks):
        return state.length
    before = state.length
    freed = state.replace(policy.artefact, policy.tail)
    if not freed:
        return before
    if policy.call_output:
        read = 0 if step.cold else min(state.cached, before)
        cost.usd += read * rates.read + (before - read) * rates.input
        cost.usd += policy.call_output * rates.output
        cost.calls += 1
    offset = min(state.prefix or 0, state.length)
    _note(cost, number, "replace", offset, freed, step, state, rates)
    return offset


def _note(
    cost: Cost,
    number: int,
    kind: str,
    offset: int,
    freed: int,
    step: Step,
    state: _State,
    rates: Rates,
) -> None:
    rewrite = 0 if step.cold else max(0, min(state.cached - freed, state.length) - offset)
    usd = rewrite * (rates.write(step.hour) - rates.read)
    cost.edits.append(Edited(number, kind, offset, freed, step.cold, rewrite, usd))


@dataclass(frozen=True)
class Total:
    """One policy over all sessions; `relative` to no compaction."""

    policy: Policy
    usd: float
    relative: float
    edits: int
    calls: int
    mean_context: float
    peak_context: int
    warm_rewrite_tokens: int
    free_edits: float
    extra: float
    by_session: tuple[float, ...] = ()


def total(policy: Policy, costs: Sequence[Cost], none: float) -> Total:
    """Return the sum of a policy's sessions; `none` is what no compaction costs, in dollars."""
    contexts = [size for cost in costs for size in cost.contexts]
    edits = [edit for cost in costs for edit in cost.edits]
    usd = sum(cost.usd for cost in costs)
    free = sum(edit.rewrite == 0 for edit in edits)
    return Total(
        policy, usd, usd / none if none else 0.0, len(edits), sum(cost.calls for cost in costs),
        sum(contexts) / len(contexts) if contexts else 0.0, max(contexts, default=0),
        sum(edit.rewrite for edit in edits), free / len(edits) if edits else 1.0,
        sum(cost.extra for cost in costs), tuple(cost.usd for cost in costs),
    )  # fmt: skip


def calibrated(made: Trajectory) -> float:
    """Return the dollars the same cache model gives a session as it was recorded."""
    usd, before = 0.0, 0
    for step in made.steps:
        rates = made.rates[step.model]
        whole = before if not step.boundary else made.prefix
        read = 0 if step.cold else min(whole, step.context)
        usd += read * rates.read + (step.context - read) * rates.write(step.hour)
        usd += step.output * rates.output
        before = step.context
    return usd
