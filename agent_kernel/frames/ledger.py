"""Ledger: the calls behind all statements of tokens, each counted once, and their dollars.

May not use pandas or touch a file: `agent-kernel totals` runs on this alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
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
    rates: Any = None
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
    usages: Columns
    keys: list[str]
    _rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return every statement of tokens with the `key` of its call, made at first use."""
        if not self._rows and self.keys:
            self._rows = [_row(self.usages, at, key) for at, key in enumerate(self.keys)]
        return self._rows


def _row(usages: Columns, at: int, key: str) -> dict[str, Any]:
    row = {name: values[at] for name, values in usages.items()}
    row["key"] = key
    return row


def collect(usages: Columns) -> Ledger:
    """Return the calls behind the rows of the `usages` part; the order of rows changes nothing."""
    issues: list[dict[str, Any]] = []
    keys = _keys(usages, issues)
    groups: dict[str, list[int]] = {}
    for at, key in enumerate(keys):
        held = groups.get(key)
        if held is None:
            groups[key] = [at]
        else:
            held.append(at)
    make = _maker(usages)
    calls = [
        make(name, same)
        for key, group in groups.items()
        for name, same in _apart(key, group, usages, keys)
    ]
    if "mismatch" in usages["split"]:
        issues.extend(_wrong_splits(usages, keys))
    return Ledger(calls, issues, usages, keys)


def _keys(usages: Columns, issues: list[dict[str, Any]]) -> list[str]:
    """Return what makes lines one call: message id, else request id, else the place itself."""
    keys = [a or b for a, b in zip(usages["call_id"], usages["request_id"], strict=True)]
    if any(usages["total"]) or any(usages["fork"]):
        roots = _roots(usages, issues)
        for at, (total, session) in enumerate(zip(usages["total"], usages["session"], strict=True)):
            if total:
                keys[at] = f"{roots.get(session, session)}:{total}"
    for at, key in enumerate(keys):
        if key is None:
            keys[at] = f"{usages['file'][at]}#{usages['offset'][at]}"
            text = "a usage without message id and request id: its own call"
            issues.append(_issue("no_call_id", _row(usages, at, keys[at]), text))
    return keys


def _roots(usages: Columns, issues: list[dict[str, Any]]) -> dict[str, str]:
    """Return, by session, the root of its forks; a fork repeats what it goes on from."""
    pairs = zip(usages["session"], usages["fork"], strict=True)
    parents = {session: fork for session, fork in pairs if fork and session}
    known = set(usages["session"])
    roots = {}
    for session in parents:
        seen, at = {session}, session
        while at in parents and parents[at] not in seen:
            at = parents[at]
            seen.add(at)
        roots[session] = at
    for session, parent in parents.items():
        if parent not in known:
            first = _row(usages, usages["session"].index(session), "")
            text = f"the session {parent!r} it goes on from is not here; its calls count as this's"
            issues.append(_issue("replay_unresolved", first, text))
    return roots


def _apart(
    key: str, group: list[int], usages: Columns, keys: list[str]
) -> Iterable[tuple[str, list[int]]]:
    """Split a group whose id is a short counter into its sessions, unless they are copies."""
    if len(group) == 1 or len(key) >= _GLOBAL_ID:
        return [(key, group)]
    said = usages["session"]
    owner = {said[at]: said[at] for at in group}
    if len(owner) == 1:
        return [(key, group)]
    shared: dict[Any, Any] = {}
    for at in group:
        for name in ("uuid", "time", "request_id"):
            if usages[name][at] is not None:
                other = _root(owner, shared.setdefault((name, usages[name][at]), said[at]))
                owner[other] = _root(owner, said[at])
    found: dict[Any, list[int]] = defaultdict(list)
    for at in group:
        found[_root(owner, said[at])].append(at)
    if len(found) == 1:
        return [(key, group)]
    named = [(f"{key}@{session}", same) for session, same in found.items()]
    for name, same in named:
        for at in same:
            keys[at] = name
    return named


def _root(owner: dict[Any, Any], session: Any) -> Any:
    while owner[session] != session:
        session = owner[session]
    return session


def _maker(usages: Columns) -> Callable[[str, list[int]], Call]:
    """Return what makes a call of the statements that name it."""
    times, files, stops = usages["time"], usages["file"], usages["stop"]
    nested, splits = usages["nested"], usages["split"]
    maxima = [usages[name] for name in _MAXIMA]
    rank, shown = _ranker(usages), _shown(usages)

    def make(key: str, group: list[int]) -> Call:
        if len(group) > 1:
            group = sorted(group, key=rank)
            best = [_most([values[at] for at in group]) for values in maxima]
        else:
            best = [values[group[0]] for values in maxima]
        first = group[0]
        when = [times[at] for at in group if times[at] is not None]
        ends = [stops[at] for at in group if stops[at]]
        return Call(
            key,
            _row(usages, first, key),
            best[0] or 0,
            best[1],
            best[2] or 0,
            best[3] or 0,
            best[4] or 0,
            best[5],
            best[6],
            time_first=min(when, default=None),
            time_last=max(when, default=None),
            lines=len(group),
            files=tuple(sorted({files[at] for at in group})),
            nested=all(nested[at] for at in group),
            stop=ends[-1] if ends else None,
            split=splits[first],
            chars=shown(group),
        )

    return make


def _ranker(usages: Columns) -> Callable[[int], tuple[Any, ...]]:
    """Return what orders rows so that a call's best witness is first, whatever the file order."""
    nested, times, sessions = usages["nested"], usages["time"], usages["session"]
    files, offsets = usages["file"], usages["offset"]

    def rank(at: int) -> tuple[Any, ...]:
        time = times[at]
        return (
            bool(nested[at]),
            time is None,
            time or 0,
            sessions[at] or "",
            files[at],
            offsets[at] or 0,
        )

    return rank


def _most(values: list[int | None]) -> int | None:
    if values.count(values[0]) == len(values):  # most lines of a call repeat what it took
        return values[0]
    return max([value for value in values if value is not None], default=None)


def _shown(usages: Columns) -> Callable[[list[int]], int | None]:
    """Return what sums the visible code points of a call: each line's once, copies not again."""
    uuids, times, sizes = usages["uuid"], usages["time"], usages["chars"]

    def shown(group: list[int]) -> int | None:
        if len(group) == 1:
            alone: int | None = sizes[group[0]]
            return alone
        lines = {
            uuids[at] or (times[at], sizes[at]): sizes[at] for at in group if sizes[at] is not None
        }
        return sum(lines.values()) if lines else None

    return shown


def _wrong_splits(usages: Columns, keys: list[str]) -> list[dict[str, Any]]:
    """Return one finding a call whose cache writes do not add up."""
    message = (
        "cache_creation_input_tokens is not the sum of its 5m and 1h parts; rest counted as 5m"
    )
    rank = _ranker(usages)
    wrong: dict[str, int] = {}
    for at, split in enumerate(usages["split"]):
        if split == "mismatch" and (keys[at] not in wrong or rank(at) < rank(wrong[keys[at]])):
            wrong[keys[at]] = at
    return [
        _issue("cache_split_mismatch", _row(usages, at, key), message) for key, at in wrong.items()
    ]


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
