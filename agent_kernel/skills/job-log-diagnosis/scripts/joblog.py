"""Joblog: a job's log as JSON: phases, first error, root cause line, last stack, counts.

It reads one file once, keeps a bounded part of it, and may not change anything.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

ERROR = re.compile(
    r"\b(?:ERROR|FATAL|SEVERE|CRITICAL)\b|Exception\b|\bError:|npm (?:ERR!|error)|^FAILED"
    r"|BUILD FAILURE|Traceback \(most recent call last\)|expired before|return code [1-9]"
    r"|exit(?:ed)?(?: with)?(?: code| status)? [1-9]|Killed process|FAILED\b|Permission denied",
    re.MULTILINE,
)
# What looks like an error and is none: counters, names of classes, retries that worked.
HARMLESS = re.compile(
    r"\b0 (?:errors?|failures?|failed)\b|errors?[=:] ?0\b|failed[=:] ?0\b|ErrorHandler"
    r"|error_reporting|no errors?|without errors?|error[- ]?rate|ExceptionTranslator|onError"
    r"|\bWARN(?:ING)?\b.*deprecated",
    re.IGNORECASE,
)
ECHO = re.compile(
    r"Shutting down|Job (?:aborted|failed|\d+ failed)|exit(?:ed)? (?:with )?(?:code|status)"
    r"|return code|BUILD FAILURE|A complete log of this run|Lost task|Stage \d+ .*failed"
    r"|could not be executed|For more information|Re-run Maven|Aborting TaskSet"
    r"|Driver stacktrace|cancell?ing",
    re.IGNORECASE,
)
CAUSE = re.compile(r"^\s*Caused by:\s*(.+)")
STACK = re.compile(r"^\s+at [\w.$<>]+\(|^\s+\.\.\. \d+ more|^\s*File \".*\", line \d+")
TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)|\b(\d\d)/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)"
)
KINDS = {
    "flink": re.compile(
        r"org\.apache\.flink|JobManager|TaskManager|CheckpointCoordinator|checkpoint", re.IGNORECASE
    ),
    "spark": re.compile(r"org\.apache\.spark|SparkContext|TaskSetManager|DAGScheduler|Executor"),
    "hive": re.compile(r"org\.apache\.hadoop\.hive|SemanticException|MapRedTask|hive>|HiveServer2"),
    "kerberos": re.compile(r"GSSException|krb5|kinit|Kerberos|Clock skew", re.IGNORECASE),
    "maven": re.compile(r"^\[(?:INFO|ERROR|WARNING)\]|maven", re.MULTILINE),
    "npm": re.compile(r"npm (?:ERR!|error|warn)|node_modules", re.IGNORECASE),
    "hudi": re.compile(r"hudi|Hoodie", re.IGNORECASE),
}
PHASE = re.compile(
    r"(?:Starting|Submitted|Running|Stage \d+|Triggering checkpoint|Building|Downloading|"
    r"Registered|Finished|Completed|Restoring|Switched from|--- [\w:.-]+ ).{0,100}"
)
SECONDS, NEAR, TEXT = 5, 40, 400


def seconds_of(line: str) -> int | None:
    """Return the line's time in seconds of a calendar without leap days; None without one."""
    found = TIME.search(line)
    if found is None:
        return None
    parts = [int(p) for p in found.groups() if p is not None]
    year, month, day, hour, minute, second = parts
    return ((year * 372 + month * 31 + day) * 24 + hour) * 3600 + minute * 60 + second


def is_error(line: str) -> bool:
    """Tell whether a line says that something failed."""
    return bool(ERROR.search(line)) and not HARMLESS.search(line) and not STACK.match(line)


class Reader:
    """What is known of a log so far; `take` takes its next line."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.phases: list[dict[str, Any]] = []
        self.first: dict[str, Any] | None = None
        self.first_echo: dict[str, Any] | None = None
        self.cause: dict[str, Any] | None = None
        self.near: list[str] = []
        self.stack: list[str] = []
        self.before: deque[tuple[int, str, int | None]] = deque(maxlen=NEAR)
        self.lines = 0
        self._at: int | None = None
        self._in_stack = False

    def take(self, line: str) -> None:
        """Take one line."""
        self.lines += 1
        line = line.rstrip("\n")[: 4 * TEXT]
        for kind, words in KINDS.items():
            self.kinds[kind] += bool(words.search(line))
        for level in ("ERROR", "FATAL", "WARN"):
            self.counts[level] += level in line
        self._stack(line)
        found = PHASE.search(line)
        if found and len(self.phases) < 50:
            self.phases.append({"line": self.lines, "text": found.group()[:120]})
        if is_error(line):
            self._error(line)
        cause = CAUSE.match(line)
        if cause and self.first is not None:
            self.cause = {"line": self.lines, "text": cause[1][:TEXT]}
        self._near(line)
        self.before.append((self.lines, line, seconds_of(line)))

    def _error(self, line: str) -> None:
        self.counts["errors"] += 1
        here = {"line": self.lines, "text": line.strip()[:TEXT]}
        if ECHO.search(line):
            self.first_echo = self.first_echo or here
        elif self.first is None:
            self.first = here
            self._at = seconds_of(line) or next(
                (t for _n, _l, t in reversed(self.before) if t), None
            )
            if self._at is not None:
                self.near = [
                    f"{n}: {text[:TEXT]}"
                    for n, text, at in self.before
                    if at and self._at - at <= SECONDS
                ][-10:]

    def _stack(self, line: str) -> None:
        if STACK.match(line) or CAUSE.match(line):
            if not self._in_stack:
                last = self.before[-1][1] if self.before else ""
                self.stack = [last[:TEXT]]
            self._in_stack = True
            self.stack = [*self.stack[:1], *self.stack[1:][-14:], line.strip()[:TEXT]]
        else:
            self._in_stack = False

    def _near(self, line: str) -> None:
        if self._at is None or len(self.near) >= NEAR:
            return
        at = seconds_of(line)
        if at is not None and at - self._at <= SECONDS:
            self.near.append(f"{self.lines}: {line[:TEXT]}")

    def report(self) -> dict[str, Any]:
        """Return the report."""
        first = self.first or self.first_echo
        kind = (
            max(self.kinds, key=lambda each: self.kinds[each]) if any(self.kinds.values()) else None
        )
        return {
            "lines": self.lines,
            "kind": kind,
            "phases": self.phases[-20:],
            "first_error": first,
            "root_cause": self.cause or first,
            "last_stack": self.stack,
            "counts": dict(self.counts),
            "near": self.near[:NEAR],
        }


def read(lines: Iterable[str]) -> dict[str, Any]:
    """Return the report of a log's lines."""
    reader = Reader()
    for line in lines:
        reader.take(line)
    return reader.report()


def main(arguments: list[str]) -> int:
    """Print the report of the file named; 2 when there is none to read."""
    if len(arguments) != 1:
        print("usage: joblog.py LOG", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            print(json.dumps(read(file), ensure_ascii=False, indent=1))
    except OSError as error:
        print(f"{arguments[0]!r} cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
