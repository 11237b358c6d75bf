"""Interrupts: a real kernel in a busy turn, interrupted at random moments, again and again.

May not judge by one slow moment of the machine: a violation is a kernel that is not idle within
10 s, a log that does not read, or a median over one second.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent_kernel.core.model import ModelProfile
from agent_kernel.core.validate import validate_messages
from agent_kernel.kernel.install import install
from agent_kernel.testing import MessagesServer
from tests.conftest import folders_of
from tests.kernel.conftest import env_of
from tests.kernel.live import Live, calls, live

SLICE = 500
# Seconds after its cell was sent in which a turn is interrupted: a signal that comes before the
# kernel has read the cell finds nothing to interrupt, as in any kernel.
SHORTEST, LONGEST = 0.02, 0.9
FRESH = 25  # interrupts of one session
LATE = 10.0  # seconds after which a kernel that is not idle is a violation
TEXT = "A long line of an answer, to be streamed piece by piece.\n" * 400
BUSY = (
    ("bash", {"command": "sleep 0.05; seq 1 2000; sleep 0.1"}),
    ("python", {"code": "import time\nfor i in range(40):\n    time.sleep(0.004)\nprint(i)"}),
    ("glob", {"pattern": "**/*.py"}),
    ("bash", {"command": "yes | head -c 3M; sleep 0.05"}),
    ("write", {"path": "notes.txt", "content": "x" * 20_000}),
)


class Endless:
    """A model that never ends a turn: text, then one or two tools, then more."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def __call__(self, _body: dict[str, Any]) -> dict[str, Any]:
        """Return the next answer, its calls named by its number."""
        number = next(self.numbers)
        time.sleep(0.02 * (number % 4))
        if number % 4 == 3:
            return calls(*_named(number), text=TEXT)
        uses = [BUSY[number % len(BUSY)], BUSY[(number + 2) % len(BUSY)]]
        made = calls(*uses[: 1 + number % 2], text=TEXT[: number % 7 * 900])
        for at, block in enumerate(made["content"]):
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{number:06d}_{at}"
        return made


def _named(number: int) -> list[tuple[str, dict[str, Any]]]:
    return [("bash", {"command": f"echo {number}; sleep 0.03"})]


def run(seed: int = 1, start: int = 0, steps: int = 30, until: float = 0.0) -> dict[str, int]:
    """Counts over interrupts `start` to `start + steps`; the times are printed to stderr.

    `over_1s` interrupts after which the kernel was idle only after a second; `violations` what
    was wrong: no idle kernel in 10 s, a broken log, a turn without its end, a slow median.
    """
    counts = dict.fromkeys(("steps", "over_1s", "violations"), 0)
    took: list[float] = []
    with tempfile.TemporaryDirectory() as name, MessagesServer(None, Endless()) as server:
        place, home = Path(name) / "work", Path(name) / "home"
        place.mkdir()
        env = {**env_of(server), **folders_of(home)}
        with _installed(env), live(place, env) as k:
            k.ok("%agent mode bypass")
            for number in range(start, start + steps):
                if until and time.monotonic() > until:
                    break
                if number % FRESH == 0:
                    k.ok("%agent new")  # so that the history does not fill the window
                moment = random.Random(f"{seed}:{number}").uniform(SHORTEST, LONGEST)
                seconds, wrong = _interrupt(k, moment)
                took.append(seconds)
                counts["steps"] += 1
                counts["over_1s"] += seconds > 1.0
                for each in [*wrong, *_lines(place)]:
                    counts["violations"] += 1
                    print(f"interrupt {number} at {moment:.3f} s: {each}", file=sys.stderr)
        counts["violations"] += _read(k)
    if took:
        median = statistics.median(took)
        print(f"idle after an interrupt: median {median:.3f} s, maximum {max(took):.3f} s, "
              f"{len(took)} interrupts, seed {seed}", file=sys.stderr)  # fmt: skip
        counts["violations"] += median > 1.0
    return counts


class _installed:
    """The kernelspec in the run's own Jupyter folders, for the body."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self.before = {name: os.environ.get(name) for name in self.env}
        os.environ.update(self.env)
        install(user=True)

    def __exit__(self, *_: object) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _interrupt(k: Live, moment: float) -> tuple[float, list[str]]:
    """Start a turn, interrupt it after `moment` seconds; seconds until idle, and what is wrong."""
    msg = k.start("%%agent --fresh\ngo on", None)
    time.sleep(moment)
    began = time.monotonic()
    k.interrupt()
    try:
        ran = k.finish(msg, timeout=LATE * 3)
    except TimeoutError as problem:
        return LATE * 3, [str(problem)[:300]]
    seconds = time.monotonic() - began
    wrong = [f"idle only after {seconds:.1f} s"] if seconds > LATE else []
    if ran.status != "error" or not ran.error.startswith(("TurnInterrupted", "KeyboardInterrupt")):
        wrong.append(f"the cell ended as {ran.status}: {ran.error[:200]}")
    return seconds, wrong


def _lines(place: Path) -> list[str]:
    """What is wrong with the end of the newest log: each line whole, and no turn left open."""
    path = max(place.glob("session.agent*.jsonl"), key=lambda log: log.stat().st_mtime_ns)
    until = time.monotonic() + LATE
    while True:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 200_000))
            lines = file.read().split(b"\n")
        turns = [line for line in lines if line.startswith((b'{"type":"turn/start"', _END))]
        if not lines[-1] and (not turns or turns[-1].startswith(_END)):
            return []  # what a compaction adds in the background may stand after a turn's end
        if time.monotonic() > until:
            return [f"{path.name} still {'has a torn line' if lines[-1] else 'has an open turn'}"]
        time.sleep(0.02)


_END = b'{"type":"turn/end"'


def _read(k: Live) -> int:
    """How much is wrong with the whole logs once their kernel is gone."""
    profile, problems = ModelProfile("m"), []
    for path in sorted(k.folder.glob("session.agent*.jsonl")):
        session = k.session(path.name)
        problems += [str(one) for one in session.findings]
        messages = session.surface().messages()
        problems += map(str, validate_messages(messages, profile, sendable=False))
        session.close()
    print(*problems, sep="\n", end="", file=sys.stderr)
    return len(problems)
