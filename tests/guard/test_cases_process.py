"""Process faults: one test a row of process_faults.csv, with real children."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from agent_kernel.core.session import Session
from agent_kernel.guard import launch, process
from agent_kernel.guard.process import Child, Finished, Limits, child_env
from tests.conftest import SHARED
from tests.guard.places import CASES, exists, git, rows

ROWS = rows("process_faults")
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Rows that a kernel, a log or a tool acts out, by the tests that do.
ELSEWHERE = {
    "process_faults-020": "tests/kernel/test_steps.py::"
    "test_the_same_cell_after_a_crash_goes_on_with_its_open_turn",
    "process_faults-021": "tests/kernel/test_interrupt.py::"
    "test_a_stalled_stream_is_left_at_once_and_its_text_kept",
    "process_faults-024": "tests/kernel/test_faults.py::"
    "test_a_turn_goes_on_when_the_front_end_goes_away",
    "process_faults-025": "tests/tools/test_pipeline.py::"
    "test_a_fault_at_any_stage_is_one_error_result_and_the_loop_goes_on",
    "process_faults-026": "tests/tools/test_pipeline.py::"
    "test_a_fault_at_any_stage_is_one_error_result_and_the_loop_goes_on",
    "process_faults-027": "tests/kernel/test_faults.py::"
    "test_what_the_agents_code_leaves_behind_is_put_back_or_said",
    "process_faults-028": "tests/kernel/test_faults.py::"
    "test_what_the_agents_code_leaves_behind_is_put_back_or_said",
    "process_faults-029": "tests/kernel/test_interrupt.py::"
    "test_code_of_the_agent_leaves_the_process_as_it_was",
    "process_faults-030": "tests/core/test_tasks.py::test_an_agent_may_run_ten_tasks_and_no_more",
}
Act = Callable[[Path], Awaitable[None]]
ACTS: dict[str, Act] = {}


def act(number: int) -> Callable[[Act], Act]:
    """Names the row that a function acts out."""

    def keep(function: Act) -> Act:
        ACTS[f"process_faults-{number:03}"] = function
        return function

    return keep


async def bash(
    text: str,
    cwd: Path,
    *,
    timeout: float = 30,
    spill: Path | None = None,
    limits: Limits | None = None,
) -> Finished:
    """One command under the process rules."""
    return await process.run(
        ["bash", "--noprofile", "--norc", "-c", text],
        cwd=cwd,
        timeout=timeout,
        env=child_env(),
        spill=spill,
        limits=limits or Limits(),
    )


def alive(marker: str) -> list[int]:
    """Processes whose command line is exactly `sleep MARKER`."""
    found = []
    for pid in launch.pids():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[:2] == [b"sleep", marker.encode()] and launch.start_time(pid) is not None:
                found.append(pid)
    return found


async def gone(marker: str, seconds: float = 3) -> bool:
    """Whether no such process lives after at most `seconds`."""
    until = time.monotonic() + seconds
    while alive(marker) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    return not alive(marker)


@contextlib.contextmanager
def growth() -> Iterator[Callable[[], int]]:
    """Measures by how many bytes the peak of our resident memory grows."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    yield lambda: memory("VmHWM") - before


def memory(name: str) -> int:
    """A line of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


@pytest.mark.parametrize("row", [row["id"] for row in ROWS if row["id"] not in ELSEWHERE])
async def test_process_fault_is_survived(row: str, tmp_path: Path) -> None:
    await ACTS[row](tmp_path)


def test_every_row_is_acted_out_or_has_its_place() -> None:
    assert set(ACTS) | set(ELSEWHERE) == {row["id"] for row in ROWS}
    assert not set(ACTS) & set(ELSEWHERE)
    assert [test for test in ELSEWHERE.values() if not exists(test)] == []


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="no case tables beside this repository")
def test_the_table_equals_its_source() -> None:
    name = "process_faults.csv"
    assert (CASES / name).read_bytes() == (SHARED / "cases" / name).read_bytes()


@act(1)
async def hang(place: Path) -> None:
    done = await bash("sleep 86401 & sleep inf", place, timeout=0.4)
    assert done.timed_out
    assert "timed out" in done.ending()
    assert done.seconds < 3
    assert await gone("86401", 0)


@act(2)
async def pipe_kept_open(place: Path) -> None:
    began = time.monotonic()
    done = await bash("sleep 86402 & echo hi", place)
    assert time.monotonic() - began < 2
    assert (done.head, done.exit_code, done.strays) == (b"hi\n", 0, 1)
    assert await gone("86402", 0)


@act(3)
async def fork_bomb(place: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="bomb"))
    try:
        told = subprocess.run(
            [sys.executable, Path(__file__).with_name("unprivileged.py"), folder],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    finally:
        shutil.rmtree(folder)
    result = json.loads(told.stdout)
    assert result["timed_out"]
    assert result["limited"]
    assert result["seconds"] < 8
    if os.getuid() == 0:
        assert result["left"] == 0


@act(4)
async def gigabyte_to_stdout(place: Path) -> None:
    spill = place / "tasks/x.out"
    with growth() as grown:
        done = await bash("yes | head -c 1G", place, spill=spill, timeout=100)
        assert grown() < 50 << 20
    assert done.total == 1 << 30
    assert (len(done.head), len(done.tail)) == (128 << 10, 128 << 10)
    assert spill.stat().st_size == 64 << 20
    assert spill.stat().st_mode & 0o777 == 0o600


@act(5)
async def gigabyte_to_stderr(place: Path) -> None:
    with growth() as grown:
        done = await bash("yes | head -c 1G >&2; echo end", place, timeout=100)
        assert grown() < 50 << 20
    assert done.total == (1 << 30) + 4
    assert done.tail.endswith(b"y\nend\n")


@act(6)
async def endless_line(place: Path) -> None:
    with growth() as grown:
        done = await bash("tr '\\0' x </dev/zero", place, timeout=1, spill=place / "o")
        assert grown() < 50 << 20
    assert done.timed_out
    assert set(done.head) == set(done.tail) == {ord("x")}
    assert (place / "o").stat().st_size <= 64 << 20


@act(7)
async def invalid_utf8(place: Path) -> None:
    done = await bash("printf 'a\\377b'", place)
    assert done.head == b"a\xffb"
    assert done.text() == ("a\ufffdb", False)


@act(8)
async def single_bytes(place: Path) -> None:
    before = time.process_time()
    done = await bash("dd if=/dev/zero bs=1 count=1048576 2>/dev/null", place)
    assert done.total == 1 << 20
    assert time.process_time() - before < 1  # the figure wanted is 0.1 s a MB


@act(9)
async def waits_on_stdin(place: Path) -> None:
    done = await bash("cat; read x || echo nothing to read", place)
    assert (done.head, done.exit_code) == (b"nothing to read\n", 0)
    assert done.seconds < 2


@act(10)
async def opens_the_terminal(place: Path) -> None:
    done = await bash(
        "cat < /dev/tty; printf 'protocol=https\\nhost=h\\n' | git credential fill", place
    )
    text, _ = done.text()
    assert done.seconds < 5
    assert "/dev/tty" in text
    assert "terminal prompts disabled" in text


@act(11)
async def pager(place: Path) -> None:
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "a commit")
    done = await bash("git -c core.pager='touch paged; cat' --paginate log; echo $PAGER", place)
    assert done.head.endswith(b"cat\n")
    assert b"a commit" in done.head
    assert not (place / "paged").exists()


@act(12)
async def exit_codes(place: Path) -> None:
    assert (await bash("echo error: failed", place)).exit_code == 0
    assert (await bash("echo success; exit 1", place)).exit_code == 1
    killed = await bash("kill -9 $$", place)
    assert killed.exit_code == -signal.SIGKILL
    assert "SIGKILL" in killed.ending()


@act(13)
async def secrets_in_the_environment(place: Path) -> None:
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "my_token", "DB_PASSWORD", "GIT_DIR")
    names += ("LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS", "BASH_FUNC_x%%", "AWS_SECRET_ACCESS_KEY")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setenv(name, "synthetic-not-real")
        patch.setenv("PATH", f".::bin:{os.environ['PATH']}:")
        shown = (await bash("env", place)).text()[0]
        assert "synthetic" not in shown
        assert "DB_PASSWORD" in child_env(pass_env=["DB_PASSWORD"])
    path = next(line for line in shown.splitlines() if line.startswith("PATH="))
    assert all(part.startswith("/") for part in path[5:].split(":"))
    assert "AGENT_KERNEL_TASK=" in shown


@act(14)
async def disk_bomb(place: Path) -> None:
    limits = Limits(file_bytes=1 << 20)
    done = await bash("exec dd if=/dev/zero of=big bs=64k count=1000", place, limits=limits)
    assert (place / "big").stat().st_size == 1 << 20
    assert "RLIMIT_FSIZE" in done.ending()


@act(15)
async def zombies(place: Path) -> None:
    await bash("for i in 1 2 3 4 5 6 7 8; do true & done; (setsid sleep 0 &); sleep 0.2", place)
    ours = {os.getpid()}
    states = [launch.stat_fields(pid) for pid in launch.pids()]
    assert not [one for one in states if one and one[0] == "Z" and int(one[1]) in ours]


@act(16)
async def descriptors(place: Path) -> None:
    with (place / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        done = await bash("ls /proc/self/fd", place)
    assert done.head.split() == [b"0", b"1", b"2", b"3"]  # the last is that of ls


@act(17)
async def core_dumps(place: Path) -> None:
    assert (await bash("ulimit -c; ulimit -Hc", place)).head == b"0\n0\n"
    await bash("kill -SEGV $$", place)
    assert not list(place.glob("core*"))


KERNEL = """
import asyncio, sys
from pathlib import Path
from agent_kernel.guard import process
child = process.Child.start(
    ["bash", "-c", "setsid -f sleep {0}; sleep {0}"],
    cwd=sys.argv[1], env=process.child_env(), spill=Path(sys.argv[1]) / "out", keep={1},
)
print(child.pid, child.started, child.task, flush=True)
asyncio.run(asyncio.sleep(60))
"""


@contextlib.contextmanager
def kernel(place: Path, seconds: str, keep: bool) -> Iterator[tuple[int, int, str]]:
    """A process that starts a background task and is then killed; the task's pid, start and id."""
    code = textwrap.dedent(KERNEL).format(seconds, keep)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(place)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:
        assert running.stdout is not None
        pid, started, task = running.stdout.readline().split()
        until = time.monotonic() + 5
        while len(alive(seconds)) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        running.kill()
    yield int(pid), int(started), task


@act(18)
async def kernel_killed(place: Path) -> None:
    with kernel(place, "86418", False):
        assert await gone("86418")
    with kernel(place, "86419", True) as (pid, started, task):
        assert len(alive("86419")) == 2
        assert process.alive(pid, started)
        assert not process.alive(pid, started + 1)
        assert process.stop_orphan(pid, started, task, 0.2)
    assert await gone("86419", 0)


@act(19)
async def pid_reuse(place: Path) -> None:
    child = Child.start(["sleep", "86420"], cwd=place, env=child_env())
    assert child.started is not None
    assert not launch.send(child.pid, child.started + 1, signal.SIGKILL)
    assert not launch.send(child.pid, None, signal.SIGKILL)
    assert child.status() == "running"
    assert (await child.stop(0)).stopped
    assert not launch.send(child.pid, child.started, signal.SIGKILL)


@act(22)
async def interrupted(place: Path) -> None:
    call = asyncio.ensure_future(bash("trap '' TERM; sleep 86422; sleep 86422", place))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - began < 1
    assert await gone("86422", 0)


APPENDS = """
import sys, threading
from pathlib import Path
from agent_kernel.core.events import TurnStart, UserMessage
from agent_kernel.core.session import Session
session = Session.open(Path(sys.argv[1]))
print("ready", flush=True)
number = 0
while number < 100_000:
    try:
        session.append(TurnStart(text=str(number)), UserMessage(content="x" * 3000))
        session.close_turn("completed")
        number += 1
    except KeyboardInterrupt:
        print(number, flush=True)
"""


@act(23)
async def signals_while_the_log_is_written(place: Path) -> None:
    path = place / "a.agent.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", APPENDS, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        for number in range(200):
            time.sleep(0.005 + number % 7 / 500)
            running.send_signal(signal.SIGINT)
        time.sleep(0.1)
        running.kill()
        caught = len(running.stdout.read().split())
    assert caught > 3, "the signals did not land in the loop"
    lines = path.read_bytes().split(b"\n")
    whole = [json.loads(line) for line in lines[:-1]]
    assert [line["seq"] for line in whole] == list(range(len(whole)))
    session = Session.open(path)
    assert not [one for one in session.findings if one["code"] not in ("torn", "open_turn")]
    assert len(session.events) >= len(whole)
    session.close()


def test_limits_are_the_documented_ones() -> None:
    assert (Limits().file_bytes, Limits().processes) == (4 << 30, 512)
