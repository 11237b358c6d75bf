"""Text: the report as tables a person reads in a terminal.

May not leave out an interval or an n that the report holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Sequence[str]]


def text(report: Mapping[str, Any]) -> str:
    """Return the report as plain text: calibration, forgetting, boundaries, policies, bound."""
    parts = [_inputs(report), _calibration(report["calibration"]), _recall(report["metrics"])]
    parts += [_boundaries(report["metrics"]), _policies(report), _bound(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _inputs(report: Mapping[str, Any]) -> str:
    given = report["inputs"]
    return (
        f"{given['measured']} of {given['sessions']} sessions, {given['requests']:,} requests, "
        f"{given['boundaries']} boundaries in {given['sessions_with_boundary']} sessions, "
        f"{given['damaged_lines']} damaged lines"
    )


def _calibration(found: Mapping[str, Any]) -> str:
    if not found["sessions"]:
        return "Simulator: nothing priced to compare with"
    note = "" if found["calibrated"] else "; NOT CALIBRATED: take no policy's cost for true"
    share = found["predicted_usd"] / found["recorded_usd"] - 1
    return (
        f"Simulator: ${found['predicted_usd']:,.2f} predicted, ${found['recorded_usd']:,.2f} "
        f"recorded ({share:+.1%}); error by session: median {found['error_median']:.1%}, "
        f"p90 {found['error_p90']:.1%}; {sum(found['unexplained_writes'].values())} unexplained "
        f"writes over 20k{note}"
    )


def _recall(metrics: Mapping[str, Any]) -> str:
    rows = list(metrics["recall"])
    if "learnt" in metrics:
        rows.append({"artefact": "ledger learnt, held out", **metrics["learnt"]["held_out"]})
    if not rows or not rows[0]["recall"]["n"]:
        return "Forgetting: no boundary hid a fact that was needed again"
    names = ("recall", "recall path", "recall identifier", "recall hash", "recall rare",
             "constraints", "precision")  # fmt: skip
    head = ["kept of what was needed", "tokens", *(n.removeprefix("recall ") for n in names)]
    body = [
        [str(row["artefact"]), f"{row['tokens']:,.0f}", *(rated(row[name]) for name in names)]
        for row in rows
    ]
    return table([head, *body])


def _boundaries(metrics: Mapping[str, Any]) -> str:
    paid, seen = metrics["economy"], metrics["behaviour"]
    if not paid["boundaries"]:
        return ""
    middle = paid["median"]
    warm, cold = (rated(paid[f"ended_before_even_{how}"]) for how in ("warm", "cold"))
    line = (
        f"Boundaries (medians of {paid['boundaries']}): {middle['pre']:,.0f} to "
        f"{middle['post']:,.0f} tokens; pays after {_number(middle['even_warm'])} requests if the "
        f"call was warm, {_number(middle['even_cold'])} if cold; ended before: {warm}, {cold}"
    )
    head = ["a window", "n", "reads again", "after an edit", "tokens of it", "errors again"]
    fields = ("rereads", "reread_after_edit", "regret_tokens", "repeated_errors")
    body = [
        [name, str(seen[name]["windows"]), *(rated(seen[name][f], digits=2) for f in fields)]
        for name in ("after", "control")
    ]
    return line + "\n" + table([head, *body])


def _policies(report: Mapping[str, Any]) -> str:
    head = ["policy", "of none", "edits", "free", "calls", "mean", "peak"]
    body = [
        [str(r["policy"]), rated(r["share"]), f"{r['edits']:,}", f"{r['free_edits']:.0%}",
         f"{r['model_calls']:,}", f"{r['mean_context']:,}", f"{r['peak_context']:,}"]
        for r in report["policies"]
    ]  # fmt: skip
    return "\n".join([table([head, *body]), _tuned(report["tuned"]), *_swaps(report)])


def _tuned(best: Mapping[str, Any]) -> str:
    return (
        f"Chosen among {best['policies']} online rules without a model: {best['chosen']}; "
        f"held out {rated(best['held_out_share'])} of none, "
        f"{best['held_out_free_edits'] or 0:.0%} of edits free, peak {best['held_out_peak']:,}"
    )


def _swaps(report: Mapping[str, Any]) -> list[str]:
    """Return where one of the five cheapest policies falls behind another."""
    cheapest = sorted(report["policies"], key=lambda r: r["usd"])[:5]
    names = {row["policy"] for row in cheapest}
    found = [row for row in report["swaps"] if row["cheaper"] in names][:10]
    if not found:
        return []
    lines = [f"  {r['requests']:>6.2f}  {r['cheaper']} -> {r['then']}" for r in found]
    return ["Ranks of the cheapest swap when each edit causes so many more requests:", *lines]


def _bound(report: Mapping[str, Any]) -> str:
    head = ["clairvoyant bound of clearing", "peak", "of none", "edits", "sessions over"]
    body = [
        [f"all but the newest {r['keep']}", f"{r['peak']:,}" if r["peak"] else "any",
         f"{r['share']:.1%}", f"{r['edits']:,}", str(r["sessions_over_peak"])]
        for r in report["bound"]
    ]  # fmt: skip
    return table([head, *body]) + "\nIt bounds this family of rules only."


def rated(rate: Mapping[str, Any], digits: int = 3) -> str:
    """Return a rate as `value [low, high] n`, a dash when n is 0."""
    if rate["value"] is None:
        return "-"
    low, high = rate["low"], rate["high"]
    span = "" if low is None else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{rate['value']:.{digits}f}{span} ({rate['n']:,.0f})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def table(rows: Rows) -> str:
    """Return rows as columns of equal width, the first one left."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
