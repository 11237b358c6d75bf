"""Ledger: the calls behind all statements of tokens, each counted once, and their dollars.

May not use pandas or touch a file: `agent-kernel totals` runs on this alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.frames.reader import Columns

BUCKETS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
_MAXIMA = ("input", "output", "write_5m", "write_1h", "read", "thinking", "searches")
# An id this short is a counter of one server, unique only within its session.
_GLOBAL_ID = 16


@dataclass(slots=True)
class Call:
    """One API call: each token field is the maximum over the lines that state it."""

    key: str
    row: dict[str, Any]
    input: int = 0
    output: int | None = None
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    thinking: int | None = None
    searches: int | None = None
    time_first: int | None = None
    time_last: int | None = None
    lines: int = 0
    files: tuple[int, ...] = ()
    nested: bool = False
    stop: str | None = None
    split: str | None = None
    chars: int | None = None
    output_est: int | None = None
    output_low: int | None = None
    output_high: int | None = None
    quality: str = "missing"
    price_id: str | None = None
    usd: dict[str, float | None] = field(default_factory=dict)
    usd_recorded: float | None = None
    usd_best: float | None = None

    @property
    def context(self) -> int:
        """Return the tokens the model read: input, both cache writes and the cache read."""
        return self.input + self.cache_write_5m + self.cache_write_1h + self.cache_read

    def tokens(self, output: int | None = None) -> dict[str, int]:
        """Return the five buckets, with `output` in place of the recorded output when given."""
        said = self.output if output is None else output
        return {
            "input": self.input,
            "output": said or 0,
            "cache_write_5m": self.cache_write_5m,
            "cache_write_1h": self.cache_write_1h,
            "cache_read": self.cache_read,
        }


@dataclass(slots=True)
class Ledger:
    """All calls of a load, by first appearance, and what was found on the way."""

    calls: list[Call]
    issues: list[dict[str, Any]]
    rows: list[dict[str, Any]]


def collect(usages: Columns) -> Ledger:
    """Return the calls behind the rows of the `usages` part; the order of rows changes nothing."""
    rows = _rows(usages)
    issues: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    roots = _roots(rows, issues)
    for row in rows:
        groups[_key(row, roots, issues)].append(row)
    calls: list[Call] = []
    for key, group in groups.items():
        for name, same in _apart(key, group):
            calls.append(_call(name, same))
            issues.extend(_wrong_split(same))
    return Ledger(calls, issues, rows)


def _rows(usages: Columns) -> list[dict[str, Any]]:
    names = list(usages)
    return [dict(zip(names, values, strict=True)) for values in zip(*usages.values(), strict=True)]


def _roots(rows: list[dict[str, Any]], issues: list[dict[str, Any]]) -> dict[str, str]:
    """Return, by session, the root of its forks; a fork repeats what it goes on from."""
    parents = {row["session"]: row["fork"] for row in rows if row["fork"] and row["session"]}
    known = {row["session"] for row in rows}
    roots = {}
    for session in parents:
        seen, at = {session}, session
        while at in parents and parents[at] not in seen:
            at = parents[at]
            seen.add(at)
        roots[session] = at
    for session, parent in parents.items():
        if parent not in known:
            first = next(row for row in rows if row["session"] == session)
            text = f"the session {parent!r} it goes on from is not here; its calls count as this's"
            issues.append(_issue("replay_unresolved", first, text))
    return roots


def _key(row: dict[str, Any], roots: dict[str, str], issues: list[dict[str, Any]]) -> str:
    """Return what makes lines one call: message id, else request id, else the place itself."""
    key = row["call_id"] or row["request_id"]
    if row["total"]:
        key = f"{roots.get(row['session'], row['session'])}:{row['total']}"
    if key is None:
        key = f"{row['file']}#{row['offset']}"
        issues.append(
            _issue("no_call_id", row, "a usage without message id and request id: its own call")
        )
    row["key"] = key
    return str(key)


def _apart(key: str, group: list[dict[str, Any]]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """Split a group whose id is a short counter into its sessions, unless they are copies."""
    sessions = {row["session"] for row in group}
    if len(sessions) == 1 or len(key) >= _GLOBAL_ID:
        return [(key, group)]
    shared: dict[Any, Any] = {}
    owner = {session: session for session in sessions}
    for row in group:
        for sign in (("u", row["uuid"]), ("t", row["time"]), ("r", row["request_id"])):
            if sign[1] is not None:
                other = _root(owner, shared.setdefault(sign, row["session"]))
                owner[other] = _root(owner, row["session"])
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in group:
        found[_root(owner, row["session"])].append(row)
    if len(found) == 1:
        return [(key, group)]
    named = [(f"{key}@{session}", rows) for session, rows in found.items()]
    for name, rows in named:
        for row in rows:
            row["key"] = name
    return named


def _root(owner: dict[Any, Any], session: Any) -> Any:
    while owner[session] != session:
        session = owner[session]
    return session


def _call(key: str, group: Sequence[dict[str, Any]]) -> Call:
    group = sorted(group, key=_rank) if len(group) > 1 else group
    first = group[0]
    best = {name: _most([row[name] for row in group]) for name in _MAXIMA}
    times = [row["time"] for row in group if row["time"] is not None]
    stops = [row["stop"] for row in group if row["stop"]]
    return Call(
        key,
        first,
        input=best["input"] or 0,
        output=best["output"],
        cache_write_5m=best["write_5m"] or 0,
        cache_write_1h=best["write_1h"] or 0,
        cache_read=best["read"] or 0,
        thinking=best["thinking"],
        searches=best["searches"],
        time_first=min(times, default=None),
        time_last=max(times, default=None),
        lines=len(group),
        files=tuple(sorted({row["file"] for row in group})),
        nested=all(row["nested"] for row in group),
        stop=stops[-1] if stops else None,
        split=first["split"],
        chars=_shown(group),
    )


def _rank(row: dict[str, Any]) -> tuple[Any, ...]:
    """Order rows so that the best witness of a call comes first, whatever the file order."""
    time = row["time"]
    return (
        bool(row["nested"]),
        time is None,
        time or 0,
        row["session"] or "",
        row["file"],
        row["offset"] or 0,
    )


def _most(values: list[int | None]) -> int | None:
    if len(values) == 1:
        return values[0]
    return max([value for value in values if value is not None], default=None)


def _shown(group: Sequence[dict[str, Any]]) -> int | None:
    """Return the visible code points of a call: each line's once, copies of a line not again."""
    lines = {
        row["uuid"] or (row["time"], row["chars"]): row["chars"]
        for row in group
        if row["chars"] is not None
    }
    return sum(lines.values()) if lines else None


def _wrong_split(group: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    wrong = [row for row in group if row["split"] == "mismatch"]
    message = (
        "cache_creation_input_tokens is not the sum of its 5m and 1h parts; rest counted as 5m"
    )
    return [_issue("cache_split_mismatch", wrong[0], message)] if wrong else []


def _issue(code: str, row: dict[str, Any], message: str) -> dict[str, Any]:
    return {
        "code": code,
        "file": row["file"],
        "offset": row["offset"],
        "bytes": None,
        "message": message,
        "sample": "",
        "session": row["session"],
    }
