"""Footer: the numbers under a turn: time, steps, tokens, price, context.

May not look up a price: the roof passes `price` in, and what it does not know is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import agent_kernel.widgets.units as units
from agent_kernel.core.events import AssistantMessage, CompactionSummary, Event, StepStart, TurnEnd
from agent_kernel.core.messages import Usage
from agent_kernel.widgets.turnview import Replayed

Price = Callable[[str, Usage], float | None]
"""Dollars of one request's usage by model; None = not known."""
DEMO = "demo provider: fixed rules, no language model"
_ENDED = {
    "interrupted": "stopped by you",
    "max_steps": "stopped at the step limit",
    "budget": "stopped by the budget",
    "prompt_too_long": "stopped: the prompt is too long",
    "refused": "refused",
}


@dataclass(slots=True)
class Sum:
    """Usage and price of several requests; `unpriced` counts those without a known price."""

    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    requests: int = 0
    unpriced: int = 0
    uncounted: int = 0
    demo: bool = False

    def add(self, model: str, usage: Usage, cost: float | None) -> None:
        """Count one request of `model`."""
        self.usage += usage
        self.requests += 1
        self.uncounted += not usage.known
        self.demo = self.demo or model == "demo"
        if cost is not None:
            self.dollars += cost
        elif model != "demo":
            self.unpriced += 1


def sums(events: Sequence[Event], agent: str, price: Price | None) -> tuple[Sum, Sum]:
    """Return what the turn's own agent spent, compactions counted in, and what its children did."""
    own, children = Sum(), Sum()
    for event in events:
        into = own if event.agent == agent else children
        if isinstance(event, AssistantMessage):
            cost = price(event.model, event.usage) if price is not None else None
            into.add(event.model, event.usage, cost)
        elif isinstance(event, CompactionSummary):
            model, cost = event.model or "", event.cost_usd
            if cost is None and price is not None:
                cost = price(model, event.usage)
            into.add(model, event.usage, cost)
    return own, children


def parts(
    events: Sequence[Event],
    agent: str,
    price: Price | None,
    window: int | None,
    now: float | None,
    replayed: Replayed | None,
) -> list[str]:
    """Return the footer's parts in order; a view joins them with ` · `."""
    own, children = sums(events, agent, price)
    seconds = _seconds(events, now)
    steps = sum(isinstance(e, StepStart) and e.agent == agent for e in events)
    end = next((e for e in reversed(events) if isinstance(e, TurnEnd) and e.agent == agent), None)
    out = [_ENDED[end.reason]] if end is not None and end.reason in _ENDED else []
    took = units.seconds(seconds) if seconds is not None else "time unknown"
    if replayed is not None:
        out += ["replayed", f"{took} then", units.count(steps, "step")]
        return out + ([DEMO] if own.demo else [f"{_price(own)} then", "$0.000 now"])
    out += [took, units.count(steps, "step")]
    if own.requests:
        out += _tokens(own) + ([DEMO] if own.demo else [_price(own)])
    if children.requests:
        out.append(f"agents: {', '.join([*_tokens(children), _price(children)])}")
    full = _context(events, agent)
    if window and full is not None:
        out.append(f"context {units.percent(full, window)}")
    return out


def _seconds(events: Sequence[Event], now: float | None) -> float | None:
    if not events:
        return None
    ended = any(isinstance(event, TurnEnd) for event in events)
    last = events[-1].time if ended or now is None else now
    return last - events[0].time


def _tokens(spent: Sum) -> list[str]:
    usage = spent.usage
    if usage.input is None and usage.output is None:
        return ["tokens unknown"]
    least = "at least " if spent.uncounted else ""
    cached = ""
    if usage.cache_read is not None and usage.context:
        cached = f" ({units.percent(usage.cache_read, usage.context)} cached)"
    given = f"in {least}{units.short(usage.context)}{cached}"
    return [given, f"out {least}{units.short(usage.output or 0)}"]


def _price(spent: Sum) -> str:
    if not spent.unpriced:
        return units.dollars(spent.dollars)
    if spent.unpriced == spent.requests:
        return "price unknown"
    missing = units.count(spent.unpriced, "request")
    return f"at least {units.dollars(spent.dollars)}, price unknown of {missing}"


def _context(events: Sequence[Event], agent: str) -> int | None:
    for event in reversed(events):
        own = isinstance(event, AssistantMessage) and event.agent == agent
        if own and event.usage.known:  # type: ignore[attr-defined]
            return event.usage.total  # type: ignore[attr-defined, no-any-return]
    return None
