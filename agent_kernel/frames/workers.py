"""Workers: files read by several processes, dealt by size, parts handed back as packed bytes.

May not load pandas or pyarrow in a worker, nor fork a process that runs threads.
"""

from __future__ import annotations

import marshal
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from types import ModuleType

from agent_kernel.frames.reader import Columns, Reader
from agent_kernel.frames.scan import File, read

SMALL = 32 * 1024 * 1024  # below this one process is faster
MOST = 8
Parts = dict[str, Columns]
Job = tuple[File, Reader]


def read_all(
    jobs: Sequence[Job],
    want: frozenset[str],
    workers: int | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> list[Parts]:
    """Return the wanted parts of every job, in order.

    `workers` None means as many as cores, files and 8 allow, and one below 32 MB; `meanwhile` runs
    here while workers read.
    """
    count = _count(jobs, workers)
    if count <= 1:
        return [read(file, reader, want) for file, reader in jobs]
    batches = _deal(jobs, count * 4)
    out: list[Parts] = [{} for _ in jobs]
    with ProcessPoolExecutor(count, mp_context=_context()) as pool:
        with _nameless():
            futures = [
                (batch, pool.submit(_work, [jobs[at] for at in batch], want)) for batch in batches
            ]
        if meanwhile is not None:
            meanwhile()
        for batch, future in futures:
            for at, packed in zip(batch, future.result(), strict=True):
                out[at] = marshal.loads(packed)  # noqa: S302 - bytes of our own process
    return out


@contextmanager
def _nameless() -> Iterator[None]:
    """Start processes that do not run the program's own script again.

    A spawned process imports `__main__`; a script without a guard would then run twice.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _count(jobs: Sequence[Job], workers: int | None) -> int:
    if any(type(reader).__module__ == "__main__" for _, reader in jobs):
        return 1  # another process could not find it
    if workers is not None:
        return min(workers, len(jobs))
    whole = sum(file.size * (6 if file.path.endswith(".gz") else 1) for file, _ in jobs)
    if whole < SMALL:
        return 1
    return min(len(os.sched_getaffinity(0)), len(jobs), MOST)


def _context() -> multiprocessing.context.BaseContext:
    """Return fork for a program without threads, spawn for one with: a lock may be held there."""
    alone = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if alone else "spawn")


def _deal(jobs: Sequence[Job], count: int) -> list[list[int]]:
    """Deal files by size, largest first, each to the batch with the fewest bytes."""
    batches: list[list[int]] = [[] for _ in range(min(count, len(jobs)))]
    sizes = [0] * len(batches)
    for at in sorted(range(len(jobs)), key=lambda at: -jobs[at][0].size):
        least = sizes.index(min(sizes))
        batches[least].append(at)
        sizes[least] += jobs[at][0].size + 1
    return batches


def _work(jobs: list[Job], want: frozenset[str]) -> list[bytes]:
    return [marshal.dumps(read(file, reader, want)) for file, reader in jobs]
