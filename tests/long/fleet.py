"""Fleet: a corpus replicated with fresh ids through two Dask workers; sums must be replicas x one.

May not stay on the disk: it writes below a temporary folder and removes it. AGENT_KERNEL_CORPUS
names a folder of real sessions; without it a synthetic one is written. AGENT_KERNEL_FLEET_GB is
how much to read (default 4).
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_kernel import frames, transcripts
from agent_kernel.frames import fleet
from agent_kernel.frames.scan import walk
from agent_kernel.testing import corpus

SLICE = 1
PEAK = 1_000_000_000  # bytes a worker may hold
SPARE = 4  # GB of disk left to others
FIELDS = ("input", "output_recorded", "cache_write_5m", "cache_write_1h", "cache_read")
# What makes a session, a line, a response or a tool call the same one elsewhere.
_IDS = re.compile(
    rb"\b(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    rb"|(?:msg_|req_|toolu_)\w{8,})"
)


def fresh(number: int) -> Callable[[re.Match[bytes]], bytes]:
    """Return what gives an id its replica's number: its last characters."""
    tail = f"{number:04x}".encode()
    return lambda found: found[0][: -len(tail)] + tail if number else found[0]


def replicate(given: list[Path], place: Path, number: int) -> int:
    """Write one replica of the files below `place`; return its bytes."""
    size = 0
    rename = fresh(number)
    for path in given:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        name = _IDS.sub(rename, path.name.removesuffix(".gz").encode()).decode()
        folder = place / f"team-{number:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(_IDS.sub(rename, data))
        size += len(data)
    return size


@contextmanager
def replicas(gigabytes: float) -> Iterator[tuple[Path, int, int]]:
    """A folder of replicas: (folder, how many, bytes); removed at the end."""
    with tempfile.TemporaryDirectory(prefix="agent-kernel-fleet-") as name:
        base, place = Path(name), Path(name) / "teams"
        given = os.environ.get("AGENT_KERNEL_CORPUS")
        if given:
            source = [Path(path) for path in walk(given) if path.endswith((".jsonl", ".gz"))]
        else:
            corpus.write(base / "one", megabytes=min(100, gigabytes * 250))
            source = sorted((base / "one").glob("*.jsonl"))
        size = count = 0
        while size < gigabytes * 1e9:
            if shutil.disk_usage(name).free < (SPARE + 1) * 1e9:
                raise OSError(f"under {SPARE} GB of disk would be left; give AGENT_KERNEL_FLEET_GB")
            size += replicate(source, place, count)
            count += 1
        yield place, count, size


def sums(calls: Any) -> dict[str, float]:
    """Return calls, buckets and dollars of a Dask table of calls."""
    import dask

    columns = [*FIELDS, "usd_recorded"]
    count, added = dask.compute(calls["call_id"].count(), calls[columns].sum())  # type: ignore[attr-defined]
    return {"calls": int(count), **{name: float(added[name]) for name in columns}}


def expected(place: Path, count: int) -> dict[str, float]:
    """Return `count` times the totals of the first replica, by `load`."""
    total = frames.load(place / "team-000", readers=transcripts.ALL, cache=False).totals()["total"]
    names = dict(zip(FIELDS, ("input", "output", *FIELDS[2:]), strict=True))
    said = {one: float(total[name] * count) for one, name in names.items()}
    return {"calls": total["calls"] * count, **said, "usd_recorded": total["usd"] * count}


def differences(found: dict[str, float], wanted: dict[str, float]) -> list[str]:
    """Return what is not equal: tokens exactly, dollars to a millionth."""
    return [
        f"{name}: {found[name]} is not {wanted[name]}"
        for name in wanted
        if abs(found[name] - wanted[name]) > (1e-6 * wanted[name] if name == "usd_recorded" else 0)
    ]


def _peak() -> int:
    """The most bytes this process ever held."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(seed: int, start: int, steps: int, until: float) -> dict[str, int]:
    """Read the replicas with two workers of one thread each; return counts and violations."""
    from distributed import Client, LocalCluster

    wanted_gb = float(os.environ.get("AGENT_KERNEL_FLEET_GB", "4"))
    with replicas(wanted_gb) as (place, count, size):
        wanted = expected(place, count)
        begin = time.perf_counter()
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,  # type: ignore[no-untyped-call]
            Client(cluster) as client,  # type: ignore[no-untyped-call]
        ):
            whole = fleet.load(str(place), readers=transcripts.ALL)
            found = sums(whole.calls)
            peaks = client.run(_peak).values()  # type: ignore[no-untyped-call]
        wrong = differences(found, wanted)
        wrong += [f"a worker held {one:,} bytes" for one in peaks if one > PEAK]
        for text in wrong:
            print(f"fleet: {text}", file=sys.stderr)
        return {
            "steps": 1,
            "violations": len(wrong),
            "replicas": count,
            "megabytes": size // 1_000_000,
            "calls": int(found["calls"]),
            "tasks": len(whole.groups),
            "peak_mb": max(peaks) // 1_000_000,
            "read_ms": round(1000 * (time.perf_counter() - begin)),
        }
