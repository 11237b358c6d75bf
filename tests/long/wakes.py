"""Wakes: agents of ten seconds that end while their parent streams, idles, or hears a new message.

Each step is one of the three in a real kernel, in turn; it counts notices lost, doubled, misplaced.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_kernel.core.session import Session
from agent_kernel.kernel.install import install
from tests.kernel import scenes
from tests.kernel.live import Live, live

TAKES = 10.0  # seconds of the agent
ALLOW = {"AGENT_KERNEL_ALLOW": '["Agent", "Bash"]'}
SCENES: tuple[tuple[Callable[[Live, float], Session], Callable[[Session], None]], ...] = (
    (scenes.busy, scenes.check_busy),
    (scenes.idle, scenes.check_idle),
    (scenes.both, scenes.check_both),
)


@contextmanager
def kernel_in(folder: Path) -> Iterator[Live]:
    """A kernel in `folder`, its kernelspec there too."""
    os.environ["JUPYTER_DATA_DIR"] = str(folder / "jupyter")
    install(user=True)
    with live(folder, dict(ALLOW)) as k:
        yield k


def run(seed: int = 1, start: int = 0, steps: int = 3, until: float = 0.0) -> dict[str, int]:
    """Counts over `steps` scenes; `violations`: scenes whose log is not as specified."""
    counts = {"steps": 0, "violations": 0}
    with tempfile.TemporaryDirectory() as folder, kernel_in(Path(folder)) as k:
        scenes.begin(k, TAKES)
        while counts["steps"] < steps and not (until and time.monotonic() > until):
            act, check = SCENES[(seed + start + counts["steps"] - 1) % len(SCENES)]
            try:
                check(act(k, TAKES))
            except AssertionError as error:
                print(f"{act.__name__}: {error}", file=sys.stderr)
                counts["violations"] += 1
            counts["steps"] += 1
    return counts
