"""Economy: what each recorded boundary cost, saved, and how long it took to pay.

May not take the summary call's price for known where the log holds none: both bounds are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.core.usage import estimate
from agent_kernel.lab.histories import Asked, Boundary, History
from agent_kernel.lab.trajectory import Rates


@dataclass(frozen=True, slots=True)
class Bill:
    """One boundary: tokens before and after, the write it caused, dollars of its call.

    `even_warm`, `even_cold` in requests; `requests` until the next boundary or the end; `saved`
    tokens against a context that had not been cut.
    """

    session: str
    pre: int
    post: int
    penalty_5m: int
    penalty_1h: int
    penalty_usd: float
    call_warm_usd: float
    call_cold_usd: float
    even_warm: float | None
    even_cold: float | None
    requests: int
    saved: int
    since_last: int


def bills(history: History, table: dict[str, Rates]) -> list[Bill]:
    """Return the bill of each boundary that has a request on both sides."""
    out = []
    for boundary in history.boundaries:
        before = [a for a in history.requests if a.epoch < boundary.epoch]
        after = [a for a in history.requests if a.epoch == boundary.epoch]
        if before and after:
            since = len([a for a in before if a.epoch == boundary.epoch - 1])
            out.append(_bill(history, boundary, before[-1], after, table, since))
    return out


def _bill(
    history: History, boundary: Boundary, before: Asked, after: Sequence[Asked],
    table: dict[str, Rates], since: int,
) -> Bill:  # fmt: skip
    first = after[0]
    rates = table.get(first.price_id) or table.get(before.price_id) or next(iter(table.values()))
    pre, post = before.context, first.context
    penalty = first.write_5m * rates.write_5m + first.write_1h * rates.write_1h
    output = estimate(len(boundary.summary)) * rates.output
    warm, cold = pre * rates.read + output, pre * rates.input + output
    gain = (pre - post) * rates.read
    dropped = pre - post
    return Bill(
        history.session, pre, post, first.write_5m, first.write_1h, penalty, warm, cold,
        (warm + penalty) / gain if gain > 0 else None,
        (cold + penalty) / gain if gain > 0 else None,
        len(after), dropped * len(after), since,
    )  # fmt: skip
