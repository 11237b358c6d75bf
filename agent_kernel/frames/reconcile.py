"""Reconcile: one ledger counted by the rules of other counters, each difference a row.

May not read a file: every rule counts the same rows of `usages`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from agent_kernel.frames.ledger import BUCKETS, Call
from agent_kernel.frames.load import Load
from agent_kernel.frames.output import best_output
from agent_kernel.frames.pricing import PriceBook
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows

LINES, SCOPES = ("all", "first", "max"), ("session", "global")
WRITES, OUTPUTS = ("flat_5m", "split"), ("recorded", "estimated")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a counter counts; `equals` names counters known to count so."""

    name: str
    lines: str = "max"
    nested: bool = False
    scope: str = "global"
    write_price: str = "split"
    output: str = "recorded"
    equals: str | None = None

    def __post_init__(self) -> None:
        wrong = [
            value
            for value, allowed in (
                (self.lines, LINES),
                (self.scope, SCOPES),
                (self.write_price, WRITES),
                (self.output, OUTPUTS),
            )
            if value not in allowed
        ]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no switch of a rule; see frames.reconcile")


RULES = (
    Rule("every line of a response counts", lines="all", equals="sum of lines"),
    Rule(
        "one line a response, the first; all writes at the 5-minute price",
        lines="first",
        write_price="flat_5m",
        equals="ccusage 18",
    ),
    Rule(
        "1-hour writes at their price; copies in other sessions count again",
        lines="first",
        scope="session",
        equals="thk 0.0.6, claude-cache-audit",
    ),
    Rule(
        "the largest output of a response, not the first",
        scope="session",
        equals="agent-session-analytics (tokens)",
    ),
    Rule("copies in other sessions count once", equals="ccusage 20 session, aiburn"),
    Rule(
        "sub-agents inside progress records count; all writes at the 5-minute price",
        nested=True,
        write_price="flat_5m",
    ),
    Rule(
        "1-hour writes at their price: the recorded total", nested=True, equals="ccusage 20 daily"
    ),
    Rule(
        "output estimated where the log is not final",
        nested=True,
        output="estimated",
    ),
)


def build(load: Load) -> Columns:
    """Return one row a default rule, in order, each with its difference to the row before."""
    rows: list[Row] = []
    for step, rule in enumerate(RULES, 1):
        row = {"step": step, **count(load, rule)}
        before = rows[-1]["usd"] if rows else None
        row["delta_usd"] = None if before is None else row["usd"] - before
        rows.append(row)
    return of_rows("reconcile", rows)


def count(load: Load, rule: Rule) -> Row:
    """Return calls, the five buckets and dollars of the load counted by `rule`."""
    calls = [_call(rows, rule) for rows in _groups(load.priced.ledger.rows, rule)]
    book = load.priced.book.copy()
    book.price(calls)
    if rule.output == "estimated":
        _estimated(load, book, calls)
    usd = sum(_dollars(book, call, rule) for call in calls)
    buckets = {name: sum(call.tokens()[name] for call in calls) for name in BUCKETS}
    output = buckets.pop("output")
    return {
        "rule": rule.name,
        "lines": rule.lines,
        "nested": rule.nested,
        "scope": rule.scope,
        "write_price": rule.write_price,
        "output": rule.output,
        "calls": len(calls),
        **buckets,
        "output_tokens": output,
        "usd": usd,
        "equals": rule.equals,
    }


def _groups(rows: Iterable[Row], rule: Rule) -> list[list[Row]]:
    chosen = [row for row in rows if rule.nested or not row["nested"]]
    chosen = [row for row in chosen if "#it" not in row["key"] or rule.output == "estimated"]
    if rule.lines == "all":
        return [[row] for row in chosen]
    groups: dict[Any, list[Row]] = {}
    for row in chosen:
        key = (row["session"], row["key"]) if rule.scope == "session" else row["key"]
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _call(rows: list[Row], rule: Rule) -> Call:
    used = rows[:1] if rule.lines == "first" else rows
    times = [row["time"] for row in rows if row["time"] is not None]

    def most(name: str) -> int:
        return max(row[name] or 0 for row in used)

    return Call(
        rows[0]["key"],
        rows[0],
        input=most("input"),
        output=most("output"),
        cache_write_5m=most("write_5m"),
        cache_write_1h=most("write_1h"),
        cache_read=most("read"),
        searches=most("searches") or None,
        time_first=min(times, default=None),
    )


def _dollars(book: PriceBook, call: Call, rule: Rule) -> float:
    """Return the dollars of a call, with 1-hour writes at the 5-minute price when flat."""
    usd = call.usd_recorded or 0.0
    if rule.write_price == "flat_5m" and call.price_id is not None and call.cache_write_1h:
        rates = book.rates_of(call.price_id)
        dear, flat = rates.cache_write_1h, rates.cache_write_5m
        if dear is not None and flat is not None:
            usd -= call.cache_write_1h * (dear - flat) / 1e6
    return usd


def _estimated(load: Load, book: PriceBook, calls: list[Call]) -> None:
    known = {call.key: best_output(call) for call in load.priced.ledger.calls}
    for call in calls:
        best = known.get(call.key, call.output or 0)
        if call.price_id is not None and call.usd_recorded is not None:
            rate = book.rates_of(call.price_id).output or 0.0
            call.usd_recorded += (best - (call.output or 0)) * rate / 1e6
        call.output = best


def with_switches(name: str, **switches: Any) -> Rule:
    """Return the rule with the recorded total's switches but for the given ones."""
    return replace(RULES[6], name=name, equals=None, **switches)
