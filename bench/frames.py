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
from functools import partial
from pathlib import Path
from statistics import median

from agent_kernel.frames.scan import walk
from agent_kernel.testing import corpus
from bench.row import Measure, Row, side_by_side

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


def run(argv: list[str], home: Path, *, said: bool = False) -> float:
    """Seconds a program takes, or the seconds it prints."""
    env = {**os.environ, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    env["AGENT_KERNEL_CACHE"] = str(home / "cache")
    start = time.perf_counter()
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=env, timeout=600)
    return float(done.stdout.split()[-1]) if said else time.perf_counter() - start


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
    """Totals and tables of one folder; times of the others in the same minute."""
    with sessions() as place:
        home = place.parents[2]
        python = [sys.executable, "-c"]
        totals = [sys.executable, "-m", "agent_kernel", "totals", str(place), "--json"]
        cold = [*python, LOAD.format(cache=False, table="calls"), str(place)]
        whole = [*python, LOAD.format(cache=False, table="blocks"), str(place)]
        warm = [*python, LOAD.format(cache=True, table="calls"), str(place)]
        run(warm, home, said=True)
        size = sum(path.stat().st_size for path in place.glob("*.jsonl")) / 1e6
        return [
            _beside(f"totals of {size:.0f} MB | ccusage daily", totals, _ccusage(), home, repeat),
            _beside("calls, cold | DuckDB sums one field", cold, _duck(place), home, repeat, True),
            _alone("records and blocks, cold", partial(run, whole, home, said=True), repeat),
            _alone("calls, warm cache", partial(run, warm, home, said=True), repeat, 0.1),
            _alone("refresh after one line", partial(refresh, place), repeat, 0.02),
        ]


def _alone(name: str, measure: Measure, repeat: int, bar: float | None = None) -> Row:
    return Row(name, median(measure() for _ in range(repeat)), None, kind="seconds", bar=bar)


def _beside(
    name: str, ours: list[str], plain: list[str] | None, home: Path, repeat: int, said: bool = False
) -> Row:
    if plain is None:
        return _alone(f"{name}: not run", partial(run, ours, home, said=said), repeat)
    mine, theirs = side_by_side(
        partial(run, ours, home, said=said), partial(run, plain, home, said=said), repeat
    )
    return Row(name, mine, theirs)


def _ccusage() -> list[str] | None:
    found = shutil.which("ccusage")
    return [found, "daily", "--offline", "--json"] if found else None


def _duck(place: Path) -> list[str] | None:
    if importlib.util.find_spec("duckdb") is None:
        return None
    return [sys.executable, "-c", DUCK, str(place)]
