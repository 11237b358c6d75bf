"""Processes beyond the case table: other threads, failing views and files, many at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.guard import launch, process
from agent_kernel.guard.process import Child, child_env, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def in_thread(work: Coroutine[Any, Any, Any]) -> Any:
    """What `work` returns when a loop runs it in a thread that is not the main one."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(work)))
    thread.start()
    thread.join(30)
    return results[0]


def shell(text: str, cwd: Path, **options: Any) -> Coroutine[Any, Any, process.Finished]:
    options.setdefault("timeout", 20)
    return run(["bash", "-c", text], cwd=cwd, env=child_env(), **options)


def test_a_loop_in_another_thread_runs_and_stops_commands(tmp_path: Path) -> None:
    assert in_thread(shell("echo hi", tmp_path)).head == b"hi\n"
    assert in_thread(shell("sleep 9", tmp_path, timeout=0.2)).timed_out


def threads() -> list[str]:
    """The names of the threads that serve a command."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("agent_kernel child")]


async def test_thirty_commands_at_once_keep_their_output_apart(tmp_path: Path) -> None:
    done = await asyncio.gather(*(shell(f"echo {n}; sleep 0.1", tmp_path) for n in range(30)))
    assert [one.head for one in done] == [b"%d\n" % n for n in range(30)]
    until = time.monotonic() + 2  # a thread tells its result just before it ends
    while threads() and time.monotonic() < until:
        await asyncio.sleep(0.01)
    assert not threads()


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    await shell("true", tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        await shell("true", tmp_path)
        with pytest.raises(FileNotFoundError):
            await run(["no-such-program"], cwd=tmp_path, timeout=1, env=child_env())
        with pytest.raises(FileNotFoundError):
            await shell("true", tmp_path / "missing")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'no-such-program'"):
        await run(["no-such-program"], cwd=tmp_path, timeout=1, env=child_env())


async def test_words_no_system_takes_are_refused_at_once(tmp_path: Path) -> None:
    for word in ("a\0b", "\ud800"):
        with pytest.raises(ValueError):
            await run(["echo", word], cwd=tmp_path, timeout=1, env=child_env())


async def test_a_program_that_cannot_run_says_why(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "odd").chmod(0o755)
    done = await run([str(tmp_path / "odd")], cwd=tmp_path, timeout=5, env=child_env())
    assert done.exit_code == 127
    assert "Exec format" in done.trouble


async def test_a_second_cancel_still_leaves_nothing_alive(tmp_path: Path) -> None:
    call = asyncio.ensure_future(shell("trap '' TERM; sleep 86501; sleep 86501", tmp_path))
    await asyncio.sleep(0.2)
    call.cancel()
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    until = time.monotonic() + 1
    while sleeping("86501") and time.monotonic() < until:
        await asyncio.sleep(0.02)
    assert not sleeping("86501")


def sleeping(seconds: str) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in listed.stdout.splitlines()]
    return [line for line in lines if line.endswith(f"sleep {seconds}") and line[0] != "Z"]


async def test_term_comes_first_and_kill_after_the_grace(tmp_path: Path) -> None:
    text = "trap 'echo cleaned up; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    child = Child.start(["bash", "-c", text], cwd=tmp_path, env=child_env())
    while b"ready" not in child.read()[0]:
        await asyncio.sleep(0.01)
    done = await child.stop(grace=5)
    assert (done.exit_code, done.stopped) == (7, True)
    assert done.head.endswith(b"cleaned up\n")
    assert done.seconds < 4


async def test_a_child_outlives_the_call_and_is_read_from_its_file(tmp_path: Path) -> None:
    spill = tmp_path / "tasks" / "t.out"
    text = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 3"
    child = Child.start(["bash", "-c", text], cwd=tmp_path, env=child_env(), spill=spill)
    while not child.read()[0]:
        assert await child.wait(0.05) is None
    assert child.status() == "running"
    assert process.alive(child.pid, child.started)
    first, offset = child.read(0)
    assert first == b"one\n"
    (tmp_path / "go").touch()
    done = await child.wait(5)
    assert done is not None
    assert child.status() == "failed"
    assert child.read(offset) == (b"two\n", 8)
    assert spill.read_bytes() == b"one\ntwo\n"


async def test_a_kept_task_writes_its_own_file_within_the_cap(tmp_path: Path) -> None:
    spill = tmp_path / "kept.out"
    child = Child.start(
        ["bash", "-c", "echo first; (setsid sleep 86502 &); yes | head -c 100M; echo last"],
        cwd=tmp_path,
        env=child_env(),
        spill=spill,
        keep=True,
    )
    done = await child.wait(60)
    assert done is not None
    assert done.head.startswith(b"first\ny\n")
    assert spill.stat().st_size == 64 << 20
    assert done.strays == 1
    assert not sleeping("86502")


async def test_a_full_disk_is_said_and_does_not_stop_the_command(tmp_path: Path) -> None:
    full = Path("/dev/full")
    done = await shell("yes | head -c 1M; echo end", tmp_path, spill=full)
    assert done.total == (1 << 20) + 4
    assert done.tail.endswith(b"end\n")
    assert "No space left" in done.trouble


async def test_a_failing_view_is_dropped_and_named(tmp_path: Path) -> None:
    def view(_chunk: bytes) -> None:
        raise RuntimeError("broken view")

    child = Child.start(
        ["bash", "-c", "echo a; sleep 0.1; echo b"], cwd=tmp_path, env=child_env(), on_output=view
    )
    done = await child.wait(5)
    assert done is not None
    assert done.head == b"a\nb\n"
    assert "broken view" in done.trouble


async def test_live_output_comes_in_order_in_the_thread_of_the_loop(tmp_path: Path) -> None:
    seen: list[tuple[bytes, int]] = []
    here = threading.get_ident()
    await shell(
        "for i in 1 2 3; do echo $i; sleep 0.05; done",
        tmp_path,
        on_output=lambda chunk: seen.append((chunk, threading.get_ident())),
    )
    assert b"".join(chunk for chunk, _ in seen) == b"1\n2\n3\n"
    assert {thread for _, thread in seen} == {here}


async def test_a_killed_launcher_takes_its_command_along(tmp_path: Path) -> None:
    child = Child.start(
        ["bash", "-c", "setsid -f sleep 86503; sleep 86503"], cwd=tmp_path, env=child_env()
    )
    while len(sleeping("86503")) < 2:
        await asyncio.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    done = await child.wait(5)
    assert done is not None
    assert done.exit_code == -signal.SIGKILL
    assert not sleeping("86503")


async def test_a_detached_daemon_does_not_escape_a_stop(tmp_path: Path) -> None:
    text = "(setsid env -i sleep 86504 &) ; (trap '' TERM; setsid sleep 86504 &); sleep 86504"
    child = Child.start(["bash", "-c", text], cwd=tmp_path, env=child_env())
    while len(sleeping("86504")) < 3:
        await asyncio.sleep(0.02)
    await child.stop(0.1)
    assert not sleeping("86504")


def test_stop_all_ends_what_dies_with_us(tmp_path: Path) -> None:
    children = [Child.start(["sleep", "86505"], cwd=tmp_path, env=child_env()) for _ in range(3)]
    process.stop_all()
    assert {child.status() for child in children} == {"stopped"}


def test_a_kept_task_needs_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="spill"):
        Child.start(["true"], cwd=tmp_path, env=child_env(), keep=True)


def test_names_given_back_and_extras_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "less")
    monkeypatch.setenv("MY_TOKEN", "x")
    assert child_env()["PAGER"] == "cat"
    assert child_env(pass_env=["PAGER", "MY_TOKEN"])["PAGER"] == "less"
    assert child_env({"GIT_CONFIG_COUNT": "0"})["GIT_CONFIG_COUNT"] == "0"


def test_the_process_tree_is_read_from_proc() -> None:
    with subprocess.Popen(["sleep", "5"]) as child:
        assert child.pid in launch.descendants(os.getpid())
        assert launch.start_time(child.pid) == launch.descendants(os.getpid())[child.pid]
        child.kill()
    assert launch.start_time(child.pid) is None


@pytest.mark.parametrize(
    "code, words",
    [
        (0, "exit code 0"),
        (-11, "SIGSEGV"),
        (137, "SIGKILL"),
        (300, "exit code 300"),
        (None, "not known"),
    ],
)
def test_an_exit_code_is_put_into_words(code: int | None, words: str) -> None:
    assert words in process.explain(code)


async def test_no_secret_of_the_environment_is_kept_of_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "synthetic-" + "value-of-no-use"
    monkeypatch.setenv("AK_TEST_TOKEN", value)
    (tmp_path / "secret").write_text(value)
    text = "for n in 1 2 3; do cat secret; sleep 0.15; printf ' %70000s\\n' x; done; cat secret"
    child = Child.start(["bash", "-c", text], cwd=tmp_path, env=child_env(), spill=tmp_path / "out")
    await asyncio.sleep(0.3)
    assert value.encode() not in child.read(0, 1 << 20)[0]
    done = await child.wait()
    assert done is not None
    for kept in (done.head, done.tail, (tmp_path / "out").read_bytes()):
        assert value.encode() not in kept
    assert (tmp_path / "out").read_bytes().count(b"[redacted:env:AK_TEST_TOKEN]") == 4
    assert done.total == (tmp_path / "out").stat().st_size
