"""Background commands: told at once, read by offset, stopped whole, their end told once."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.events import TaskFinished
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks, lose_tasks
from agent_kernel.core.tool import Answer, ToolError
from agent_kernel.guard import launch
from agent_kernel.tools.bash import BASH
from agent_kernel.tools.read import READ
from agent_kernel.tools.task_output import TASK_OUTPUT
from agent_kernel.tools.task_stop import TASK_STOP
from tests.tools.conftest import Bench


@pytest.fixture
def tasked(filed: Bench) -> Bench:
    filed.services["tasks"] = Tasks(filed.session)
    return filed


async def launch_task(bench: Bench, command: str) -> str:
    said = json.loads(await bench.text(BASH, command=command, background=True))
    assert said["status"] == "async_launched"
    return str(said["task_id"])


async def ended(bench: Bench, ident: str) -> TaskFinished:
    await bench.services["tasks"].wait(ident, 30)
    return next(e for e in bench.session.events if isinstance(e, TaskFinished) and e.id == ident)


@pytest.mark.parametrize("kind", ["filed", "bench"])
async def test_a_task_is_told_at_once_and_its_end_once(
    kind: str, request: pytest.FixtureRequest
) -> None:
    bench: Bench = request.getfixturevalue(kind)
    bench.services["tasks"] = Tasks(bench.session)
    began = time.monotonic()
    ident = await launch_task(bench, "echo one; sleep 0.5; echo two; exit 3")
    assert time.monotonic() - began < 10
    end = await ended(bench, ident)
    assert end.status == "failed"
    assert end.exit_code == 3
    assert end.result == "one\ntwo\n"
    assert end.summary == 'Command "echo one; sleep 0.5; echo two; exit 3" failed: exit code 3'
    text = await bench.text(TASK_OUTPUT, task=ident)
    assert text == f"one\ntwo\n[{end.summary}; next since=8; last output 0 s ago]".replace(
        "; last output 0 s ago", text.rsplit("next since=8", 1)[1].rstrip("]")
    )


async def test_the_output_file_is_where_it_was_said(tasked: Bench) -> None:
    said = json.loads(await tasked.text(BASH, command="seq 5", background=True))
    await ended(tasked, said["task_id"])
    assert await tasked.text(READ, path=said["output_file"]) == "1\t1\n2\t2\n3\t3\n4\t4\n5\t5"


async def test_output_is_read_from_an_offset_while_it_runs(tasked: Bench) -> None:
    ident = await launch_task(tasked, "echo early; sleep 30; echo late")
    for _ in range(100):
        answer = await tasked.call(TASK_OUTPUT, task=ident)
        if answer.meta["next"]:
            break
        await asyncio.sleep(0.05)
    assert answer.content[0].text.startswith("early\n[running; next since=6; last output")
    again = await tasked.text(TASK_OUTPUT, task=ident, since=6)
    assert again.startswith("[running; next since=6")
    await tasked.call(TASK_STOP, task=ident)


async def test_waiting_ends_with_the_task(tasked: Bench) -> None:
    ident = await launch_task(tasked, "sleep 0.3; echo done")
    began = time.monotonic()
    text = await tasked.text(TASK_OUTPUT, task=ident, wait=60)
    assert time.monotonic() - began < 15
    assert text.startswith("done\n[Command")


async def test_a_stop_leaves_no_process(tasked: Bench) -> None:
    ident = await launch_task(tasked, "sh -c 'sleep 60 & echo $! > pid; wait'")
    pid_file = tasked.workspace / "pid"
    while not pid_file.exists() or not pid_file.read_text():
        await asyncio.sleep(0.02)
    text = await tasked.text(TASK_STOP, task=ident)
    assert "is stopped" in text
    assert launch.start_time(int(pid_file.read_text())) is None
    assert (await ended(tasked, ident)).status == "stopped"
    assert "had ended already" in await tasked.text(TASK_STOP, task=ident)


async def test_a_call_past_its_time_goes_on_as_a_task(tasked: Bench) -> None:
    context = replace(tasked.context(), headless=False)
    value = BASH.parse({"command": "cd /; echo begun; sleep 1.5; echo end", "timeout": 1})
    answer = Answer.of(await BASH.run(value, context))
    text = answer.content[0].text
    assert text.startswith(
        "begun\n[still running after 1 s: it goes on in the background as task b"
    )
    assert not answer.is_error
    end = await ended(tasked, answer.meta["task"])
    assert end.status == "completed"
    assert end.result.rstrip("\n") == "begun\nend"
    task = tasked.services["tasks"].get(answer.meta["task"])
    assert "cwd-" not in task.read(0)[0].decode()


async def test_without_a_person_a_call_past_its_time_is_stopped(tasked: Bench) -> None:
    answer = await tasked.call(BASH, command="sleep 30", timeout=1)
    assert "timed out" in answer.content[0].text
    assert not tasked.services["tasks"].all


async def test_a_short_call_leaves_no_file(tasked: Bench) -> None:
    context = replace(tasked.context(), headless=False)
    await BASH.run(BASH.parse({"command": "echo hi"}), context)
    folder = tasked.session.folder
    assert folder is not None
    assert not list(folder.glob("tasks/*"))


async def test_eleven_tasks_are_one_too_many(tasked: Bench) -> None:
    idents = [await launch_task(tasked, "sleep 60") for _ in range(10)]
    assert "10 tasks of this agent are running" in await tasked.error(
        BASH, command="sleep 60", background=True
    )
    await tasked.services["tasks"].stop_all()
    ends = [await ended(tasked, each) for each in idents]
    assert {each.status for each in ends} == {"stopped"}


async def test_without_tasks_it_is_said(bench: Bench) -> None:
    said = await bench.error(BASH, command="sleep 1", background=True)
    assert "run it without background" in said


async def test_a_lost_task_says_so_after_a_restart(tasked: Bench) -> None:
    ident = await launch_task(tasked, "sleep 60")
    path = tasked.session.log.path
    assert path is not None
    await tasked.services["tasks"].stop_all()
    tasked.session.close()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"task/finished"' not in line))
    again = Bench(Session.open(path), tasked.workspace)
    again.services["tasks"] = Tasks(again.session)
    assert lose_tasks(again.session) == [ident]
    said = await again.error(TASK_OUTPUT, task=ident)
    assert "is lost" in said
    assert f"tasks/{ident}.out" in said
    again.session.close()


async def test_an_unknown_task_names_those_there_are(tasked: Bench) -> None:
    ident = await launch_task(tasked, "true")
    for tool, value in ((TASK_OUTPUT, {}), (TASK_STOP, {})):
        with pytest.raises(ToolError, match=ident):
            await tasked.call(tool, task="b0", **value)


async def test_a_character_is_not_parted_between_two_reads(tasked: Bench, tmp_path: Path) -> None:
    ident = await launch_task(tasked, "printf '%0.s世' $(seq 20000)")
    await ended(tasked, ident)
    text, since = "", 0
    while True:
        answer: Any = await tasked.call(TASK_OUTPUT, task=ident, since=since)
        if answer.meta["next"] == since:
            break
        since = answer.meta["next"]
        text += answer.content[0].text.rsplit("\n[", 1)[0]
    assert text == "世" * 20000
