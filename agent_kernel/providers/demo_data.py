"""Demo data: the Python the demo writes about tables, and what its printed lines say.

May not run anything: it makes code, and reads text that came back.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

_SEPARATORS = {".tsv": "\t"}
# Columns whose sums say nothing, and those a person most likely means by "the total".
_NO_MEASURE = re.compile(
    r"(?:^|_)(?:id|year|month|day|zip|code|index|no|nr|编号|年|月|日)$", re.IGNORECASE
)
_LIKELY = (
    "amount",
    "sales",
    "revenue",
    "total",
    "value",
    "price",
    "quantity",
    "units",
    "金额",
    "销售额",
)
_PAIR = re.compile(
    r"^\s*(.*?\S)\s*(?::|：|\t|\s{2,})\s*(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Table:
    """The head of a table, as text: its columns and the rows that were seen."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def numeric(self) -> list[str]:
        """Return the columns whose seen values are all numbers."""
        return [
            name
            for at, name in enumerate(self.columns)
            if self.rows and all(_is_number(row[at]) for row in self.rows if at < len(row))
        ]


def table_of(text: str, path: str) -> Table | None:
    """Return the table in a file's text, None when it has no columns."""
    if not path.lower().endswith((".csv", ".tsv")):
        return None
    delimiter = _SEPARATORS.get(path[-4:].lower(), "\t" if "\t" in text.split("\n", 1)[0] else ",")
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    if not rows or len(rows[0]) < 2:
        return None
    width = len(rows[0])
    seen = tuple(tuple(row) for row in rows[1:] if len(row) == width)
    return Table(tuple(name.strip() for name in rows[0]), seen)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip() == ""
    return True


def column_of(word: str, columns: tuple[str, ...]) -> str | None:
    """Return the column a word means: equal, then without case, then by singular and plural."""
    if word in columns:
        return word
    wanted = _bare(word)
    return next((name for name in columns if wanted and _bare(name) == wanted), None)


def _bare(word: str) -> str:
    low = re.sub(r"[\s_-]", "", word.lower())
    if low.endswith("ies"):
        return low[:-3] + "y"
    return low[:-1] if low.endswith("s") and len(low) > 3 else low


def measure_of(words: str, by: str, table: Table) -> str | None:
    """Return the column to add up: one that is named, else a likely one, else the last number."""
    for word in re.findall(r"\w+", words):
        found = column_of(word, table.columns)
        if found and found != by:
            return found
    numbers = [n for n in table.numeric() if n != by and not _NO_MEASURE.search(n)]
    for likely in _LIKELY:
        found = next((n for n in numbers if likely in n.lower()), None)
        if found:
            return found
    return numbers[-1] if numbers else None


def load(path: str, name: str) -> list[str]:
    """Return the lines that read a table into the variable `name`."""
    more = ', sep="\\t"' if path.lower().endswith(".tsv") else ""
    return ["import pandas as pd", "", f"{name} = pd.read_csv({path!r}{more})"]


def name_of(path: str) -> str:
    """Return a variable name for a file: its stem, where that is a name."""
    stem = re.sub(r"\W", "_", path.rsplit("/", 1)[-1].rsplit(".", 1)[0]).lower()
    return stem if stem.isidentifier() else "data"


def group_code(lines: list[str], frame: str, op: str, measure: str | None, by: str) -> str:
    """Return code that prints one line a group: `name: number`."""
    picked = f"{frame}.groupby({by!r})"
    if measure is None or op == "count":
        value = f"{picked}.size()"
    else:
        value = f"{picked}[{measure!r}].{op}()"
    return "\n".join(
        [
            *lines,
            f"totals = {value}",
            'print("\\n".join(f"{name}: {number:.12g}" for name, number in totals.items()))',
        ]
    )


def pairs_of(text: str) -> list[tuple[str, float]]:
    """Return the `name: number` lines of a printed result."""
    out = []
    for line in text.splitlines():
        match = _PAIR.match(line)
        if match and not match[1].startswith(("Name", "dtype")):
            out.append((match[1], float(match[2].replace(",", ""))))
    return out


def number(value: float) -> str:
    """Return a number as people write it: no trailing zeros, at most two decimals."""
    text = f"{value:,.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plot_code(lines: list[str], series: str, title: str) -> str:
    """Return code that draws bars of `series`, or prints them where matplotlib is missing."""
    body = [
        *lines,
        f"bars = {series}",
        "try:",
        "    import matplotlib.pyplot as plt",
        "except ImportError:",
        "    plt = None",
        "if plt is None:",
        "    top = max(bars.abs().max(), 1e-12)",
        "    for name, number in bars.items():",
        '        print(f"{name!s:>16} {number:>12.6g} " + "#" * int(40 * abs(number) / top))',
        "else:",
        "    figure, axes = plt.subplots()",
        "    bars.plot.bar(ax=axes)",
        f"    axes.set_title({title!r})",
        "    figure.tight_layout()",
        "    plt.show()",
        '    print(f"{len(bars)} bars, from {bars.min():.6g} to {bars.max():.6g}")',
    ]
    return "\n".join(body)


_CSV = """import csv
from pathlib import Path

lines = Path({path!r}).read_text(encoding="utf-8").splitlines()
"""
_TEXT = """from pathlib import Path

text = Path({path!r}).read_text(encoding="utf-8")
"""
COUNT_FILE = {
    "rows": _CSV + "print(len(list(csv.DictReader(lines))))",
    "records": _CSV + "print(len(list(csv.DictReader(lines))))",
    "columns": _CSV + "print(len(next(csv.reader(lines))))",
    "lines": _TEXT + "print(len(text.splitlines()))",
    "words": _TEXT + "print(len(text.split()))",
    "characters": _TEXT + "print(len(text))",
}
COUNT_NAME = {
    "columns": "print(len({name}.columns))",
    "words": "print(len(str({name}).split()))",
    "characters": "print(len(str({name})))",
}


def count_code(unit: str, path: str, name: str) -> str | None:
    """Return code that prints how many, None when neither a file nor a variable is named."""
    if path:
        return COUNT_FILE.get(unit, COUNT_FILE["lines"]).format(path=path)
    return COUNT_NAME.get(unit, "print(len({name}))").format(name=name) if name else None


SCHEMA = """print(type({name}).__name__)
for what in ("shape", "dtypes"):
    if hasattr({name}, what):
        print(what + ":", getattr({name}, what), sep="\\n")"""
SUMMARY = """if hasattr({name}, "describe"):
    print({name}.describe(include="all").to_string())
elif hasattr({name}, "__len__"):
    print(len({name}), "items; the first:", list({name})[:5])
else:
    print(repr({name})[:500])"""
TRACEBACK = """import sys
import traceback

error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
print("".join(traceback.format_exception(error)) if error else "no error in this kernel")"""
