"""Crash: every operation and every byte of the last record, then partial writes and kill -9.

May not stop at a violation: each is printed and counted, and the run goes on.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from agent_kernel.core.events import TurnStart, UserMessage
from agent_kernel.core.session import Session
from tests.core import load
from tests.core.crashes import Patient, crash, damaged, part_of

SLICE = 100
KILLS = 200  # of a real process, after the enumeration; then partial writes by the seed
POWER = (False, True)


def run(seed: int = 1, start: int = 0, steps: int = 200, until: float = 0.0) -> dict[str, int]:
    """Counts over crash points `start` to `start + steps`.

    `operations` runs killed before an operation (each with the process dead, and with the power
    lost), `bytes` last records damaged from a byte on (cut, zeros, random), `killed` processes,
    `partial` runs killed inside a write; `violations` what was wrong after any of them.
    """
    counts = dict.fromkeys(("steps", "operations", "bytes", "killed", "partial", "violations"), 0)
    with Patient():
        while counts["steps"] < steps and not (until and time.monotonic() > until):
            with tempfile.TemporaryDirectory() as name:
                wrong = _point(start + counts["steps"], seed, Path(name), counts)
            for each in wrong:
                print(f"crash point {start + counts['steps']}: {each}", file=sys.stderr)
                counts["violations"] += 1
            counts["steps"] += 1
    return counts


def _point(number: int, seed: int, work: Path, counts: dict[str, int]) -> Iterator[str]:
    """Act one point out; yield what is wrong."""
    for name, size, act in (
        ("operations", 2 * operations(), _operation),
        ("bytes", len(record()), _byte),
        ("killed", KILLS // 20, _kills),
        ("partial", sys.maxsize, _partial),
    ):
        if number < size:
            counts[name] += 20 if name == "killed" else 1
            return (wrong for wrong in list(act(number, seed, work)) if wrong)
        number -= size
    raise AssertionError("the last kind has no end")


def _operation(number: int, _seed: int, work: Path) -> Iterator[str]:
    yield crash(work, number // 2 + 1, None, POWER[number % 2])[0]


def _byte(number: int, seed: int, work: Path) -> Iterator[str]:
    data = whole()
    yield from damaged(work, data, len(data) - len(record()) + number, seed * 1_000_003 + number)


def _kills(number: int, seed: int, work: Path) -> Iterator[str]:
    yield from load.killed(work / "a.agent.jsonl", 20, seed * 1_000_003 + number)


def _partial(number: int, seed: int, work: Path) -> Iterator[str]:
    chance = random.Random(f"{seed}:{number}")
    at = chance.randrange(operations()) + 1
    yield crash(work, at, part_of(chance.randrange(1 << 30)), chance.choice(POWER))[0]


@cache
def operations() -> int:
    """How many operations the session of `crashes` does."""
    with tempfile.TemporaryDirectory() as name:
        return len(crash(Path(name), None, None, False)[1])


@cache
def whole() -> bytes:
    """The bytes of a small log whose last record holds quotes, escapes and a wide character."""
    with tempfile.TemporaryDirectory() as name:
        session = Session.open(Path(name) / "a.agent.jsonl")
        session.append(TurnStart(text="x"), UserMessage(content='a "q" \\ \u2028 \U0001f600' * 20))
        session.close()
        return (Path(name) / "a.agent.jsonl").read_bytes()


def record() -> bytes:
    """Its last record."""
    return whole()[whole().rfind(b"\n", 0, -1) + 1 :]
