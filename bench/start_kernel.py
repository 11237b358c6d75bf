"""Start kernel: starts one kernel from its kernelspec, runs a cell in it and says what it answered.

May not import anything but jupyter_client: `.ci/run` copies it beside a clean environment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

DEADLINE = 60.0
CELL = "print(6 * 7, get_ipython().kernel.__class__.__module__)"


@contextmanager
def started(name: str, **where: Any) -> Iterator[tuple[BlockingKernelClient, float]]:
    """A kernel's client and the seconds from launch until it answered its first request.

    `where` may give `cwd` and `env` of its process.
    """
    manager = KernelManager(kernel_name=name)
    start = time.perf_counter()
    manager.start_kernel(**where)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=DEADLINE)
        yield client, time.perf_counter() - start
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main(name: str) -> int:
    """Prints the kernel's output and how long it took to start; returns 0 when it printed 42."""
    said: list[str] = []
    with started(name) as (client, ready):
        client.execute_interactive(
            CELL, timeout=DEADLINE, output_hook=lambda m: said.append(m["content"].get("text", ""))
        )
    print(f"kernel {name!r} ready in {ready:.1f} s, said: {''.join(said).strip()}")
    return 0 if "".join(said).startswith("42") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
