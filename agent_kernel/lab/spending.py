"""Spending: how well the simulator predicts, what each policy would cost, and how sure that is.

May not print a policy's cost without saying how far the simulator was off.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from agent_kernel.lab.bootstrap import pooled, quantile
from agent_kernel.lab.bound import bound
from agent_kernel.lab.histories import History
from agent_kernel.lab.learn import FOLDS, folds
from agent_kernel.lab.policies import ALL, PEAK, grid
from agent_kernel.lab.simulate import Policy, Total, calibrated, simulate, total
from agent_kernel.lab.trajectory import Trajectory

BIG = 20_000  # tokens of a write worth a cause
MOST_ERROR = 0.15  # median error above which figures are marked
FREE = 0.8  # share of edits that may not rewrite a warm cache
FEW = 20.0  # extra requests an edit, up to which swaps of rank are told


def calibration(
    histories: Sequence[History], made: Sequence[Trajectory], resamples: int
) -> dict[str, Any]:
    """Return recorded against predicted dollars, by session, and writes nothing explains."""
    predicted = [calibrated(one) for one in made]
    known = [(m, p) for m, p in zip(made, predicted, strict=True) if m.recorded]
    errors = [(p - m.recorded) / m.recorded for m, p in known]
    middle = quantile([abs(e) for e in errors], 0.5)
    ratio = pooled(((m.session, p, m.recorded) for m, p in known), resamples)
    causes, tokens = _unexplained(histories, made)
    return {
        "sessions": len(known),
        "recorded_usd": round(sum(m.recorded for m, _ in known), 2),
        "predicted_usd": round(sum(p for _, p in known), 2),
        "predicted_share": ratio.wire(),
        "error_median": _round(middle),
        "error_p90": _round(quantile([abs(e) for e in errors], 0.9)),
        "error_quantiles": [_round(quantile(errors, q / 10)) for q in range(1, 10)],
        "calibrated": middle is not None and middle <= MOST_ERROR,
        "unexplained_writes": dict(sorted(causes.items())),
        "unexplained_tokens": tokens,
    }


def _unexplained(
    histories: Sequence[History], made: Sequence[Trajectory]
) -> tuple[Counter[str], int]:
    """Return, by what the log says of the cache, writes over 20k more than the simulator's."""
    by_name = {h.session: h for h in histories}
    causes: Counter[str] = Counter()
    tokens = 0
    for one in made:
        before = 0
        for step, asked in zip(one.steps, by_name[one.session].requests, strict=True):
            whole = before if not step.boundary else one.prefix
            read = 0 if step.cold else min(whole, step.context)
            more = step.written - (step.context - read)
            before = step.context
            if more > BIG:
                causes[asked.cache_event or "unknown"] += 1
                tokens += more
    return causes, tokens


def costs(made: Sequence[Trajectory], policies: Sequence[Policy] = ALL) -> list[Total]:
    """Return each policy over all sessions, `none` first."""
    none = [simulate(one, Policy("none")) for one in made]
    whole = sum(cost.usd for cost in none)
    return [total(p, [simulate(one, p) for one in made], whole) for p in policies]


def rows(
    totals: Sequence[Total], made: Sequence[Trajectory], resamples: int
) -> list[dict[str, Any]]:
    """Return one row a policy: cost as a share of no compaction with its interval, edits, peaks."""
    none = next(t for t in totals if t.policy.name == "none")
    return [_row(one, none, made, resamples) for one in totals]


def _row(one: Total, none: Total, made: Sequence[Trajectory], resamples: int) -> dict[str, Any]:
    pairs = zip(made, one.by_session, none.by_session, strict=True)
    share = pooled(((m.session, usd, base) for m, usd, base in pairs), resamples)
    return {
        "policy": one.policy.name,
        "usd": round(one.usd, 2),
        "share": share.wire(),
        "edits": one.edits,
        "model_calls": one.calls,
        "mean_context": round(one.mean_context),
        "peak_context": one.peak_context,
        "warm_rewrite_tokens": one.warm_rewrite_tokens,
        "free_edits": _round(one.free_edits),
        "extra_usd": round(one.extra, 4),
    }


def swaps(totals: Sequence[Total]) -> list[dict[str, Any]]:
    """Return where two policies swap rank when each edit causes `requests` more requests.

    An extra request costs a read of the context as it stands after the edit; all else is fixed.
    """
    out = []
    ordered = sorted(totals, key=lambda t: t.usd)
    for at, cheap in enumerate(ordered):
        for dear in ordered[at + 1 :]:
            slope = cheap.extra - dear.extra
            if slope <= 0:
                continue
            needed = (dear.usd - cheap.usd) / slope
            if needed <= FEW:
                out.append(
                    {"cheaper": cheap.policy.name, "then": dear.policy.name,
                     "requests": round(needed, 2)}
                )  # fmt: skip
    return sorted(out, key=lambda row: (row["requests"], row["cheaper"], row["then"]))


def bounds(made: Sequence[Trajectory], none: float) -> list[dict[str, Any]]:
    """Return the clairvoyant minimum of clearing all but the newest k, with and without a cap."""
    out = []
    for keep in (3, 5, 10):
        for cap in (None, PEAK):
            found = [bound(one, keep, cap) for one in made]
            usd = sum(one.usd for one in found)
            out.append(
                {"keep": keep, "peak": cap, "usd": round(usd, 2), "share": _round(usd / none),
                 "edits": sum(len(one.edits) for one in found),
                 "sessions_over_peak": sum(not one.capped for one in found)}
            )  # fmt: skip
    return out


def tuned(made: Sequence[Trajectory], resamples: int) -> dict[str, Any]:
    """Return what the cheapest online rule of four fifths of the sessions costs on the last fifth.

    Allowed: no model call, peak within the cap, four edits in five without a warm rewrite.
    """
    policies = grid()
    by_policy = [[simulate(one, p) for one in made] for p in policies]
    none = [simulate(one, Policy("none")).usd for one in made]
    fold = folds([one.session.split(".copy")[0] for one in made])
    of = [fold[one.session.split(".copy")[0]] for one in made]
    held: dict[int, int] = {}
    names = []
    for number in range(FOLDS):
        inside = [at for at in range(len(made)) if of[at] != number]
        best = _cheapest(by_policy, inside)
        names.append(policies[best].name)
        held |= {at: best for at in range(len(made)) if of[at] == number}
    picked = [by_policy[held[at]][at] for at in range(len(made))]
    share = pooled(
        ((c.session, c.usd, base) for c, base in zip(picked, none, strict=True)), resamples
    )
    edits = [edit for cost in picked for edit in cost.edits]
    free = sum(edit.rewrite == 0 for edit in edits)
    return {
        "policies": len(policies),
        "chosen": policies[_cheapest(by_policy, range(len(made)))].name,
        "chosen_by_fold": names,
        "held_out_share": share.wire(),
        "held_out_free_edits": _round(free / len(edits)) if edits else None,
        "held_out_peak": max((size for c in picked for size in c.contexts), default=0),
        "edits": len(edits),
    }


def _cheapest(by_policy: Sequence[Sequence[Any]], inside: Sequence[int]) -> int:
    best, least = 0, math.inf
    for at, found in enumerate(by_policy):
        chosen = [found[i] for i in inside]
        edits = [edit for cost in chosen for edit in cost.edits]
        free = sum(edit.rewrite == 0 for edit in edits)
        peak = max((size for cost in chosen for size in cost.contexts), default=0)
        usd = sum(cost.usd for cost in chosen)
        if usd < least and peak <= PEAK and free >= FREE * len(edits):
            best, least = at, usd
    return best


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
