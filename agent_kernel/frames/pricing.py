"""Pricing: the dollars of calls at list prices or a person's own, and what has no price.

May not guess: a call without a rate has no dollars and its tokens are counted as unpriced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent_kernel.core.prices import Modifiers, Rates
from agent_kernel.frames.ledger import Call
from agent_kernel.frames.rates import RateShelf

_STANDARD = (None, "", "standard", "default", "not_available", "auto")


@dataclass(slots=True)
class Used:
    """A rate that was used: over how many calls and tokens."""

    rates: Rates
    calls: int = 0
    tokens: int = 0


class PriceBook:
    """Rates by (model, day, tier): a person's rows first, then the table package."""

    def __init__(
        self, own: Sequence[Mapping[str, Any]] = (), shelf: RateShelf | None = None
    ) -> None:
        self._own = [_own_rates(row) for row in own]
        self._shelf = shelf or RateShelf()
        self.used: dict[str, Used] = {}
        self.unpriced: dict[str, int] = {}

    def copy(self) -> PriceBook:
        """Return a book with the same rates that counts its own use."""
        made = PriceBook(shelf=self._shelf)
        made._own = self._own
        return made

    def price(self, calls: Iterable[Call]) -> list[dict[str, Any]]:
        """Set the dollars of every call and return the issues: one a model or reason."""
        issues: dict[tuple[str, str], dict[str, Any]] = {}
        for call in calls:
            model = call.row["model"]
            found, why = self._find(model, call)
            total = call.context + (call.output or 0)
            if found is None:
                self.unpriced[model or ""] = self.unpriced.get(model or "", 0) + total
                _note(issues, call, why or "unknown_model", model)
                continue
            call.price_id, call.rates = found.price_id, found
            call.usd_recorded = _whole(call, found)
            if call.usd_recorded is None:
                self.unpriced[model] = self.unpriced.get(model, 0) + _missing(call, found)
                _note(issues, call, "no_rate", model)
            used = self.used.get(found.price_id)
            if used is None:
                used = self.used[found.price_id] = Used(found)
            used.calls += 1
            used.tokens += total
        self._shelf.keep()
        return list(issues.values())

    def _find(self, model: str | None, call: Call) -> tuple[Rates | None, str | None]:
        if not model:
            return None, "unknown_model"
        when = None if call.time_first is None else _when(call.time_first)
        context, modifiers = call.context, _modifiers(call)
        own = [one for one in self._own if one.model == model and _holds(one, when, context)]
        if own:
            return max(own, key=lambda one: (str(one.valid_from or ""), one.tier_above)), None
        rates = self._shelf.rates
        found = rates(model, when, context, modifiers)
        if found is not None:
            return found, None
        if modifiers and rates(model, when, context) is not None:
            return None, "price_modifier"
        known = when is None and rates(model, datetime.now(UTC), context) is not None
        return None, "no_rate" if known else "unknown_model"

    def rates_of(self, price_id: str) -> Rates:
        """Return the rates behind a price id that was used."""
        return self.used[price_id].rates


def _when(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def parts(call: Call) -> dict[str, float | None]:
    """Return the dollars of a priced call: input, output, cache_write, cache_read, server.

    A part whose tokens have no rate is None; a call without rates has no parts.
    """
    rates: Rates | None = call.rates
    if rates is None:
        return {}
    part = {name: _dollars(n, getattr(rates, name)) for name, n in call.tokens().items()}
    writes = [part.pop("cache_write_5m"), part.pop("cache_write_1h")]
    return {
        "input": part["input"],
        "output": part["output"],
        "cache_write": None if None in writes else sum(one or 0.0 for one in writes),
        "cache_read": part["cache_read"],
        "server": (call.searches or 0) * (rates.web_search or 0.0) / 1e3,
    }


def _whole(call: Call, rates: Rates) -> float | None:
    """Return the dollars of a call, None when tokens of it have no rate: the sum of its parts."""
    total = 0.0
    for tokens, rate in (
        (call.input, rates.input),
        (call.output, rates.output),
        (call.cache_write_5m, rates.cache_write_5m),
        (call.cache_write_1h, rates.cache_write_1h),
        (call.cache_read, rates.cache_read),
    ):
        if tokens:
            if rate is None:
                return None
            total += tokens * rate / 1e6
    return total + (call.searches or 0) * (rates.web_search or 0.0) / 1e3


def _missing(call: Call, rates: Rates) -> int:
    return sum(n for name, n in call.tokens().items() if n and getattr(rates, name) is None)


def _dollars(tokens: int, rate: float | None) -> float | None:
    if rate is None:
        return None if tokens else 0.0
    return tokens * rate / 1e6


def _modifiers(call: Call) -> Modifiers:
    speed, tier = call.row["speed"], call.row["tier"]
    if speed in _STANDARD and tier in _STANDARD:
        return ()
    found = []
    if speed not in _STANDARD:
        found.append(("speed", str(speed)))
    if tier not in _STANDARD:
        found.append(("processing", "batch") if tier == "batch" else ("service_tier", str(tier)))
    return tuple(found)


def _note(
    issues: dict[tuple[str, str], dict[str, Any]], call: Call, code: str, model: str | None
) -> None:
    texts = {
        "unknown_model": f"model {model!r} has no list price; its dollars are unknown",
        "no_rate": f"model {model!r} has no price for a bucket or day used; dollars unknown",
        "price_modifier": f"model {model!r} has no price for this speed or tier; dollars unknown",
    }
    if (code, model or "") not in issues:
        issues[code, model or ""] = {
            "code": code,
            "file": call.row["file"],
            "offset": call.row["offset"],
            "bytes": None,
            "message": texts[code],
            "sample": "",
            "session": call.row["session"],
        }


def _holds(one: Rates, when: datetime | None, context: int) -> bool:
    if one.valid_from is not None and (when is None or when.date() < one.valid_from):
        return False
    return context > one.tier_above or one.tier_above == 0


def _own_rates(row: Mapping[str, Any]) -> Rates:
    """Return one row of a person's price table; raises ValueError when it names no model."""
    model = row.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError(f"a price row without model: {dict(row)!r}; give the columns of `prices`")
    begin = row.get("valid_from")
    return Rates(
        price_id=str(row.get("price_id") or model),
        model=model,
        provider=str(row.get("provider") or ""),
        input=_number(row.get("input")),
        output=_number(row.get("output")),
        cache_write_5m=_number(row.get("cache_write_5m")),
        cache_write_1h=_number(row.get("cache_write_1h")),
        cache_read=_number(row.get("cache_read")),
        web_search=_number(row.get("web_search")),
        tier_above=int(_number(row.get("tier_above")) or 0),
        valid_from=datetime.fromisoformat(str(begin)).date() if begin else None,
        source=str(row.get("source") or "own"),
    )


def _number(value: Any) -> float | None:
    if value is None or value == "" or value != value:  # NaN
        return None
    return float(value)
