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
    moment = _moment(day)
    info = _model(model.lower())
    if info is None:
        return None
    chosen = _active(info[1], moment)
    if chosen is None:
        return None
    price, valid_from = chosen
    if modifiers:
        changed = _modified(info[1], moment, modifiers)
        if changed is None:
            return None
        price = changed
    tier = _tier(price, context_tokens)
    return _build(model, info[0], price, tier, valid_from, modifiers)


def context_window(model: str) -> int | None:
    """Return the most input tokens the table says `model` takes, None when it does not say."""
    info = _model(model.lower())
    return info[1].context_window if info else None


def source() -> str:
    """Return the name and version of the price table."""
    import genai_prices

    return f"genai-prices {genai_prices.__version__}"


def _moment(day: date | None) -> datetime | None:
    if day is None:
        return None
    if isinstance(day, datetime):
        return day if day.tzinfo else day.replace(tzinfo=UTC)
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


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


def _tier(price: ModelPrice, context: int) -> int:
    """Return the highest tier start below `context`; 0 is the base price."""
    tiers = (getattr(getattr(price, name, None), "tiers", ()) for name in _FIELDS.values())
    starts = [tier.start for steps in tiers for tier in steps if context > tier.start]
    return max(starts, default=0)


@cache
def _versioned() -> str:
    return source()


def _build(
    model: str, provider: str, price: ModelPrice, tier: int, begin: date | None, mods: Modifiers
) -> Rates:
    key = (model, begin, tier, mods)
    held = _BUILT.get(key)
    if held is None or held[0] is not price:
        values = {name: _at(getattr(price, field, None), tier) for name, field in _FIELDS.items()}
        tags = [f"from {begin}"] if begin else []
        tags += [f"above {tier}"] if tier else []
        tags += [f"{name} {value}" for name, value in mods]
        price_id = " ".join([model, *tags])
        made = Rates(
            price_id,
            model,
            provider,
            **values,
            tier_above=tier,
            valid_from=begin,
            source=_versioned(),
        )
        held = _BUILT[key] = (price, made)
    return held[1]


_BUILT: dict[tuple[str, date | None, int, Modifiers], tuple[Any, Rates]] = {}


def _at(value: Any, tier: int) -> float | None:
    if value is None:
        return None
    chosen = getattr(value, "base", value)
    for step in getattr(value, "tiers", ()):
        if step.start <= tier:
            chosen = step.price
    return float(chosen)
