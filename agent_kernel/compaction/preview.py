"""Preview: what a compaction would do, as rows, with nothing sent and nothing appended.

May not ask a model: where one would write a summary, only the ledger is shown.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agent_kernel.compaction.constraints import constraints
from agent_kernel.compaction.facts import facts_of, said
from agent_kernel.compaction.ledger import holds
from agent_kernel.compaction.nodes import all_originals
from agent_kernel.core.compaction import Strategy
from agent_kernel.core.entries import by_source, cost_of
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.session import Session
from agent_kernel.core.transaction import Plan, Run

T = TypeVar("T")
SHOWN = 20  # dropped facts that are named


@dataclass(frozen=True)
class Row:
    """One layer of a preview; tokens, dollars (None = no price), requests until it pays."""

    layer: str
    edits: int
    freed: int
    first_offset: int
    warm_rewrite_tokens: int
    usd: float | None
    break_even_requests: float | None


@dataclass(frozen=True)
class Preview:
    """A dry run: rows by layer, tokens before and after by source, what would stand nowhere."""

    plan: Plan
    rows: tuple[Row, ...]
    before: int
    after: int
    by_source: Json
    facts: tuple[str, ...]
    facts_dropped: int
    constraints_dropped: tuple[str, ...]

    def wire(self) -> Json:
        """Return the preview as JSON."""
        return {
            "rows": [vars(row) for row in self.rows],
            "tokens": {"pre": self.before, "post": self.after, "by_source": self.by_source},
            "dropped": {
                "facts": self.facts_dropped,
                "first": list(self.facts),
                "constraints": list(self.constraints_dropped),
            },
        }

    def __str__(self) -> str:
        lines = [f"{self.before:,} -> {self.after:,} tokens; nothing was changed"]
        lines += [
            f"  {r.layer:<9}{r.edits:>4} edits{r.freed:>10,} freed, from token {r.first_offset:,}, "
            f"{r.warm_rewrite_tokens:,} warm tokens written again"
            + ("" if r.usd is None else f" (${r.usd:.4f})")
            + ("" if r.break_even_requests is None else f", pays after {r.break_even_requests:.1f}")
            for r in self.rows
        ]
        sources = ", ".join(f"{name} {count:,}" for name, count in self.by_source.items())
        lines.append(f"  after: {sources}")
        if self.facts_dropped:
            named = ", ".join(self.facts)
            lines.append(f"  {self.facts_dropped} names would stand only in the log: {named}")
        lines += [f"  a constraint would be hidden: {text}" for text in self.constraints_dropped]
        return "\n".join(lines)


def chosen(strategies: Sequence[Strategy], policy: str) -> tuple[Strategy, ...]:
    """Return the layers of a policy: `ladder` is all, else a comma list in the room's own order.

    Raises ValueError naming the layers for an unknown one.
    """
    if policy == "ladder":
        return tuple(strategies)
    wanted = [name.strip() for name in policy.split(",") if name.strip()]
    known = {strategy.name for strategy in strategies}
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        names = ", ".join(["ladder", *(s.name for s in strategies)])
        raise ValueError(f"no layer {(unknown or [policy])[0]!r}; there are {names}")
    return tuple(s for s in strategies if s.name in wanted)


def plan(
    session: Session,
    strategies: Sequence[Strategy],
    policy: str = "ladder",
    region: tuple[int, int] | None = None,
    model: str | None = None,
    *,
    agent: str = "main",
    profile: ModelProfile | None = None,
) -> Preview:
    """Return what a manual compaction of `agent` would do; the log keeps its bytes.

    `model` names whose prices count. Raises ValueError for an unknown layer, or
    when `region` has no legal ends (naming the nearest).
    """
    state = session.state(agent)
    name = model or (state.header.model if state.header else "")
    window = state.context.window if state.context else None
    limits = profile or ModelProfile(name or "unknown", window=window or 200_000)
    if region is not None:
        strict = limits.thinking != "adaptive"
        session.surface(agent).region(*region, limits, strict=strict)
    run = Run(session, agent, limits, chosen(strategies, policy), "manual", region, model=name)
    return preview(_now(run.plan()), name, session.events[-1].time if session.events else 0.0)


def preview(made: Plan, model: str, time: float) -> Preview:
    """Return a plan's rows and what it would drop."""
    rows, view = [], made.before
    for name, edits in made.layers:
        kept = [edit for layer, edit in made.kept if layer == name]
        cost = cost_of(view, made.after, kept or edits, made.desk, model, time)
        rows.append(
            Row(
                name, len(edits), sum(e.freed for e in edits), min(e.offset for e in edits),
                cost["warm_rewrite_tokens"], cost["rewrite_usd"], cost["break_even_requests"],
            )
        )  # fmt: skip
    facts, sentences = dropped_of(made)
    return Preview(
        made, tuple(rows), made.before.tokens, made.after.tokens,
        by_source(made.after.nodes, made.after.tokens),
        tuple(facts[:SHOWN]), len(facts), tuple(sentences),
    )  # fmt: skip


def dropped_of(made: Plan) -> tuple[list[str], list[str]]:
    """Return the names and the constraints that would stand only in the log."""
    events = all_originals(made.before, made.before.nodes)
    text = "\n".join(block.text for block in said(made.after.nodes))
    there = holds(text)
    lost = [f for f in facts_of(said(events)) if f.kind != "number" and not there(f)]
    lost.sort(key=lambda fact: (-fact.mentions, fact.value))
    sentences = [c.text for c in constraints(events) if c.text not in text]
    return [fact.value for fact in lost], sentences


def _now(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine that waits for nothing returns, also inside a running loop."""
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    raise RuntimeError("a dry run waited for something; no layer may without a model")
