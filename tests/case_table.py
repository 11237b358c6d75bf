"""Case table: runs every test of the case tables and prints, for each table, how its rows fared.

`python -m tests.case_table [-v]`: one line a table (rows, as expected, not, without a test), then
each row that is not as expected. Exit status 1 when there is one. May not judge: the tests do.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.guard import test_cases_permissions as permissions
from tests.guard import test_cases_process as processes
from tests.guard import test_cases_render as rendering
from tests.guard.places import CASES, rows

SUITES = (
    "tests/guard/test_cases_permissions.py",
    "tests/guard/test_cases_process.py",
    "tests/guard/test_cases_render.py",
    "tests/guard/test_cases_web.py",
    "tests/core/test_cases_durability.py",
    "tests/core/test_cases_model.py",
    "tests/providers/test_cases_model.py",
)
ELSEWHERE: Mapping[str, str] = permissions.ELSEWHERE | processes.ELSEWHERE | rendering.ELSEWHERE
_ROW = re.compile(r"\[(?:(\w+)-)?(\d{3})\]$")


class Outcomes:
    """A pytest plugin that keeps, for each row, what its tests said."""

    def __init__(self) -> None:
        self.said: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take one phase of one test: a failure in any phase counts, success in the call."""
        if report.when != "call" and report.outcome == "passed":
            return
        for row in _rows_of(report.nodeid):
            self.said[row].add(str(report.outcome))


def _rows_of(nodeid: str) -> Sequence[str]:
    match = _ROW.search(nodeid)
    if match:
        return (f"{match[1] or 'model_faults'}-{match[2]}",)
    plain = nodeid.partition("[")[0]
    return [row for row, test in ELSEWHERE.items() if plain.endswith(test)]


def _verdict(said: set[str]) -> str:
    if "failed" in said:
        return "not"
    if not said or said == {"skipped"}:
        return "untested"
    return "as expected"


def main(argv: Sequence[str]) -> int:
    """Run the suites and print the table; `argv` goes on to pytest."""
    outcomes = Outcomes()
    found = [
        *SUITES,
        *sorted(set(ELSEWHERE.values()) - {t for t in ELSEWHERE.values() if t.startswith(SUITES)}),
    ]
    pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", *found, *argv], plugins=[outcomes])
    print(f"\n{'table':28}{'rows':>6}{'as expected':>13}{'not':>6}{'untested':>10}")
    wrong: list[str] = []
    for table in sorted(path.stem for path in CASES.glob("*.csv")):
        ids = [row["id"] for row in rows(table)]
        verdicts = {row: _verdict(outcomes.said[row]) for row in ids}
        counts = [list(verdicts.values()).count(one) for one in ("as expected", "not", "untested")]
        print(f"{table:28}{len(ids):6}{counts[0]:13}{counts[1]:6}{counts[2]:10}")
        wrong += [f"{row}: {said}" for row, said in verdicts.items() if said != "as expected"]
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
