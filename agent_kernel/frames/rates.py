"""Rates: a model's list prices kept on disk, so that pricing need not load the table package.

May not keep a price the package did not state, nor use one kept from another version of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import agent_kernel.core.prices as prices
from agent_kernel.core.prices import Modifiers, Rates

FORMAT = 1


class RateShelf:
    """Rates by model: from a file of this package version, else from the package, then kept.

    A model that the package prices by the hour, or with modifiers, is always asked of the package.
    """

    def __init__(self, place: Path | None = None) -> None:
        self._path = place / "rates.json" if place else None
        self._stamp = _stamp()
        self._models: dict[str, list[Any] | None] = self._read()
        self._made: dict[str, _Dated | None] = {}
        self._new = False

    def rates(
        self, model: str, when: datetime | None, context: int, modifiers: Modifiers = ()
    ) -> Rates | None:
        """Return what `core.prices.rates` returns, without the package where that is possible."""
        if self._path is None or when is None or modifiers:
            return prices.rates(model, when, context, modifiers)
        if model not in self._made:
            self._made[model] = self._dated(model)
        dated = self._made[model]
        return prices.rates(model, when, context) if dated is None else dated.at(when, context)

    def _dated(self, model: str) -> _Dated | None:
        if model not in self._models:
            self._models[model] = _periods(model)
            self._new = True
        held = self._models[model]
        return None if held is None else _Dated(held)

    def keep(self) -> None:
        """Write what is new; a folder that cannot be written costs only time."""
        if self._path is None or not self._new:
            return
        self._new = False
        said = {"format": FORMAT, "stamp": self._stamp, "models": self._models}
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_text(json.dumps(said), encoding="utf-8")
            temporary.replace(self._path)

    def _read(self) -> dict[str, list[Any] | None]:
        if self._path is None:
            return {}
        try:
            said = json.loads(self._path.read_bytes())
            if said["format"] == FORMAT and said["stamp"] == self._stamp:
                for held in filter(None, said["models"].values()):
                    _Dated(held)
                return dict(said["models"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # absent, cut or of another time: asked of the package again
        return {}


class _Dated:
    """The periods of one model, each with its first day and its tiers."""

    def __init__(self, held: Iterable[Any]) -> None:
        self._periods = [
            (
                None if begin is None else date.fromisoformat(begin),
                sorted(((tier["tier_above"], _rates(tier)) for tier in tiers), key=_above),
            )
            for begin, tiers in held
        ]

    def at(self, when: datetime, context: int) -> Rates | None:
        if not self._periods:
            return None
        day = when.astimezone(UTC).date()
        tiers = self._periods[0][1]
        for begin, later in reversed(self._periods):
            if begin is None or day >= begin:
                tiers = later
                break
        found: Rates = next(tier for above, tier in reversed(tiers) if context > above or not above)
        return found


def _above(tier: tuple[int, Rates]) -> int:
    return tier[0]


def _rates(held: dict[str, Any]) -> Rates:
    begin = held["valid_from"]
    return Rates(**{**held, "valid_from": None if begin is None else date.fromisoformat(begin)})


def _periods(model: str) -> list[Any] | None:
    """Return [first day, tiers] by period; None when the package prices the model by the hour."""
    spans = prices.periods(model)
    if spans is None:
        return None
    return [
        [None if begin is None else begin.isoformat(), [_plain(tier) for tier in tiers]]
        for begin, tiers in spans
    ]


def _plain(rates: Rates) -> dict[str, Any]:
    said = asdict(rates)
    said["valid_from"] = None if rates.valid_from is None else rates.valid_from.isoformat()
    return said


def _stamp() -> str:
    """Return what changes when another version of the table package is installed."""
    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return ""
    stat = Path(spec.origin).with_name("data.py").stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"
