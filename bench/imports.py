"""Imports: what `import agent_kernel` costs beside `import ipykernel`, each in a fresh process.

May not reuse a process: a second import is free and says nothing.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from bench.row import Row, side_by_side

TIMED = """
import time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


def seconds(statement: str) -> float:
    """Seconds one statement takes in a fresh interpreter, its own start not counted."""
    code = TIMED.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    )
    return float(done.stdout)


def rows(repeat: int) -> list[Row]:
    """The package alone, its public names, and what `%load_ext` imports."""
    table = []
    for name, ours, bar in (
        ("import agent_kernel | import ipykernel", "import agent_kernel", 1.0),
        (
            "Session, query, tool | import ipykernel",
            "from agent_kernel import Session, query",
            None,
        ),
    ):
        mine, theirs = side_by_side(
            partial(seconds, ours),
            partial(seconds, "import ipykernel.kernelapp"),
            repeat,
        )
        table.append(Row(name, mine, theirs, bar=bar))
    return table
