"""Acts: what the rows of the durability table share: a session on a path, one line of refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_kernel.core.events import StepEnd, StepStart, TurnStart, UserMessage
from agent_kernel.core.files import DISK, Files
from agent_kernel.core.log import LogError
from agent_kernel.core.session import Session
from tests.core.disk import Disk

ROOT = Path(__file__).resolve().parents[2]
NAME = "a.agent.jsonl"
Act = Callable[[Path], Awaitable[None]]
ACTS: dict[str, Act] = {}


def act(number: int) -> Callable[[Act], Act]:
    """Names the row that a function acts out."""

    def keep(function: Act) -> Act:
        ACTS[f"durability_faults-{number:03}"] = function
        return function

    return keep


def path_of(place: Path) -> Path:
    """The log of a test's folder."""
    return place / NAME


def opened(place: Path, files: Files = DISK) -> Session:
    """The session of a test's folder."""
    return Session.open(path_of(place), files=files)


def made(place: Path, turns: int = 2) -> Session:
    """A closed session of a few turns; its file is on the disk."""
    session = opened(place)
    for number in range(turns):
        session.append(TurnStart(text=f"t{number}"), UserMessage(content=f"hello {number}"))
        session.append(StepStart())
        session.append(StepEnd())
        session.close_turn("completed")
    session.close()
    return session


def goes_on(place: Path, count: int) -> Session:
    """Open again: `count` events are there, and the next one stands on its own line."""
    session = opened(place)
    assert len(session.events) == count
    session.append(StepStart())
    session.close()
    assert session.log.path is not None
    lines = session.log.path.read_bytes().split(b"\n")
    assert lines[-1] == b""
    assert json.loads(lines[-2])["type"] == "step/start"
    return session


def findings(session: Session) -> dict[str, str]:
    """What was found, by code."""
    return {str(one["code"]): str(one["text"]) for one in session.findings}


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """The body is refused in one line that says all of `words`."""
    with pytest.raises(LogError) as caught:
        yield
    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in words), text


def said(session: Session, *words: str) -> None:
    """One of the session's notices, of one line, says all of `words`."""
    notices = session.log.notices
    assert any(all(w in line for w in words) and "\n" not in line for line in notices), notices


def edited(place: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of the log on the disk."""
    path = path_of(place)
    path.write_bytes(b"\n".join(change(path.read_bytes().split(b"\n"))))


def killed(place: Path, kill_at: int) -> Disk:
    """A session killed before an operation of its second append; its disk."""
    disk = Disk(place)
    session = opened(place, disk)
    session.append(TurnStart(text="first"))
    session.log.sync()
    disk.kill_at = len(disk.ops) + kill_at
    with pytest.raises((LogError, OSError)):
        session.append(UserMessage(content="second"))
        session.log.sync()
    return disk


HOLDER = (
    "import sys; from agent_kernel.core.session import Session\n"
    "from agent_kernel.core.events import TurnStart\n"
    "s = Session.open(sys.argv[1]); s.append(TurnStart(text='x')); s.log.sync()\n"
    "print('ready', flush=True)\n"
    "sys.stdin.read()"
)


@contextmanager
def holder(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the log of the folder, with two events in it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path_of(place))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


def as_nobody(folder: Path, act: Callable[[], str]) -> str:
    """What `act` returns in a fork of this process that may not write where root may."""
    read, write = os.pipe()
    folder.chmod(0o555)
    if (pid := os.fork()) == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65_534)
                os.setuid(65_534)
            text = act()
        except BaseException as error:
            text = f"failed: {error!r}"
        os.write(write, text.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    folder.chmod(0o755)
    with os.fdopen(read, "rb") as file:
        return file.read().decode()
