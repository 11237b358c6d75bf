"""Lanes: for each agent, the blocks every call carried, in order, with their tokens.

May not read text: sizes come from blocks, positions from the order of the chain.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

from agent_kernel.frames.assemble import LOGS, Session
from agent_kernel.frames.ledger import Call
from agent_kernel.frames.load import Block, Load, Placed

CHARS_PER_TOKEN = 2.75  # analysis.md §3: the fallback, when a model has under 30 clean steps
SOURCES = ("prompts", "assistant", "tool_results", "attachments", "summary")
_SOURCE = {
    "prompt": "prompts",
    "command": "prompts",
    "assistant": "assistant",
    "tool_result": "tool_results",
    "attachment": "attachments",
    "summary": "summary",
}
_ON = ("official", "sibling", "repaired", "preserved", "history", "sidechain")


@dataclass(slots=True)
class Item:
    """One block on a surface: its tokens and what it has cost so far."""

    block: Block
    source: str
    tokens: int
    first_usd: float = 0.0
    later_usd: float = 0.0
    calls: int = 0


@dataclass(slots=True)
class Step:
    """One call and what it carried: tokens by source, dollars nobody explains."""

    placed: Placed
    by_source: dict[str, int]
    system: int
    explained: int | None
    loose_usd: float | None


@dataclass(slots=True)
class Lane:
    """All steps of one agent of one session, and every block it ever carried."""

    session: str
    agent: str
    steps: list[Step] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)


def lanes(load: Load) -> list[Lane]:
    """Return the lanes of a load, by session and agent."""
    ratios = fits(load)
    blocks: dict[int, list[Block]] = defaultdict(list)
    for block in load.blocks:
        if not block["nested"] and block["kind"] not in ("thinking", "redacted_thinking"):
            blocks[block["rec"].id].append(block)
    calls: dict[tuple[str, str], dict[int, list[Placed]]] = defaultdict(lambda: defaultdict(list))
    for placed in load.calls:
        if placed.kind not in ("compaction", "acompact") and not placed.call.nested:
            calls[placed.session, placed.agent][placed.rec.id].append(placed)
    out = []
    for session in load.assembled.sessions.values():
        for agent in dict.fromkeys(rec.agent for rec in session.records):
            mine = calls.get((session.id, agent))
            if mine:
                out.append(_Walker(load, session, agent, ratios).run(blocks, mine))
    return out


def fits(load: Load) -> dict[str, tuple[float, int]]:
    """Return characters per token by model: (median, steps it was fitted on).

    Over steps that add only tool calls and their results, 1K to 40K tokens; a model with under 30
    such steps has the fallback, 2.75, with 0 steps.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for model, chars, delta in clean_steps(load):
        found[model].append(chars / delta)
    return {
        model: (median(ratios), len(ratios)) for model, ratios in found.items() if len(ratios) >= 30
    }


def clean_steps(load: Load) -> Iterator[tuple[str, int, int]]:
    """Yield (model, characters added, tokens added) of steps fit for the estimator."""
    load.records  # noqa: B018 - the chain must be known
    added: dict[tuple[str, str], list[Block]] = defaultdict(list)
    for block in load.blocks:
        if not block["nested"] and block["rec"].chain in _ON:
            added[block["rec"].session, block["agent"]].append(block)
    for key, listed in added.items():
        listed.sort(key=lambda block: block["rec"].seq or 0)
        seqs = [block["rec"].seq or 0 for block in listed]
        mine = [
            one
            for one in load.calls
            if (one.session, one.agent) == key
            and one.rec.chain in _ON
            and one.kind not in ("compaction", "acompact")
        ]
        for a, b in pairwise(mine):
            low, high = a.rec.seq or 0, b.rec.seq or 0
            between = listed[bisect_right(seqs, low - 1) : bisect_right(seqs, high - 1)]
            delta = b.call.context - a.call.context
            kinds = {block["kind"] for block in between}
            clean = kinds == {"tool_use", "tool_result"} and 1_000 <= delta <= 40_000
            if clean and a.rec.epoch == b.rec.epoch and a.call.row["model"]:
                yield a.call.row["model"], sum(block["chars"] for block in between), delta


class _Surface:
    """The blocks one agent carries now, in order, and what calls have charged spans of them."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.ends: list[int] = []
        self.sums: dict[str, int] = dict.fromkeys(SOURCES, 0)
        self.charged = 0  # blocks before here have been paid at least once
        self._rates: list[float] = [0.0]  # dollars a token, as differences between neighbours
        self._calls: list[int] = [0]

    @property
    def tokens(self) -> int:
        """The tokens of all blocks."""
        return self.ends[-1] if self.ends else 0

    def push(self, item: Item) -> None:
        """Add a block at the end."""
        self.items.append(item)
        self.ends.append(self.tokens + item.tokens)
        self.sums[item.source] += item.tokens
        self._rates.append(0.0)
        self._calls.append(0)

    def charge(self, system: int, prices: _Spans) -> None:
        """Let every block pay its span of one request; what stands beyond its end pays nothing."""
        last = bisect_left(self.ends, prices.edges[-1] - system) + 1
        last = min(last, len(self.items))
        fresh = min(self.charged, last)
        at = 0
        for edge, cost in zip(prices.edges, prices.costs, strict=True):
            whole = min(bisect_right(self.ends, edge - system), fresh)
            if whole > at:
                self._owe(at, whole, cost)
                at = whole
            if at < fresh and self._starts(at) + system < edge:
                self._pay(at, system, prices, first=False)
                at += 1
        for number in range(at, last):
            self._pay(number, system, prices, first=number >= self.charged)
        self.charged = max(self.charged, last)

    def _starts(self, number: int) -> int:
        return self.ends[number] - self.items[number].tokens

    def _owe(self, begin: int, end: int, rate: float) -> None:
        self._rates[begin] += rate
        self._rates[end] -= rate
        self._calls[begin] += 1
        self._calls[end] -= 1

    def _pay(self, number: int, system: int, prices: _Spans, *, first: bool) -> None:
        item, end = self.items[number], system + self.ends[number]
        usd = prices.until(end) - prices.until(end - item.tokens)
        if first and not item.calls:
            item.first_usd += usd
        else:
            item.later_usd += usd
        item.calls += 1

    def settle(self) -> list[Item]:
        """Hand out what is owed and return the blocks."""
        rate, calls = 0.0, 0
        for number, item in enumerate(self.items):
            rate += self._rates[number]
            calls += self._calls[number]
            item.later_usd += rate * item.tokens
            item.calls += calls
        return self.items


class _Walker:
    """Walks one agent's records in order and prices what each call carries."""

    def __init__(
        self, load: Load, session: Session, agent: str, ratios: dict[str, tuple[float, int]]
    ) -> None:
        self.load = load
        self.session = session
        self.lane = Lane(session.id, agent)
        self.ratios = ratios
        self.ratio = CHARS_PER_TOKEN
        self.system = 0
        self.surface = _Surface()
        self.fresh = 0

    def run(self, blocks: dict[int, list[Block]], calls: dict[int, list[Placed]]) -> Lane:
        """Return the lane of this agent."""
        micro = self.session.marked("micro")
        cleared = {mark.rec.id: set(mark.data.get("cleared", ())) for mark in micro}
        surfaces = self.load.chains[self.session.id].surfaces
        exact = self.session.harness in LOGS
        epoch: int | None = None
        for rec in self.session.records:
            if rec.agent != self.lane.agent:
                continue
            if epoch is not None and rec.epoch != epoch and not exact:
                self._keep(lambda item: item.block["rec"].chain == "preserved")
                self.fresh = 0
            epoch = rec.epoch
            for placed in calls.get(rec.id, ()):
                self._step(placed)
            if rec.chain in _ON and not rec.superseded:
                self._add(blocks.get(rec.id, ()))
            if rec.id in surfaces:
                self._resurface(surfaces[rec.id])
            gone = cleared.get(rec.id)
            if gone:
                self._keep(partial(_uncleared, gone))
        self.surface.settle()
        return self.lane

    def _resurface(self, seqs: list[int]) -> None:
        """Go on with the surface the log says there is now."""
        self.surface.settle()
        held: dict[int | None, list[Item]] = defaultdict(list)
        for item in self.lane.items:
            held[item.block["rec"].seq].append(item)
        self.surface = _Surface()
        for seq in seqs:
            for item in held[seq]:
                self.surface.push(item)

    def _keep(self, stays: Callable[[Item], bool]) -> None:
        """Go on with a surface of only the blocks that stay."""
        before = self.surface.settle()
        self.surface = _Surface()
        for item in before:
            if stays(item):
                self.surface.push(item)

    def _add(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            source = _SOURCE.get(block["source"] or "", "attachments")
            item = Item(block, source, round((block["chars"] or 0) / self.ratio))
            self.lane.items.append(item)
            self.surface.push(item)
            self.fresh += item.tokens

    def _step(self, placed: Placed) -> None:
        call, first = placed.call, not self.lane.steps
        if first:
            self.ratio = self.ratios.get(call.row["model"] or "", (CHARS_PER_TOKEN, 0))[0]
            self._rescale()
            self.system = max(0, call.context - self.surface.tokens)
        loose = self._charge(call)
        explained = None if first else self.fresh
        sums = dict(self.surface.sums)
        self.lane.steps.append(Step(placed, sums, self.system, explained, loose))
        self.fresh = 0

    def _rescale(self) -> None:
        """Estimate again what was added before the model was known."""
        held = self.surface.items
        self.surface = _Surface()
        for item in held:
            item.tokens = round((item.block["chars"] or 0) / self.ratio)
            self.surface.push(item)

    def _charge(self, call: Call) -> float | None:
        """Let every block pay its span; return the input-side dollars no block explains."""
        prices = _Spans.of(self.load, call)
        if prices is None:
            return None
        surface, system = self.surface, self.system
        surface.charge(system, prices)
        covered = system + surface.tokens
        return prices.until(call.context) - prices.until(covered) + prices.until(system)


def _uncleared(gone: set[str], item: Item) -> bool:
    return item.source != "tool_results" or item.block["tool_use_id"] not in gone


@dataclass(slots=True)
class _Spans:
    """The dollars of the first tokens of a request: read, then writes, then plain input."""

    edges: tuple[int, int, int, int]
    read: float
    costs: tuple[float, float, float, float]

    @classmethod
    def of(cls, load: Load, call: Call) -> _Spans | None:
        if call.price_id is None or call.usd_recorded is None:
            return None
        rates: Any = load.priced.book.rates_of(call.price_id)
        first = call.cache_read
        second = first + call.cache_write_5m
        third = second + call.cache_write_1h
        names = (rates.cache_read, rates.cache_write_5m, rates.cache_write_1h, rates.input)
        costs = tuple((one or 0.0) / 1e6 for one in names)
        return cls(
            (first, second, third, third + call.input),
            costs[0],
            (costs[0], costs[1], costs[2], costs[3]),
        )

    def until(self, tokens: int) -> float:
        """Return the dollars of the first `tokens` tokens; none beyond the request's end."""
        total, begin = 0.0, 0
        for edge, cost in zip(self.edges, self.costs, strict=True):
            if tokens <= begin:
                break
            total += (min(tokens, edge) - begin) * cost
            begin = edge
        return total
