"""Prices: list rates per million tokens, looked up once per (model, day, tier) in genai-prices.

May not guess: a model, a day or a bucket the table does not state has no rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

Modifiers = tuple[tuple[str, str], ...]
# What may follow a matched model prefix: a date, a version, `latest`, a context mark. Any other
# rest names another model, whose price would be a neighbour's.
_REST = re.compile(r"(?:\d{4,}|[-@.:](?:\d+|latest|v\d+))*(?:\[1m\])?")
_FIELDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "cache_read": "cache_read_mtok",
    "web_search": "web_searches_kcount",
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per million tokens (`web_search`: per 1,000 searches); None where no rate is stated.

    `tier_above` is the context in tokens above which this tier holds; `valid_from` its first day.
    """

    price_id: str
    model: str
    provider: str
    input: float | None
    output: float | None
    cache_write_5m: float | None
    cache_write_1h: float | None
    cache_read: float | None
    web_search: float | None = None
    tier_above: int = 0
    valid_from: date | None = None
    source: str = ""

    def dollars(self, tokens: dict[str, int]) -> float | None:
        """Return the dollars of `tokens` by bucket name; None when a used bucket has no rate."""
        total = 0.0
        for bucket, count in tokens.items():
            rate = getattr(self, bucket)
            if count and rate is None:
                return None
            total += count * (rate or 0.0)
        return total / 1e6


def rates(
    model: str, day: date | None, context_tokens: int, modifiers: Modifiers = ()
) -> Rates | None:
    """Return the rates of one call, or None when the table does not state them.

    `day` may be a datetime (UTC if naive): some providers price by the hour. Without a day a model
    whose price changed has no rate. `modifiers`, (("speed", "fast"),), need a price of their own.
    """
    plan = _plan(model, _moment(day), modifiers)
    return None if plan is None else plan.at(context_tokens)


class _Plan:
    """The prices of one model at one time, a Rates for each tier, made when first used."""

    def __init__(
        self, model: str, provider: str, price: ModelPrice, begin: date | None, mods: Modifiers
    ) -> None:
        self._of = (model, provider, price, begin, mods)
        self._starts = _starts(price)
        self._made: dict[int, Rates] = {}

    def at(self, context: int) -> Rates:
        """Return the rates of the highest tier that begins below `context`."""
        tier = max((start for start in self._starts if context > start), default=0)
        if tier not in self._made:
            model, provider, price, begin, mods = self._of
            self._made[tier] = _build(model, provider, price, tier, begin, mods)
        return self._made[tier]


@lru_cache(maxsize=8192)
def _plan(model: str, moment: datetime | None, modifiers: Modifiers) -> _Plan | None:
    info = _model(model.lower())
    chosen = None if info is None else _active(info[1], moment)
    if info is None or chosen is None:
        return None
    price, begin = chosen
    if modifiers:
        changed = _modified(info[1], moment, modifiers)
        if changed is None:
            return None
        price = changed
    return _Plan(model, info[0], price, begin, modifiers)


def periods(model: str) -> list[tuple[date | None, list[Rates]]] | None:
    """Return every period of a model's plain prices, by first day, a Rates for each tier.

    Empty for a model without a price; None when prices also depend on the hour.
    """
    info = _model(model.lower())
    if info is None:
        return []
    listed = info[1].prices
    if not isinstance(listed, list):
        spans: list[tuple[date | None, ModelPrice]] = [(None, listed)]
    elif any(one.constraint and not hasattr(one.constraint, "start_date") for one in listed):
        return None
    else:
        spans = [(getattr(one.constraint, "start_date", None), one.prices) for one in listed]
    found = []
    for begin, price in spans:
        plan = _Plan(model, info[0], price, begin, ())
        found.append((begin, [plan.at(start + 1) for start in (-1, *_starts(price))]))
    return found


def context_window(model: str) -> int | None:
    """Return the most input tokens the table says `model` takes, None when it does not say."""
    info = _model(model.lower())
    return info[1].context_window if info else None


def source() -> str:
    """Return the name and version of the price table."""
    import genai_prices

    return f"genai-prices {genai_prices.__version__}"


def _moment(day: date | None) -> datetime | None:
    """Return the half hour of `day`: no price of the table begins inside one."""
    if day is None:
        return None
    if not isinstance(day, datetime):
        return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    when = day if day.tzinfo else day.replace(tzinfo=UTC)
    return when.replace(minute=30 if when.minute >= 30 else 0, second=0, microsecond=0)


@lru_cache(maxsize=4096)
def _model(name: str) -> tuple[str, ModelInfo] | None:
    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, info = get_snapshot().find_provider_model(name, None, None, None)
    except LookupError:
        return None
    return (provider.id, info) if _exact(info.match, name) else None


def _exact(clause: Any, name: str) -> bool:
    """Whether `clause` matches all of `name`, not only a prefix another model may share."""
    for attribute in ("or_", "and_"):
        inner = getattr(clause, attribute, None)
        if inner is not None:
            return any(_exact(one, name) for one in inner if one.is_match(name))
    prefix = getattr(clause, "starts_with", None)
    if prefix is not None:
        return bool(_REST.fullmatch(name[len(prefix) :]))
    return bool(clause.is_match(name))


def _active(info: ModelInfo, moment: datetime | None) -> tuple[ModelPrice, date | None] | None:
    if not isinstance(info.prices, list):
        return info.prices, None
    if moment is None:
        first = info.prices[0].prices
        return (first, None) if all(one.prices == first for one in info.prices) else None
    for conditional in reversed(info.prices):
        constraint = conditional.constraint
        if constraint is None or constraint.active(moment):
            return conditional.prices, getattr(constraint, "start_date", None)
    return info.prices[0].prices, None


def _modified(info: ModelInfo, moment: datetime | None, modifiers: Modifiers) -> ModelPrice | None:
    known = [dict(variant.when) for variant in info.price_variants or ()]
    if moment is None or any({key: value} not in known for key, value in modifiers):
        return None
    plain = info.get_prices(moment)
    changed = info.get_prices(moment, dict(modifiers))
    return None if changed == plain else changed


def _starts(price: ModelPrice) -> list[int]:
    """Return the contexts above which a tier of any bucket begins."""
    tiers = (getattr(getattr(price, name, None), "tiers", ()) for name in _FIELDS.values())
    return sorted({tier.start for steps in tiers for tier in steps})


@cache
def _versioned() -> str:
    return source()


def _build(
    model: str, provider: str, price: ModelPrice, tier: int, begin: date | None, mods: Modifiers
) -> Rates:
    values = {name: _at(getattr(price, field, None), tier) for name, field in _FIELDS.items()}
    tags = [f"from {begin}"] if begin else []
    tags += [f"above {tier}"] if tier else []
    tags += [f"{name} {value}" for name, value in mods]
    return Rates(
        " ".join([model, *tags]),
        model,
        provider,
        **values,
        tier_above=tier,
        valid_from=begin,
        source=_versioned(),
    )


def _at(value: Any, tier: int) -> float | None:
    if value is None:
        return None
    chosen = getattr(value, "base", value)
    for step in getattr(value, "tiers", ()):
        if step.start <= tier:
            chosen = step.price
    return float(chosen)
