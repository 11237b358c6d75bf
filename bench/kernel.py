"""Kernel: start, first output and idle round trip of our kernel beside a plain ipykernel.

May not touch the person's kernels: each is started from its kernelspec and shut down again.
"""

from __future__ import annotations

import time

from jupyter_client.blocking.client import BlockingKernelClient

from bench.row import Row, side_by_side
from bench.start_kernel import DEADLINE, started

OURS, PLAIN = "agent-kernel", "python3"


def first_output(client: BlockingKernelClient, code: str = "print('here')") -> float:
    """Seconds from sending a cell to the first thing it prints; returns when the cell is done."""
    start, took = time.perf_counter(), 0.0
    sent = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=DEADLINE)
        if message["parent_header"].get("msg_id") != sent:
            continue
        if message["msg_type"] == "stream":
            took = took or time.perf_counter() - start
        elif message["content"].get("execution_state") == "idle":
            return took


def until_idle(client: BlockingKernelClient, code: str) -> float:
    """Seconds from sending a cell to its reply."""
    start = time.perf_counter()
    client.execute_interactive(code, timeout=DEADLINE, output_hook=lambda _: None)
    return time.perf_counter() - start


def start_seconds(name: str) -> float:
    """Seconds from launch to a kernel that answers."""
    with started(name) as (_, took):
        return took


def rows(repeat: int) -> list[Row]:
    """Start to ready; a Python cell's first output; a cell that does nothing."""
    ours, plain = side_by_side(
        lambda: start_seconds(OURS), lambda: start_seconds(PLAIN), max(3, repeat)
    )
    table = [Row("kernel start to ready", ours, plain, bar=1.2)]
    with started(OURS) as (mine, _), started(PLAIN) as (theirs, _):
        first = side_by_side(lambda: first_output(mine), lambda: first_output(theirs), 1)
        table.append(Row("the first cell's first output", *first, kind="extra"))
        again = side_by_side(lambda: first_output(mine), lambda: first_output(theirs), repeat * 6)
        table.append(Row("a Python cell's first output", *again, kind="extra", bar=0.010))
        idle = side_by_side(
            lambda: until_idle(mine, "pass"), lambda: until_idle(theirs, "pass"), repeat * 6
        )
        table.append(Row("a cell that does nothing", *idle, kind="extra", bar=0.010))
    return table
