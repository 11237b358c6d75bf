"""Tasks: kill -9 at random points of a run with five tasks and three agents, then go on.

May not stop at a violation: each is printed and counted, and the run goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

SLICE = 10
PIECE = 5  # points of one driver process
SECONDS = 600.0


def run(seed: int = 1, start: int = 0, steps: int = 20, until: float = 0.0) -> dict[str, int]:
    """Counts over kill points `start` to `start + steps` of a seed.

    `violations`: a notice lost or doubled, a started side effect run again, a task without its
    end, a process left over, a request that is not the log's.
    """
    counts = {"steps": 0, "violations": 0}
    while counts["steps"] < steps and not (until and time.monotonic() > until):
        size = min(PIECE, steps - counts["steps"])
        words = [str(seed), str(start + counts["steps"]), str(size)]
        ran = subprocess.run(
            [sys.executable, "-m", "tests.long._tasks_driver", *words],
            stdout=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        told = json.loads(ran.stdout.splitlines()[-1])
        for wrong in told["wrong"]:
            print(wrong, file=sys.stderr)
        counts["violations"] += len(told["wrong"])
        counts["steps"] += told["steps"]
    return counts
