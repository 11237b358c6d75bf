"""Bash: real commands; what carries on, what is kept, and what never leaks."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from agent_kernel.core.session import Session
from agent_kernel.guard import launch
from agent_kernel.guard.sandbox import choose
from agent_kernel.tools.bash import BASH, cwd_of
from agent_kernel.tools.read import READ
from tests.tools.conftest import Bench


async def test_output_and_exit_code_always(bench: Bench) -> None:
    answer = await bench.call(BASH, command="echo out; echo err >&2")
    assert answer.content[0].text == "out\nerr\n[exit code 0]"
    assert not answer.is_error
    answer = await bench.call(BASH, command="printf 'no newline'; exit 3")
    assert answer.content[0].text == "no newline\n[exit code 3]"
    assert answer.is_error
    assert answer.meta["exit_code"] == 3
    assert await bench.text(BASH, command="true") == "[exit code 0]"


async def test_meta_says_what_ran_where_and_how_long(bench: Bench) -> None:
    meta = (await bench.call(BASH, command="echo hi")).meta
    assert meta["command"] == "echo hi"
    assert meta["cwd"] == "."
    assert meta["original_bytes"] == 3
    assert meta["truncated"] is False
    assert meta["taint"] == "repo"
    assert meta["sandbox"] == "none"
    assert 0 < meta["seconds"] < 10


@pytest.mark.parametrize(
    "command,where",
    [
        ("cd sub", "sub"),
        ("cd sub && cd deep; false", "sub/deep"),
        ("(cd sub)", "."),
        ("cd sub; exit 4", "sub"),
        ("cd sub; echo hi > /dev/null", "sub"),
        ("exec > log.txt; cd sub; echo x", "sub"),
        ("cd sub; exec true", "."),
        ("cd sub; cd /", "/"),
        ("set -eu; cd sub; false; cd deep", "sub"),
        ("cd sub; trap 'echo bye' EXIT", "."),
    ],
)
async def test_the_working_directory_carries_on(bench: Bench, command: str, where: str) -> None:
    (bench.workspace / "sub/deep").mkdir(parents=True)
    answer = await bench.call(BASH, command=command)
    assert answer.meta["cwd"] == where
    assert "cwd-" not in answer.content[0].text
    shown = (await bench.text(BASH, command="pwd")).split("\n")[0]
    assert shown == str((bench.workspace / where).resolve())
    if (log := bench.workspace / "log.txt").exists():
        assert log.read_text() == "x\n"


async def test_the_working_directory_is_read_back_from_the_log_after_a_restart(
    filed: Bench,
) -> None:
    (filed.workspace / "sub").mkdir()
    text = await filed.text(BASH, command="cd sub")
    assert text == "[exit code 0; now in sub]"
    path = filed.session.log.path
    assert path is not None
    filed.session.close()
    again = Bench(Session.open(path), filed.workspace)
    assert (await again.text(BASH, command="pwd")).startswith(
        str((filed.workspace / "sub").resolve())
    )
    assert cwd_of(again.session, "other agent", filed.workspace) == filed.workspace.resolve()
    again.session.close()


async def test_a_folder_that_is_gone_is_said_and_the_workspace_taken(bench: Bench) -> None:
    (bench.workspace / "sub").mkdir()
    await bench.text(BASH, command="cd sub")
    (bench.workspace / "sub").rmdir()
    text = await bench.text(BASH, command="pwd")
    assert "is gone: started in the workspace]\n" in text
    assert str(bench.workspace.resolve()) in text


async def test_variables_and_functions_do_not_carry_on(bench: Bench) -> None:
    await bench.text(BASH, command="export X=1; f() { echo f; }")
    text = await bench.text(BASH, command="echo [$X]; type f")
    assert text.startswith("[]\n")
    assert text.endswith("bash: line 1: type: f: not found\n[exit code 1]")


async def test_a_background_child_does_not_hold_the_call(bench: Bench) -> None:
    began = time.monotonic()
    text = await bench.text(BASH, command="sleep 40 & echo hi")
    assert time.monotonic() - began < 10
    assert text.startswith("hi\n[exit code 0; 1 background processes it left were stopped]")


async def test_a_timeout_stops_the_whole_tree_and_says_so(bench: Bench) -> None:
    command = "echo begun; sh -c 'sleep 60 & echo $! > pid; wait'"
    answer = await bench.call(BASH, command=command, timeout=1)
    assert answer.content[0].text.startswith("begun\n[timed out after")
    assert answer.is_error
    assert answer.meta["error_kind"] == "timeout"
    assert launch.start_time(int((bench.workspace / "pid").read_text())) is None


async def test_an_interrupt_stops_the_command_within_a_second(bench: Bench) -> None:
    running = asyncio.ensure_future(bench.call(BASH, command="echo $$ > pid; sleep 60"))
    while not (bench.workspace / "pid").exists() or not (bench.workspace / "pid").read_text():
        await asyncio.sleep(0.02)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 5
    assert launch.start_time(int((bench.workspace / "pid").read_text())) is None


async def test_secrets_of_the_environment_do_not_reach_the_command(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "MY_TOKEN", "DB_PASSWORD", "BASH_ENV"):
        monkeypatch.setenv(name, "not-a-real-" + "value")
    monkeypatch.setenv("HARMLESS", "yes")
    text = await bench.text(BASH, command="env")
    assert "not-a-real" not in text
    assert "HARMLESS=yes" in text
    assert "BASH_ENV" not in text
    assert "AGENT_KERNEL_MARK" not in text


async def test_stdin_is_closed_and_there_is_no_terminal(bench: Bench) -> None:
    assert await bench.text(BASH, command="cat; tty", timeout=10) == "not a tty\n[exit code 1]"


async def test_no_descriptor_leaks(bench: Bench) -> None:
    assert (await bench.text(BASH, command="ls /proc/self/fd")).split() == [
        *("0", "1", "2", "3"),
        *("[exit", "code", "0]"),
    ]


async def test_long_output_keeps_head_and_tail_and_the_rest_is_read_by_path(filed: Bench) -> None:
    answer = await filed.call(BASH, command="seq 1 20000")
    text = answer.content[0].text
    assert len(text) <= 30_400
    assert text.startswith("1\n2\n")
    assert "\n20000\n[exit code 0]" in text
    assert answer.meta["truncated"]
    assert answer.meta["original_bytes"] == 108_894
    path = text.split("read(path='")[1].split("'")[0]
    assert (await filed.text(READ, path=path, offset=10_000, limit=1)).startswith("10000\t10000")
    whole = "".join(f"{n}\n" for n in range(1, 20_001)).encode()
    assert filed.session.blobs.get(answer.meta["blob"]) == whole
    assert not list((filed.session.folder or Path()).glob("tasks/*"))


async def test_long_output_in_a_session_without_a_folder_is_read_by_its_hash(bench: Bench) -> None:
    text = await bench.text(BASH, command="seq 1 20000")
    path = text.split("read(path='")[1].split("'")[0]
    assert path.startswith("blob:")
    assert (await bench.text(READ, path=path, offset=10_000, limit=1)).startswith("10000\t10000")


async def test_long_output_of_a_failure_shows_the_error_lines_between(bench: Bench) -> None:
    command = "seq 1 20000; echo 'ValueError: the reason'; seq 20001 40000; echo Fatal tail; exit 1"
    text = await bench.text(BASH, command=command)
    assert "\n20001: ValueError: the reason\n" in text
    assert len(text) < 11_000
    assert text.endswith("Fatal tail\n[exit code 1]")


async def test_at_most_40_error_lines_and_each_short(bench: Bench) -> None:
    command = (
        "seq 1 5000; for i in $(seq 100); do printf 'error %0500d\\n' $i; done; seq 9999; exit 1"
    )
    text = await bench.text(BASH, command=command)
    lines = [line for line in text.split("\n") if ": error 0" in line]
    assert len(lines) == 40
    assert max(map(len, lines)) <= 310
    assert lines[0].startswith("5001: error 000")


async def test_a_flood_is_bounded_in_memory_and_stays_in_its_file(filed: Bench) -> None:
    answer = await filed.call(BASH, command="yes | head -c 200M; cd /; false", timeout=60)
    assert answer.meta["original_bytes"] > 200 << 20
    assert answer.meta["cwd"] == "/"
    text = answer.content[0].text
    assert len(text) < 11_000
    path = text.split("read(path='")[1].split("'")[0]
    assert Path(path).stat().st_size == 64 << 20
    assert (await filed.text(READ, path=path, offset=1000, limit=1)).startswith("1000\ty")


async def test_wide_characters_stay_within_the_bytes_of_an_answer(bench: Bench) -> None:
    command = "for i in $(seq 1000); do printf '%0.s世' $(seq 40); echo; done"
    answer = await bench.call(BASH, command=command)
    assert len(answer.content[0].text.encode()) <= 50_000


async def test_bytes_that_are_no_text_are_replaced(bench: Bench) -> None:
    assert await bench.text(BASH, command="printf '\\377ok'") == "�ok\n[exit code 0]"


async def test_output_is_shown_while_it_comes_without_the_mark(bench: Bench) -> None:
    await bench.text(BASH, command="echo one; sleep 0.3; echo two")
    assert bench.progress[0] == "one\n"
    assert "".join(bench.progress).replace("\n", "") == "onetwo"


async def test_extra_environment_of_the_roof_is_laid_over(bench: Bench) -> None:
    bench.services["bash_env"] = {"GIT_OPTIONAL_LOCKS": "0"}
    assert (await bench.text(BASH, command="echo $GIT_OPTIONAL_LOCKS")).startswith("0\n")


async def test_a_sandbox_confines_and_the_cwd_still_carries_on(bench: Bench) -> None:
    made = choose("auto", writable=[bench.workspace])
    if made.level == "none":
        pytest.skip("no sandbox works on this machine")
    bench.services["sandbox"] = lambda _ctx: made
    outside = bench.workspace.parent / "outside"
    (bench.workspace / "sub").mkdir()
    answer = await bench.call(BASH, command=f"cd sub; echo x > y; echo x > {outside}")
    assert not outside.exists()
    assert (bench.workspace / "sub/y").exists()
    assert answer.meta["sandbox"] == made.level
    assert answer.meta["cwd"] == "sub"


async def test_the_log_and_the_shell_agree_on_deleted_folders(bench: Bench) -> None:
    text = await bench.text(BASH, command="mkdir x; cd x; rmdir ../x")
    assert text.endswith("[exit code 0]")
    assert (await bench.text(BASH, command="pwd")).startswith(os.path.realpath(bench.workspace))
