"""Row: one line of a speed table and how its figures are taken.

May not know what is measured: a measure is a function that returns seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

Measure = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """Ours beside plain: medians in seconds; `bar` is the largest ratio or difference allowed.

    `kind` says which: "ratio" is ours / plain, "extra" is ours - plain in seconds, "seconds" is
    ours alone; a `bar` of None is shown and never fails.
    """

    name: str
    ours: float
    plain: float | None
    kind: str = "ratio"
    bar: float | None = None

    @property
    def figure(self) -> float:
        """What the bar is held against: a ratio, or seconds."""
        if self.kind == "ratio" and self.plain:
            return self.ours / self.plain
        return self.ours - self.plain if self.kind == "extra" and self.plain else self.ours

    @property
    def passes(self) -> bool:
        """Whether the figure is within the bar."""
        return self.bar is None or self.figure <= self.bar

    def line(self) -> str:
        """The row as text: milliseconds, then the figure and its bar."""
        plain = f"{self.plain * 1000:10.1f}" if self.plain is not None else " " * 10
        figure = f"{self.figure:.2f}x" if self.kind == "ratio" else f"{self.figure * 1000:.1f} ms"
        bar = "" if self.bar is None else f"{self.bar:.2f}x"
        if self.bar is not None and self.kind != "ratio":
            bar = f"{self.bar * 1000:.0f} ms"
        verdict = "" if self.bar is None else ("ok" if self.passes else "OVER")
        return f"{self.name:44}{self.ours * 1000:10.1f}{plain}{figure:>12}{bar:>10} {verdict}"


HEAD = f"{'':44}{'ours ms':>10}{'plain ms':>10}{'figure':>12}{'bar':>10}"


def side_by_side(ours: Measure, plain: Measure, repeat: int) -> tuple[float, float]:
    """The medians of `repeat` measures of each, taken in turn so that a busy minute hits both."""
    pairs = [(ours(), plain()) for _ in range(repeat)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)
