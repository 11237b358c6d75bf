"""Durability: killed anywhere, nothing acknowledged is lost and nothing runs twice or early."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path

import pytest

from agent_kernel.core.calling import compact
from agent_kernel.core.events import Event, StepStart, TaskCreated, TurnStart, UserMessage
from agent_kernel.core.log import Log, LogError
from agent_kernel.core.model import Request
from agent_kernel.core.query import advance, query, start_turn
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Ended, Task, Tasks
from tests.core import load
from tests.core.crashes import TURNS, Patient, checked, crash, damaged, killed, part_of, prepared
from tests.core.disk import Disk
from tests.runs import Turn, agent

PLAIN = ("write", "sync")


def test_killed_before_any_operation_it_opens_and_goes_on(tmp_path: Path) -> None:
    with Patient():
        wrong, operations = crash(tmp_path / "whole", None, None, False)
        assert not wrong
        assert {"write", "sync", "truncate", "rename", "sync_folder"} <= set(operations)
        for at, name in enumerate(operations, 1):
            ways = (False, True) if name not in PLAIN or at < 20 else (at % 2 == 0,)
            for power in ways:
                wrong, _ = crash(tmp_path / f"{at}{power}", at, None, power)
                assert not wrong, f"killed before operation {at} ({name}), power lost: {power}"


def test_killed_inside_a_write_it_opens_and_goes_on(tmp_path: Path) -> None:
    chance = random.Random(4)
    with Patient():
        _, operations = crash(tmp_path / "whole", None, None, False)
        writes = [at for at, name in enumerate(operations, 1) if name == "write"]
        for at in chance.sample(writes, 20):
            wrong, _ = crash(tmp_path / str(at), at, part_of(at), False)
            assert not wrong, f"killed inside the write of operation {at}"


def test_a_disk_that_only_says_it_synced_is_found_out(tmp_path: Path) -> None:
    """The check has teeth: without what makes data durable it reports a loss."""

    class Liar(Disk):
        def sync(self, fd: int) -> None:
            self._before("sync")

    prepared(tmp_path / "live")
    disk = Liar(tmp_path / "live", kill_at=80)
    with Patient():
        acked, effects = killed(disk)
    assert "acknowledged" in checked(disk.survivors(tmp_path / "left"), acked, effects)


def test_the_last_record_damaged_at_any_byte_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    session.append(TurnStart(text="x"), UserMessage(content="hello \U0001f600"))
    session.close()
    data = path.read_bytes()
    start = data.rfind(b"\n", 0, -1) + 1
    for cut in range(start, len(data)):
        assert damaged(tmp_path / "d", data, cut, seed=cut) == []


def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    assert [wrong for wrong in load.killed(path, 20, seed=7) if wrong] == []
    session = Session.open(path)
    session.resume()
    session.close()
    assert all(json.loads(line) for line in path.read_bytes().split(b"\n")[:-1])


# ---------------------------------------------------------------- what gates an effect
class Gate(list[str]):
    """The effects of a run; each is compared with what the disk would have kept just then."""

    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__()
        self.disk, self.path = disk, path
        self.early: list[str] = []

    def kept(self) -> list[dict[str, object]]:
        """The events that would have survived."""
        data = self.disk.surviving(self.path) or b""
        return [json.loads(line) for line in data.split(b"\n")[:-1]]

    def append(self, call: str) -> None:
        super().append(call)
        kept = self.kept()
        if not any(e["type"] == "tool/start" and e["id"] == call for e in kept):
            self.early.append(f"{call} ran before its tool/start was on the disk")

    def asked(self, request: Request) -> None:
        """A provider is contacted: the turn, its message and the request's record are kept."""
        super().append("request")
        types = [e["type"] for e in self.kept()]
        wanted = ("turn/start", "user/message", "request/header", "request/context")
        if gone := [name for name in wanted if name not in types]:
            self.early.append(f"asked before {gone} were on the disk")
        if types and types[-1] != "request/context":
            self.early.append(f"asked when the last line on the disk was {types[-1]}")


def watched(disk: Disk, turns: list[Turn], path: Path, window: int = 200_000):  # type: ignore[no-untyped-def]
    gate = Gate(disk, path)
    made = agent(turns, gate, window=window)
    inner = made.provider.stream

    def stream(request: Request):  # type: ignore[no-untyped-def]
        gate.asked(request)
        return inner(request)

    made.provider.stream = stream  # type: ignore[method-assign]
    return gate, made


async def test_nothing_acts_before_its_line_is_on_the_disk(tmp_path: Path) -> None:
    disk, path = Disk(tmp_path), tmp_path / "a.agent.jsonl"
    gate, made = watched(disk, TURNS, path, window=4_000)
    session = Session.open(path, files=disk)
    with Patient():
        for _ in TURNS:
            await query(session, made, "go")
            assert gate.kept()[-1]["type"] == "turn/end"
        await compact(session, made, "manual")
    assert len(gate) > len(TURNS)
    assert gate.early == []
    session.close()


async def test_a_restart_syncs_what_the_former_process_only_wrote(tmp_path: Path) -> None:
    """A decision read from the page cache is on the disk before the call it allows runs."""
    disk, path = Disk(tmp_path), tmp_path / "a.agent.jsonl"
    gate, made = watched(disk, [[[("touch", 1)]]], path)
    with Patient():
        for _ in range(30):
            session = Session.open(path, files=disk)
            if not session.state().turn_open and len(session.log):
                break
            if not len(session.log):
                start_turn(session, made, "go")
            await advance(session, made)
            session.log.read_only = "ended"  # closing does not sync: as a killed process
            session.close()
    assert gate.early == []
    assert gate.count("t0s0c0") == 1


async def test_a_background_task_is_on_the_disk_before_it_works(tmp_path: Path) -> None:
    disk, path = Disk(tmp_path), tmp_path / "a.agent.jsonl"
    session = Session.open(path, files=disk)
    tasks = Tasks(session)
    seen: list[bool] = []

    async def work(task: Task) -> Ended:
        seen.append(task.id in (disk.surviving(path) or b"").decode())
        return Ended("completed", "done")

    with Patient():
        task = tasks.start("bash", "x", work, created=TaskCreated(id="", kind="bash", label="x"))
        await tasks.wait(task.id, 5)
    assert seen == [True]
    session.close()


async def test_a_slow_disk_stops_neither_the_loop_nor_a_write(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    session = Session.open(tmp_path / "a.agent.jsonl", files=disk)
    session.append(TurnStart(text="x"))
    disk.slow["sync"] = 1.0
    loop = asyncio.get_running_loop()
    commit = asyncio.ensure_future(session.log.commit())
    gaps, last = [], loop.time()
    while not commit.done():
        await asyncio.sleep(0.01)
        session.append(StepStart())
        now = loop.time()
        gaps.append(now - last)
        last = now
    assert len(gaps) > 10
    assert max(gaps) < 0.5
    disk.slow.clear()
    session.close()
    assert len(Session.open(tmp_path / "a.agent.jsonl").events) == len(session.events)


async def test_what_does_not_gate_is_on_the_disk_soon(tmp_path: Path) -> None:
    disk, path = Disk(tmp_path), tmp_path / "a.agent.jsonl"
    session = Session.open(path, files=disk)
    session.append(TurnStart(text="x"))
    for _ in range(100):
        if b"turn/start" in (disk.surviving(path) or b""):
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("no group commit within 2 s")
    session.close()


# ---------------------------------------------------------------- processes
def test_a_forked_child_may_not_append_and_gives_no_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    session.append(TurnStart(text="x"))
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            session.append(StepStart())
            said = "appended"
        except LogError as error:
            said = str(error)
        session.close()
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert "of which this is a fork" in os.read(read, 1_000).decode()
    os.close(read)
    os.close(write)
    with pytest.raises(LogError, match="another kernel holds it"):
        Session.open(path).append(StepStart())
    session.append(StepStart())
    session.close()
    assert len(Session.open(path).events) == 3


def test_the_lock_is_free_after_close_although_a_child_lives(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    session.append(TurnStart(text="x"))
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.read(read, 1)
        os._exit(0)
    try:
        session.close()
        again = Session.open(path)
        again.append(StepStart())
        again.close()
    finally:
        os.write(write, b"x")
        os.waitpid(pid, 0)
        os.close(read)
        os.close(write)


def test_what_another_process_wrote_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    first, second = Session.open(path), Session.open(path)
    first.append(TurnStart(text="x"))
    first.close()
    before = path.read_bytes()
    with pytest.raises(LogError, match="open it again"):
        second.append(TurnStart(text="y"))
    assert path.read_bytes() == before
    again = Session.open(path)
    again.append(StepStart())
    again.close()
    assert [e.seq for e in Session.open(path).events] == [0, 1, 2]


def test_a_closed_log_goes_on_where_it_stopped(tmp_path: Path) -> None:
    session = Session.open(tmp_path / "a.agent.jsonl")
    session.append(TurnStart(text="x"))
    session.close()
    session.append(StepStart())
    session.close()
    assert list(Session.open(tmp_path / "a.agent.jsonl").events) == list(session.events)


def test_a_log_cut_under_us_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    session.append(TurnStart(text="x"))
    path.write_bytes(b"")
    session.append(StepStart())
    session.close()
    assert session.log.path == tmp_path / "a.agent.2.jsonl"
    assert "was deleted, replaced or changed" in session.log.notices[0]
    assert list(Session.open(session.log.path).events) == list(session.events)


def test_the_folder_of_a_log_may_vanish(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    session = Session.open(folder / "a.agent.jsonl")
    session.append(TurnStart(text="x"))
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    session.append(StepStart())
    session.close()
    assert list(Session.open(folder / "a.agent.jsonl").events) == list(session.events)


def test_a_log_written_anew_keeps_its_blobs(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    session.append(TurnStart(text="x"))
    sha256 = session.blobs.put(b"large")
    path.write_bytes(b"")
    session.append(StepStart())
    session.close()
    assert session.log.path is not None
    assert Session.open(session.log.path).blobs.get(sha256) == b"large"


def test_an_append_from_a_listener_is_refused_and_said(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.agent.jsonl")

    def reply(_event: Event) -> None:
        log.append_all([StepStart()])

    log.listeners.append(reply)
    log.append_all([TurnStart(text="x")])
    log.close()
    assert len(log.events) == 1
    assert "a listener may not append" in log.notices[0]
