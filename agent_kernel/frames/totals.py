"""Totals: sums of calls, tokens and dollars over a load, by model, day, session, agent or project.

May not use pandas, nor print a sum without saying what it lacks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import PurePath
from typing import Any

from agent_kernel.frames.ledger import BUCKETS, Call, Ledger, collect
from agent_kernel.frames.output import best_output, bounds, judge
from agent_kernel.frames.pricing import PriceBook
from agent_kernel.frames.rates import RateShelf
from agent_kernel.frames.store import Store

BY = ("model", "day", "session", "agent_kind", "project")


@dataclass(slots=True)
class Priced:
    """Calls with dollars, and every finding on the way to them."""

    ledger: Ledger
    book: PriceBook
    issues: list[dict[str, Any]]


def priced(
    store: Store, prices: Sequence[Mapping[str, Any]] = (), shelf: RateShelf | None = None
) -> Priced:
    """Return the calls of a store, judged and priced once."""
    ledger = collect(store.part("usages"))
    judge(ledger.calls)
    book = PriceBook(prices, shelf)
    issues = [*ledger.issues, *book.price(ledger.calls)]
    for call in ledger.calls:
        call.usd_best = dollars_with(book, call, best_output(call))
    return Priced(ledger, book, issues)


def dollars_with(book: PriceBook, call: Call, output: int | None) -> float | None:
    """Return the dollars of `call` had it written `output` tokens; None without a rate."""
    if call.usd_recorded is None or call.price_id is None or output is None:
        return call.usd_recorded
    rate = book.rates_of(call.price_id).output
    return call.usd_recorded + ((output - (call.output or 0)) * (rate or 0.0)) / 1e6


def totals(
    store: Store,
    found: Priced,
    *,
    by: str = "model",
    rule: str = "recorded",
    since: datetime | None = None,
    until: datetime | None = None,
    zone: tzinfo = UTC,
) -> dict[str, Any]:
    """Return the totals object of `agent-kernel totals --json` (schema 1).

    `by` is one of BY, `rule` recorded or best. Calls without a time are left out when `since` or
    `until` is given.
    """
    calls = [call for call in found.ledger.calls if _inside(call, since, until)]
    keys = _keys(store, by, zone)
    groups: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        groups[keys(call)].append(call)
    rows = [{**_named(by, key), **_sum(group, rule)} for key, group in groups.items()]
    rows.sort(key=lambda row: (-(row["usd"] or 0.0), -row["calls"], str(row)))
    issues = Counter(row["code"] for row in [*store.noticed(), *found.issues])
    return {
        "schema": 1,
        "rule": rule,
        "by": by,
        "models" if by == "model" else "rows": rows,
        "total": _sum(calls, rule),
        "output_note": _note(found.book, calls),
        "unpriced": [
            {"model": model, "tokens": tokens} for model, tokens in found.book.unpriced.items()
        ],
        "issues": dict(sorted(issues.items())),
        "files": len(store.files),
    }


def _inside(call: Call, since: datetime | None, until: datetime | None) -> bool:
    if since is None and until is None:
        return True
    if call.time_first is None:
        return False
    when = datetime.fromtimestamp(call.time_first / 1000, UTC)
    return (since is None or when >= since) and (until is None or when < until)


def _keys(store: Store, by: str, zone: tzinfo) -> Any:
    def day(call: Call) -> str:
        if call.time_first is None:
            return ""
        return datetime.fromtimestamp(call.time_first / 1000, zone).date().isoformat()

    def project(call: Call) -> str:
        folder = PurePath(store.files[call.row["file"]].path).parent
        while folder.name == "subagents" or folder.parent.name == "subagents":
            folder = folder.parent.parent
        return folder.name

    return {
        "model": lambda call: call.row["model"] or "",
        "day": day,
        "session": lambda call: call.row["session"] or "",
        "agent_kind": lambda call: call.row["agent_kind"] or "main",
        "project": project,
    }[by]


def _named(by: str, key: str) -> dict[str, str]:
    return {by: key}


def _sum(calls: Iterable[Call], rule: str) -> dict[str, Any]:
    """Return calls, the five buckets and dollars; `usd` sums what has a price."""
    calls = list(calls)
    best = rule == "best"
    buckets = dict.fromkeys(BUCKETS, 0)
    for call in calls:
        for name, tokens in call.tokens(best_output(call) if best else None).items():
            buckets[name] += tokens
    dollars = [call.usd_best if best else call.usd_recorded for call in calls]
    known = [one for one in dollars if one is not None]
    ids = {call.price_id for call in calls if call.price_id}
    return {
        "calls": len(calls),
        **buckets,
        "usd": sum(known) if known or not calls else None,
        "price_id": ids.pop() if len(ids) == 1 else None,
    }


def _note(book: PriceBook, calls: Sequence[Call]) -> dict[str, Any]:
    """Return what is not final about the output tokens, in dollars with low and high."""
    loose = [call for call in calls if call.quality != "final"]
    sums = {"usd_best": 0.0, "usd_low": 0.0, "usd_high": 0.0}
    for call in calls:
        low, high = bounds(call)
        sums["usd_best"] += call.usd_best or 0.0
        sums["usd_low"] += dollars_with(book, call, low) or 0.0
        sums["usd_high"] += dollars_with(book, call, high) or 0.0
    return {"not_final_calls": len(loose), **sums}


def shown(text: str) -> str:
    """Return `text` for a terminal: what one cannot see is spelled."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def notes(result: dict[str, Any]) -> list[str]:
    """Return the lines that say what the sum lacks."""
    lines = []
    note, total = result["output_note"], result["total"]
    if note["not_final_calls"] > 0.05 * max(1, total["calls"]):
        lines.append(
            f"output is under-recorded in {note['not_final_calls']:,} calls: "
            f"${total['usd'] or 0:,.2f} recorded, about ${note['usd_best']:,.2f} "
            f"({note['usd_low']:,.2f}-{note['usd_high']:,.2f})"
        )
    lines += [
        f"${total['usd'] or 0:,.2f} + {one['tokens']:,} tokens without a price"
        f" ({shown(one['model']) or 'no model'})"
        for one in result["unpriced"]
    ]
    if result["issues"]:
        found = ", ".join(f"{code} {count}" for code, count in result["issues"].items())
        lines.append(f"issues: {found}")
    return [*lines, f"files: {result['files']}"]
