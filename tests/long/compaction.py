"""Compaction: random walks of sessions that are shortened, undone, crashed and reopened.

May not judge by itself: `tests/compaction/walk.py` says what must hold after every step.
"""

from __future__ import annotations

import sys
import time

from agent_kernel.core.replay import verify
from tests.compaction.walk import Walk

LENGTH = 60  # steps of one session; a run begins and ends between two sessions
SLICE = 1_200


def run(seed: int, start: int, steps: int, until: float) -> dict[str, int]:
    """Walk `steps` steps from the number `start`; return the counts, violations among them."""
    counts = {"steps": 0, "sessions": 0, "violations": 0, "events": 0, "requests": 0}
    while counts["steps"] < steps and time.monotonic() < until:
        name = f"{seed}:{(start + counts['steps']) // LENGTH}"
        walk = Walk(name)
        for _ in range(LENGTH):
            walk.step()
            counts["steps"] += 1
            if walk.violations:
                break
        report = verify(walk.session.events)
        if not report.ok:
            walk.violations.append(f"S6: {report.findings[:1]}")
        counts["requests"] += report.requests
        for text in walk.violations:
            counts["violations"] += 1
            print(f"compaction walk {name!r}, step {walk.number}: {text}", file=sys.stderr)
        for key, value in walk.counts.items():
            counts[key] = counts.get(key, 0) + value
        counts["sessions"] += 1
        counts["events"] += len(walk.session.events)
        counts["steps"] += -counts["steps"] % LENGTH  # a broken one counts as its whole length
    return counts
