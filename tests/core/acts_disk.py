"""Acts of crashes, of the filesystem and of other processes, by row of the durability table."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from agent_kernel.core.events import (
    StepStart,
    ToolCall,
    ToolResultEvent,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.log import LogError
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from agent_kernel.core.validate import validate_messages
from agent_kernel.kernel.notebook import fold_metadata
from agent_kernel.kernel.turns import record, recorded
from tests.core.acts import (
    NAME,
    act,
    as_nobody,
    findings,
    goes_on,
    holder,
    killed,
    made,
    opened,
    path_of,
    refused,
    said,
)
from tests.core.disk import Disk
from tests.guard.places import CASES
from tests.runs import agent


# ---------------------------------------------------------------- crash
@act(1)
async def killed_before_the_write(place: Path) -> None:
    killed(place, 1).left(place / "left")
    assert opened(place / "left").log.loaded.findings == []
    goes_on(place / "left", 2)


@act(2)
async def killed_between_write_and_sync(place: Path) -> None:
    killed(place, 2).left(place / "left")
    assert goes_on(place / "left", 3).events[2].type == "user/message"


async def _tail(place: Path, tail: bytes) -> None:
    made(place)
    before = path_of(place).read_bytes()
    path_of(place).write_bytes(before + tail)
    session = opened(place)
    assert findings(session) == {"torn_tail": f"{len(tail)} bytes after the last whole line"}
    assert session.resume().damaged_bytes == len(tail)  # type: ignore[union-attr]
    said(session, f"{len(tail)} damaged bytes were moved to '{NAME}.damaged'")
    session.close()
    assert (place / f"{NAME}.damaged").read_bytes() == tail + b"\n"
    assert path_of(place).read_bytes().startswith(before + b'{"type":"session/resume"')


@act(3)
async def zeros_at_the_end(place: Path) -> None:
    await _tail(place, bytes(4096))


@act(4)
async def garbage_at_the_end(place: Path) -> None:
    await _tail(place, os.urandom(4096).replace(b"\n", b" ") + b"\n")


@act(5)
async def length_without_data(place: Path) -> None:
    made(place)
    size = path_of(place).stat().st_size
    os.truncate(path_of(place), size + 65_536)
    session = opened(place)
    assert session.log.loaded.torn == 65_536
    goes_on(place, len(session.events))
    assert (place / f"{NAME}.damaged").stat().st_size == 65_537


@act(6)
async def killed_before_the_notebook_was_saved(place: Path) -> None:
    session = opened(place)
    await query(session, agent([[[("look", 1)]]]), "go", cell="c1")
    shown = record(session, recorded(session)[0].first)
    session.close()
    again = opened(place)  # the notebook on the disk knows nothing of the turn
    rebuilt = record(again, recorded(again)[0].first)
    assert rebuilt == shown
    output = {"output_type": "display_data", "data": {}, "metadata": {"agent_kernel": rebuilt}}
    nb = fold_metadata({"cells": [{"cell_type": "code", "outputs": [output]}], "metadata": {}})
    head = nb["metadata"]["agent_kernel"]["head"]
    assert head == {"seq": again.log.next_seq - 1, "h": again.log.head_hash.hex()}


@act(7)
async def sync_says_eio(place: Path) -> None:
    disk = Disk(place)
    session = opened(place, disk)
    session.append(TurnStart(text="x"))
    disk.fail["sync"] = [OSError(errno.EIO, "Input/output error")]
    with refused(NAME, "Input/output error", "goes on in a new file from memory"):
        await session.log.commit()
    await session.log.commit()
    assert session.log.path == place / "a.agent.2.jsonl"
    said(session, "the log file failed; it is written anew as 'a.agent.2.jsonl'")
    assert disk.surviving(place / "a.agent.2.jsonl") == (place / "a.agent.2.jsonl").read_bytes()
    session.close()
    assert list(Session.open(place / "a.agent.2.jsonl").events) == list(session.events)


@act(8)
async def sync_takes_seconds(place: Path) -> None:
    disk = Disk(place)
    session = opened(place, disk)
    session.append(TurnStart(text="x"))
    disk.slow["sync"], before = 0.5, disk.counts["sync"]
    commits = [asyncio.ensure_future(session.log.commit()) for _ in range(20)]
    ticks = 0
    while not all(each.done() for each in commits):
        session.append(StepStart())  # a write does not wait for the disk either
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 10
    assert disk.counts["sync"] - before <= 3  # twenty who wait share a sync
    disk.slow.clear()
    session.close()


@act(9)
async def entry_of_a_new_log(place: Path) -> None:
    disk = Disk(place)
    session = opened(place / "new", disk)
    session.append(TurnStart(text="x"))
    await session.log.commit()
    left = disk.survivors(place.parent / f"{place.name}-left")
    assert len(opened(left / "new").events) == 2
    session.close()


# ---------------------------------------------------------------- filesystem
FILLS = """
import sys
from pathlib import Path
from agent_kernel.core.session import Session
from agent_kernel.core.log import LogError
from agent_kernel.core.events import StepStart, TurnStart
path = Path(sys.argv[1]) / "a.agent.jsonl"
session = Session.open(path)
session.append(TurnStart(text="x" * 10_000))
(path.parent / "filler").write_bytes(bytes(30_000))
text = ""
while not text:
    try:
        session.append(TurnStart(text="x" * 5_000))
    except LogError as error:
        text = str(error)
data, count = path.read_bytes(), len(session.events)
assert data.endswith(b"}\\n") and data.count(b"\\n") == count, "a part of a record is left"
(path.parent / "filler").unlink()
session.append(StepStart())
session.close()
assert len(Session.open(path).events) == count + 1
print(text)
"""


@act(10)
async def disk_full(place: Path) -> None:
    disk = Disk(place)
    session = opened(place, disk)
    session.append(TurnStart(text="x"))
    before = path_of(place).read_bytes()
    disk.room = 7
    with refused("disk full", "bytes free", NAME, "free space, then go on"):
        session.append(StepStart())
    assert path_of(place).read_bytes() == before
    disk.room = None
    session.append(StepStart())
    session.close()
    if shutil.which("bwrap") is None:
        return
    command = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    command += ["--size", "65536", "--tmpfs", str(place), sys.executable, "-c", FILLS, str(place)]
    env = {**os.environ, "PYTHONPATH": str(CASES.parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode and "bwrap:" in done.stderr:
        return  # no user namespaces here: the acted disk above stands alone
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("disk full: ")
    assert done.stdout.count("\n") == 1


@act(11)
async def short_write(place: Path) -> None:
    class Sips(Disk):
        def write(self, fd: int, data: bytes) -> int:
            return super().write(fd, data[:5])

    session = opened(place, Sips(place))
    session.append(TurnStart(text="x"), UserMessage(content="hello"))
    session.close()
    goes_on(place, 3)


@act(12)
async def read_only_folder(place: Path) -> None:
    def in_memory() -> str:
        session = opened(place)
        session.append(TurnStart(text="x"), UserMessage(content="hi"))
        session.blobs.put(b"large")
        assert len(session.events) == 3
        assert session.log.path is None
        assert session.blobs.get(session.blobs.put(b"large")) == b"large"
        session.close()
        return session.log.notices[0]

    def by_setting() -> str:
        session = Session.open(path_of(place), required=True)
        try:
            session.append(TurnStart(text="x"))
        except LogError as error:
            return str(error)
        return "it was written"

    with tempfile.TemporaryDirectory() as name:  # where every user may come
        place = Path(name)
        warned = as_nobody(place, in_memory)
        assert "cannot be written (Permission denied): the session is in memory only" in warned
        assert "cannot be opened for writing: Permission denied" in as_nobody(place, by_setting)
        assert list(place.iterdir()) == []


@act(13)
async def log_is_a_folder(place: Path) -> None:
    path_of(place).mkdir()
    with refused("not a regular file", "give the log's own path"):
        opened(place)


@act(14)
async def log_is_a_fifo_or_a_device(place: Path) -> None:
    os.mkfifo(path_of(place))
    with refused("not a regular file"):
        opened(place)
    with refused("not a regular file"):
        Session.open("/dev/null")
    path_of(place).unlink()
    session = opened(place)
    os.mkfifo(path_of(place))  # after it was looked at, before the first append
    with refused(NAME):
        session.append(TurnStart(text="x"))


@act(15)
async def log_is_a_link(place: Path) -> None:
    made(place)
    path_of(place).rename(place / "real.jsonl")
    path_of(place).symlink_to("real.jsonl")
    with refused("not a regular file"):
        opened(place)
    path_of(place).unlink()
    session = opened(place)
    path_of(place).symlink_to("real.jsonl")
    before = (place / "real.jsonl").read_bytes()
    with refused(NAME):
        session.append(TurnStart(text="x"))
    assert (place / "real.jsonl").read_bytes() == before


@act(16)
async def log_deleted_or_replaced_while_open(place: Path) -> None:
    session = opened(place)
    session.append(TurnStart(text="x"))
    path_of(place).unlink()
    session.append(StepStart())
    said(session, f"was deleted, replaced or changed; it is written anew as '{NAME}'")
    (place / "other").write_bytes(b"someone else's\n")
    (place / "other").replace(path_of(place))
    session.append(StepStart())
    session.close()
    said(session, "written anew as 'a.agent.2.jsonl'")
    assert path_of(place).read_bytes() == b"someone else's\n"
    assert list(Session.open(place / "a.agent.2.jsonl").events) == list(session.events)


@act(17)
async def no_descriptor_left(place: Path) -> None:
    session = opened(place)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    (place / "b").mkdir()
    other = opened(place / "b")
    other.append(TurnStart(text="acknowledged"))
    await other.log.commit()
    used = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    held = [os.open("/dev/null", os.O_RDONLY)]
    while held[-1] < used:
        held.append(os.open("/dev/null", os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1, hard))
    try:
        with refused(NAME, "Too many open files"):
            session.append(TurnStart(text="x"))
        other.append(StepStart())  # an open log needs no other
        await other.log.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)
    session.append(TurnStart(text="x"))
    session.close()
    other.close()
    goes_on(place, 2)
    goes_on(place / "b", 3)


@act(18)
async def long_and_undecodable_names(place: Path) -> None:
    with refused("cannot be opened", "File name too long"):
        Session.open(place / f"{'x' * 300}.agent.jsonl")
    odd = place / os.fsdecode(b"caf\xe9.agent.jsonl")
    session = Session.open(odd, notebook=odd.name)
    session.append(TurnStart(text="x"))
    session.close()
    assert Session.open(odd).header.notebook == odd.name  # type: ignore[union-attr]


# ---------------------------------------------------------------- concurrency
@act(19)
async def lock_of_a_dead_process(place: Path) -> None:
    with holder(place) as process:
        process.kill()
        process.wait()
        began = time.monotonic()
        goes_on(place, 2)
        assert time.monotonic() - began < 1


@act(20)
async def holder_is_suspended(place: Path) -> None:
    with holder(place) as process:
        process.send_signal(signal.SIGSTOP)
        session, began = opened(place), time.monotonic()
        with refused("read-only", f"another kernel holds it (pid {process.pid})"):
            session.append(StepStart())
        assert 1.5 < time.monotonic() - began < 5
        with refused("read-only"):  # and does not wait again
            session.append(StepStart())
        assert time.monotonic() - began < 5
        assert len(session.events) == 2


@act(21)
async def another_descriptor_is_closed(place: Path) -> None:
    session = opened(place)
    session.append(TurnStart(text="x"))
    for path in (path_of(place), path_of(place).with_name(NAME + ".lock")):
        with path.open("rb"):
            pass
    with refused("read-only", "another kernel holds it"):
        opened(place).append(StepStart())
    session.close()


@act(22)
async def threads_append_at_once(place: Path) -> None:
    session = opened(place)
    barrier = threading.Barrier(64)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(5):
            session.append(StepStart(), agent=f"a{number}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(64)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    session.close()
    again = opened(place)
    assert [e.seq for e in again.events] == list(range(321))
    assert again.log.loaded.findings == []
    assert all(again.state(f"a{n}").step == 5 for n in range(64))


@act(23)
async def a_hundred_results_at_once(place: Path) -> None:
    session = opened(place)
    await query(session, agent([[[("look", 1)] * 100]]), "go")
    session.close()
    again = opened(place)
    calls = [e.id for e in again.events if isinstance(e, ToolCall)]
    results = [e.id for e in again.events if isinstance(e, ToolResultEvent)]
    assert len(calls) == 100
    assert results == calls  # in the model's order
    assert not validate_messages(again.surface().messages(), agent([]).profile, sendable=False)


@act(24)
async def restart_goes_on(place: Path) -> None:
    first = made(place)
    again = opened(place)
    again.append(TurnStart(text="next"))
    again.close()
    last = opened(place)
    assert last.id == first.id
    assert [e.seq for e in last.events] == list(range(len(first.events) + 1))
    assert last.events[-1].turn == 3
    assert last.log.loaded.findings == []
