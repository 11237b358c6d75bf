"""Output: how far the recorded output tokens of a call can be trusted, and what they likely were.

May not change a recorded number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from agent_kernel.frames.ledger import Call

# Code points of visible output per token: measured 2.9 to 3.1 on calls recorded whole
# (analysis.md §1.3); low and high are the 10th and 90th percentile of such calls.
CHARS, CHARS_LOW, CHARS_HIGH = 3.0, 3.4, 2.6
_FIT_NEEDS = 50


def judge(calls: Sequence[Call]) -> None:
    """Set quality, output_est, output_low and output_high of every call.

    `final` means recorded >= 0.7 of the estimate or an estimate <= 20 tokens; `partial` >= 0.1;
    `placeholder` less; `missing` no field. Quality is judged once, with the default ratio; then the
    ratio is fitted a model on the load's own final calls.
    """
    fitting: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        call.quality = _quality(call)
        if call.quality == "final" and call.chars and (call.output or 0) > 20:
            fitting[call.row["model"] or ""].append(call.chars / (call.output or 1))
    fits = {model: _fit(sorted(ratios)) for model, ratios in fitting.items()}
    for call in calls:
        if call.chars is not None:
            middle, low, high = fits.get(call.row["model"] or "", (CHARS, CHARS_LOW, CHARS_HIGH))
            call.output_est = round(call.chars / middle)
            call.output_low, call.output_high = round(call.chars / low), round(call.chars / high)


def _quality(call: Call) -> str:
    if call.output is None:
        return "missing"
    if call.chars is None:
        return "final"
    estimate = call.chars / CHARS
    if estimate <= 20 or call.output >= 0.7 * estimate:
        return "final"
    return "partial" if call.output >= 0.1 * estimate else "placeholder"


def _fit(ratios: list[float]) -> tuple[float, float, float]:
    """Return chars per token (median, 90th, 10th percentile); the defaults below 50 calls."""
    if len(ratios) < _FIT_NEEDS:
        return CHARS, CHARS_LOW, CHARS_HIGH
    last = len(ratios) - 1
    return ratios[last // 2], ratios[round(last * 0.9)], ratios[round(last * 0.1)]


def bounds(call: Call) -> tuple[int, int]:
    """Return the least and most output tokens the call likely had; recorded ones when final."""
    known = call.output or 0
    if call.quality == "final":
        return known, known
    return max(known, call.output_low or 0), max(known, call.output_high or 0)


def best_output(call: Call) -> int:
    """Return the recorded output, or the larger estimate where the record is not final."""
    if call.quality == "final":
        return call.output or 0
    return max(call.output or 0, call.output_est or 0)
