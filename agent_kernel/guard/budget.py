"""Budgets: how much a turn or a session may spend, and when it must stop.

It spends and stops nothing itself: each function is pure, and what they return is the loop's to do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

Scope = Literal["turn", "notebook"]
Limit = Literal["tokens", "dollars", "seconds", "tool_calls", "steps"]
NOTICE = 0.8  # share of a limit at which a person is told
SMALLEST = 256  # output tokens below which a request is not worth sending
EQUAL_CALLS = 5  # the call, counted in a turn, that asks a person in every mode


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits: tokens of all kinds, dollars, seconds, tool calls, steps; None is no limit."""

    tokens: int | None = None
    dollars: float | None = None
    seconds: float | None = None
    tool_calls: int | None = None
    steps: int | None = None


TURN = Budget(tokens=2_000_000, seconds=1_800.0, tool_calls=200, steps=50)
NOTEBOOK = Budget()


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used so far, sub-agents included; dollars None: a price is unknown."""

    tokens: int = 0
    dollars: float | None = 0.0
    seconds: float = 0.0
    tool_calls: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """A hard stop: which limit of which scope is reached; nothing the model does lifts it."""

    limit: Limit
    allowed: float
    used: float
    scope: Scope

    @property
    def reason(self) -> str:
        """Return the reason of turn/end."""
        return "max_steps" if self.limit == "steps" else "budget"

    def detail(self) -> dict[str, object]:
        """Return the detail of turn/end."""
        return {
            "limit": self.limit,
            "allowed": self.allowed,
            "used": self.used,
            "scope": self.scope,
        }


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars a million tokens of input and of output."""

    input: float
    output: float


Scopes = Mapping[Scope, tuple[Budget, Spent]]


def check_request(
    scopes: Scopes, *, estimate: int, max_tokens: int, price: Price | None = None
) -> int | Stop:
    """Return how many output tokens the next request may ask for, at most `max_tokens`, or a Stop.

    `estimate` is the tokens it sends. Less than 256 left stops. Raises ValueError naming the
    missing price when dollars are limited and the price is unknown: such a turn never starts.
    """
    left = float(max_tokens)
    for scope, (budget, spent) in scopes.items():
        stop = _reached(budget, spent, scope, ("seconds", "steps"))
        if stop is not None:
            return stop
        for limit, room in _room(budget, spent, estimate, price):
            if room < min(SMALLEST, max_tokens):
                allowed = getattr(budget, limit)
                return Stop(limit, allowed, getattr(spent, limit), scope)
            left = min(left, room)
    return int(left)


def _room(
    budget: Budget, spent: Spent, estimate: int, price: Price | None
) -> Iterator[tuple[Limit, float]]:
    """Yield the output tokens that each limit leaves."""
    if budget.tokens is not None:
        yield "tokens", budget.tokens - spent.tokens - estimate
    if budget.dollars is not None:
        if price is None or spent.dollars is None:
            raise ValueError(
                "dollars are limited, but the price of the model is not known; "
                "give its price, or limit tokens instead"
            )
        dollars = budget.dollars - spent.dollars - estimate * price.input / 1e6
        yield "dollars", dollars * 1e6 / price.output if price.output else float("inf")


def check_call(scopes: Scopes) -> Stop | None:
    """Return the Stop that keeps the next tool call from running, None when it may run."""
    for scope, (budget, spent) in scopes.items():
        stop = _reached(budget, spent, scope, ("tool_calls", "seconds", "tokens", "dollars"))
        if stop is not None:
            return stop
    return None


def _reached(budget: Budget, spent: Spent, scope: Scope, limits: Sequence[Limit]) -> Stop | None:
    for limit in limits:
        allowed, used = getattr(budget, limit), getattr(spent, limit)
        if allowed is not None and used is not None and used >= allowed:
            return Stop(limit, allowed, used, scope)
    return None


def notices(budget: Budget, spent: Spent, *, share: float = NOTICE) -> list[Limit]:
    """Return the limits of which `share` or more is used, for a line to the person."""
    names: list[Limit] = [field.name for field in fields(Budget)]  # type: ignore[misc]
    return [
        name
        for name in names
        if (allowed := getattr(budget, name)) is not None
        and (used := getattr(spent, name)) is not None
        and used >= share * allowed
    ]


def must_ask(earlier: Sequence[str], call: str) -> bool:
    """Tell whether `call` (name and input hash) is the fifth equal one of this turn, or a later."""
    return earlier.count(call) + 1 >= EQUAL_CALLS
