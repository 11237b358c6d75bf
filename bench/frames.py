"""Frames: how soon session logs are totals and tables, beside ccusage and DuckDB on the same files.

May not compare unlike work in silence: a row says what the other side does. AGENT_KERNEL_CORPUS
names a folder of real sessions; without it a synthetic one of 50 MB is written, totals known.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from agent_kernel.frames.scan import walk
from agent_kernel.testing import corpus
from bench.row import Measure, Row

LOAD = """
import sys, time
import pandas, pyarrow.parquet
from agent_kernel import frames, transcripts
start = time.perf_counter()
frames.load(sys.argv[1], readers=transcripts.ALL, cache={cache}).{table}
print(time.perf_counter() - start)
"""
DUCK = """
import sys, time
start = time.perf_counter()
import duckdb
duckdb.sql(
    "select message.model, sum(message.usage.output_tokens) from read_json(?, format='nd', "
    "columns={message: 'STRUCT(model VARCHAR, usage STRUCT(output_tokens BIGINT))'}, "
    "ignore_errors=true, maximum_object_size=200000000) group by 1",
    params=[sys.argv[1] + "/*.jsonl"],
).fetchall()
print(time.perf_counter() - start)
"""


@contextmanager
def sessions() -> Iterator[Path]:
    """A scratch home with plain .jsonl files where Claude Code keeps them, and an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / ".claude" / "projects" / "bench"
        place.mkdir(parents=True)
        given = os.environ.get("AGENT_KERNEL_CORPUS")
        if given:
            for path in walk(given):
                _unpack(Path(path), place)
        else:
            made = corpus.write(place, megabytes=50)
            _check(place, made)
        yield place


def _unpack(path: Path, place: Path) -> None:
    import gzip

    name = path.name.removesuffix(".gz")
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        (place / name).write_bytes(file.read())


def _check(place: Path, made: corpus.Corpus) -> None:
    """The totals are those the corpus was written with: speed of a wrong answer is nothing."""
    from agent_kernel import frames, transcripts

    total = frames.load(place, readers=transcripts.ALL, cache=False).totals()["total"]
    assert total["calls"] == made.calls
    assert abs(total["usd"] - made.usd) < 1e-6


@dataclass(frozen=True)
class Used:
    """What a program took: seconds on the wall and of CPU, bytes of its largest process."""

    wall: float
    cpu: float
    peak: int


def run(argv: list[str], home: Path) -> Used:
    """Run a program to its end; its children's CPU counts."""
    env = {**_environment(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    start = time.perf_counter()
    null = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdout=null, stderr=null, env=env)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if process.returncode is None:
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise OSError(f"{argv[:3]} ended with {process.returncode}")
    return Used(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def said(argv: list[str], home: Path) -> float:
    """Seconds a program prints last."""
    env = _environment(home)
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=env, timeout=600)
    return float(done.stdout.split()[-1])


def _environment(home: Path) -> dict[str, str]:
    """Return a scratch home; modules are compiled once, as in every installed package."""
    env = {**os.environ, "HOME": str(home), "AGENT_KERNEL_CACHE": str(home / "cache")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**env, "PYTHONPYCACHEPREFIX": str(home / "compiled")}


def refresh(place: Path) -> float:
    """Seconds a refresh takes after one line was appended to one file."""
    from agent_kernel import frames, transcripts

    found = frames.load(place, readers=transcripts.ALL, cache=False)
    found.columns("calls")
    path = min(place.glob("*.jsonl"))
    line = path.read_bytes().splitlines()[1]
    with path.open("ab") as file:
        file.write(line + b"\n")
    start = time.perf_counter()
    assert found.refresh()
    return time.perf_counter() - start


def rows(repeat: int) -> list[Row]:
    """Totals and tables of one folder; the others' figures in the same minute."""
    with sessions() as place:
        home = place.parents[2]
        python = [sys.executable, "-c"]
        totals = [sys.executable, "-m", "agent_kernel", "totals", str(place), "--json", "--fast"]
        cold = [*python, LOAD.format(cache=False, table="calls"), str(place)]
        warm = [*python, LOAD.format(cache=True, table="calls"), str(place)]
        run(totals, home)  # the rates of these models are looked up once
        said(warm, home)
        said(warm, home)
        size = sum(path.stat().st_size for path in place.glob("*.jsonl")) / 1e6
        return [
            *_beside(f"totals of {size:.0f} MB | ccusage", totals, _ccusage(), home, repeat),
            *_beside("calls, cold | DuckDB sums a field", cold, _duck(place), home, repeat),
            _alone("records+blocks, CPU per 100 MB", partial(full, place, size), 1),
            _growth(place, home),
            _alone("calls, warm cache", partial(said, warm, home), repeat, 0.1),
            _alone("refresh after one line", partial(refresh, place), repeat, 0.02),
        ]


def full(place: Path, size: float) -> float:
    """CPU-seconds per 100 MB that records and blocks of every line take, in one process."""
    from agent_kernel import frames, transcripts

    start = time.process_time()
    found = frames.load(place, readers=transcripts.ALL, cache=False, workers=1)
    found.columns("records")
    found.columns("blocks")
    return (time.process_time() - start) / size * 100


def _growth(place: Path, home: Path) -> Row:
    """What eight times the files take beside eight times one: copies under new ids."""
    from agent_kernel import frames, transcripts

    def seconds(folder: Path) -> float:
        start = time.process_time()
        frames.load(folder, readers=transcripts.ALL, cache=False, workers=1).columns("calls")
        return time.process_time() - start

    small = sorted(place.glob("*.jsonl"), key=lambda path: path.stat().st_size)[-6:]
    for number in range(8):
        folder = home / "grown" / str(number)
        folder.mkdir(parents=True)
        for path in small:
            new = f"{number}{path.stem[1:]}"
            data = path.read_bytes().replace(path.stem.encode(), new.encode())
            data = data.replace(b'"id":"msg_', f'"id":"msg_{number}'.encode())
            (folder / f"{new}.jsonl").write_bytes(data)
    once = seconds(home / "grown" / "0")
    return Row("calls of 8x the files | 8 times one", seconds(home / "grown"), 8 * once, bar=1.3)


def _alone(name: str, measure: Measure, repeat: int, bar: float | None = None) -> Row:
    return Row(name, median(measure() for _ in range(repeat)), None, kind="seconds", bar=bar)


def _beside(
    name: str, ours: list[str], plain: list[str] | None, home: Path, repeat: int
) -> list[Row]:
    """A row of the wall and one of the CPU; the larger process of each stands in the name."""
    if plain is None:
        return [_alone(f"{name}: not run", lambda: run(ours, home).wall, repeat)]
    pairs = [(run(ours, home), run(plain, home)) for _ in range(repeat)]
    mine, theirs = [one for one, _ in pairs], [one for _, one in pairs]
    peaks = f"{max(u.peak for u in mine) >> 20}|{max(u.peak for u in theirs) >> 20} MB"
    return [
        Row(name, median(u.wall for u in mine), median(u.wall for u in theirs)),
        Row(f"  CPU; peak {peaks}", median(u.cpu for u in mine), median(u.cpu for u in theirs)),
    ]


def _ccusage() -> list[str] | None:
    found = shutil.which("ccusage")
    return [found, "daily", "--offline", "--json"] if found else None


def _duck(place: Path) -> list[str] | None:
    if importlib.util.find_spec("duckdb") is None:
        return None
    return [sys.executable, "-c", DUCK, str(place)]
