"""Units: numbers as people read them in a view; an unknown one is said, never 0 or blank.

May not compute anything but the words of a number.
"""

from __future__ import annotations

from datetime import UTC, datetime


def seconds(value: float) -> str:
    """Return a duration: `8.4 s`, `2 min 14 s`, `1 h 04 min`."""
    value = max(0.0, value)
    if value < 99.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def short(tokens: int) -> str:
    """Return tokens for bars and footers: `96`, `0.4k`, `18.2k`, `1.2M`."""
    if tokens < 100:
        return str(tokens)
    if tokens < 999_950:
        return f"{tokens / 1000:.1f}k"
    return f"{tokens / 1_000_000:.1f}M"


def count(number: int, thing: str) -> str:
    """Return `1 step`, `4 steps`, `2,140 tokens`: `thing` is the singular."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def dollars(value: float) -> str:
    """Return a price: `$0.043`, `$12.40`; what is not zero never reads as zero."""
    if 0 < value < 0.0005:
        return "under $0.001"
    return f"${value:.2f}" if value >= 10 else f"${value:.3f}"


def percent(part: float, whole: float) -> str:
    """Return `91 %`; `0 %` when `whole` is 0."""
    return f"{round(100 * part / whole) if whole else 0} %"


def moment(time: float) -> str:
    """Return unix seconds as `14 Nov 2026, 10:42 UTC`, the same on every machine."""
    at = datetime.fromtimestamp(time, UTC)
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    return f"{at.day} {months[at.month - 1]} {at.year}, {at:%H:%M} UTC"


def signed(number: int) -> str:
    """Return a change: `+4,300`, `−4,310`, `0`."""
    return f"{'+' if number > 0 else '−' if number < 0 else ''}{abs(number):,}"
