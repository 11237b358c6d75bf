"""Crashes: one busy session of the real loop, killed at any operation, reopened and checked.

May not fake the loop or the log: only the model's words are scripted, and the disk dies.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent_kernel.core import writer
from agent_kernel.core.agent import Agent
from agent_kernel.core.events import Event, ToolStart
from agent_kernel.core.log import LogError
from agent_kernel.core.query import advance, start_turn
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from agent_kernel.providers.scripted import scripted
from tests.core.disk import Disk
from tests.runs import Turn, agent, answers

NAME = "a.agent.jsonl"
TORN = b'{"type":"user/mess'
# One that spills a blob, one that compacts, some with side effects, a denied and a failing call.
TURNS: list[Turn] = [
    [[("look", 70_000), ("touch", 1)], [("touch", 2), ("fail", 1)]],
    [[("secret", 1), ("look", 3_000)], [("touch", 3), ("touch", 4)]],
]
Part = Callable[[int], int]


class Effects(list[str]):
    """What the tools with a side effect did; nothing is done by a process that is dead."""

    def __init__(self, disk: Disk | None = None) -> None:
        super().__init__()
        self.disk = disk

    def append(self, call: str) -> None:
        if self.disk is None or not self.disk.dead:
            super().append(call)


def prepared(folder: Path) -> Path:
    """A folder with a log of one earlier turn whose tail is torn."""
    folder.mkdir(parents=True)
    session = Session.open(folder / NAME)
    asyncio.run(_run(session, _agent([[]], Effects()), ["before"], lambda _e: None))
    session.close()
    path = folder / NAME
    path.write_bytes(path.read_bytes() + TORN)
    path.with_name(NAME + ".lock").unlink()
    return path


def _agent(turns: list[Turn], effects: list[str], used: int = 0) -> Agent:
    made = agent(turns, effects, window=4_000)
    made.provider = scripted(answers(turns)[used:])
    return made


def newest(folder: Path) -> Path:
    """The log a kernel would open: the heir, where a log was written anew."""
    heirs = [(int(m[1]), p) for p in folder.iterdir() if (m := _HEIR.fullmatch(p.name))]
    return max(heirs, default=(0, folder / NAME))[1]


_HEIR = re.compile(r"a\.agent\.(\d+)\.jsonl")


async def _run(
    session: Session, made: Agent, prompts: list[str], acked: Callable[[list[Event]], None]
) -> None:
    """Run each prompt's turn to its end, every step acknowledged."""
    while True:
        while session.state().turn_open:
            await advance(session, made)
            await session.log.commit()
            acked(list(session.events))
        if not prompts:
            return
        start_turn(session, made, prompts.pop(0))
        await session.log.commit()
        acked(list(session.events))


def killed(disk: Disk) -> tuple[list[Event], Effects]:
    """Run the session on `disk` until it is done or dead; what was acknowledged, the effects."""
    acked: list[Event] = []
    effects = Effects(disk)

    def note(events: list[Event]) -> None:
        if not disk.dead:
            acked[:] = events

    async def run() -> None:
        session = Session.open(disk.root / NAME, files=disk)
        session.resume()
        await _run(session, _agent(TURNS, effects), ["one"], note)
        disk.fail["sync"] = [OSError(5, "Input/output error")]
        with suppress(LogError):
            await session.log.commit()
            session.append(session.events[-1].model_copy(), agent="other")
            await session.log.commit()
        rest = _agent(TURNS, effects, used=len(TURNS[0]) + 1)
        await _run(session, rest, ["two"], note)
        session.close()

    with suppress(OSError, LogError):
        asyncio.run(run())
    return acked, effects


def checked(folder: Path, acked: list[Event], effects: Effects) -> str:
    """Open what is left, go on to the end; "" or what is wrong."""
    path = newest(folder)
    done = Effects()
    try:
        session = Session.open(path)
        kept = list(session.events)
        if kept[: len(acked)] != acked:
            return f"of {len(acked)} acknowledged events {len(kept)} are left, or others"
        session.resume()
        starts = {e.id for e in kept if isinstance(e, ToolStart)}
        if wrong := [call for call in effects if call not in starts]:
            return f"{wrong} ran without a tool/start in the file"
        used = sum(e.type == "assistant/message" and e.turn != 1 for e in kept)
        prompts = [p for p in ("one", "two") if not _has_turn(kept, p)]
        asyncio.run(_run(session, _agent(TURNS, done, used), prompts, lambda _e: None))
        session.close()
    except (LogError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    if twice := set(done) & set(effects):
        return f"{twice} ran twice"
    again = Session.open(path)
    if list(again.events) != list(session.events):
        return "the reopened file is not what was in memory"
    if not verify(again.events, again.log.loaded.findings).ok:
        return f"a request cannot be given again from the log: {again.log.loaded.findings}"
    return _lines(path, len(again.events))


def _has_turn(events: list[Event], prompt: str) -> bool:
    return any(e.type == "user/message" and prompt in str(e.wire()["content"]) for e in events)


def _lines(path: Path, count: int) -> str:
    """Every line of the file is an event of its own, and the torn bytes were put aside."""
    lines = path.read_bytes().split(b"\n")
    try:
        seqs = [json.loads(line)["seq"] for line in lines[:-1]]
    except ValueError as error:
        return f"a line is no event: {error}"
    if lines[-1] or seqs != list(range(count)):
        return "lines do not stand alone, in order"
    aside = path.with_name(NAME + ".damaged")
    if path.name == NAME and TORN not in aside.read_bytes():
        return "the torn bytes are gone"
    return ""


def crash(work: Path, kill_at: int, part: Part | None, power: bool) -> tuple[str, list[str]]:
    """Kill one run before operation `kill_at`; "" or what is wrong, and the operations it did."""
    prepared(work / "live")
    disk = Disk(work / "live", kill_at, part)
    acked, effects = killed(disk)
    left = disk.survivors(work / "left") if power else disk.left(work / "left")
    return checked(left, acked, effects), disk.ops


def part_of(seed: int) -> Part:
    """How many bytes of a write are taken before the process dies."""
    return lambda size: random.Random(seed).randrange(size + 1)


class Patient:
    """While entered, nothing is synced that no one waits for: the worst the group commit may do."""

    def __enter__(self) -> None:
        self._before, writer.GROUP_SECONDS = writer.GROUP_SECONDS, 3600.0

    def __exit__(self, *_: object) -> None:
        writer.GROUP_SECONDS = self._before


# ---- the last record, byte by byte --------------------------------------------------------------
def fills(data: bytes, cut: int, seed: int) -> dict[str, bytes]:
    """What may stand where the bytes after `cut` should: nothing, zeros, something else."""
    gone = len(data) - cut
    return {
        "cut": data[:cut],
        "zeros": data[:cut] + bytes(gone),
        "random": data[:cut] + random.Random(seed).randbytes(gone),
    }


def damaged(folder: Path, data: bytes, cut: int, seed: int) -> list[str]:
    """Damage the last record from `cut` on in each way, open and append; what is wrong."""
    whole = Session.open(_written(folder / "whole.agent.jsonl", data))
    last = data.rfind(b"\n", 0, -1) + 1
    wrong = []
    for how, left in fills(data, cut, seed).items():
        path = _written(folder / how / NAME, left)
        before = list(whole.events) if left == data else list(whole.events)[:-1]
        session = Session.open(path)
        if list(session.events) != before:
            wrong.append(f"{how} at {cut - last}: {len(session.events)} of {len(before)} events")
        session.resume()
        session.close()
        lines = path.read_bytes().split(b"\n")
        if lines[-1] or json.loads(lines[-2])["type"] != "session/resume":
            wrong.append(f"{how} at {cut - last}: the next record does not stand on its own line")
        if not left.startswith(b"\n".join(lines[: len(before)])):
            wrong.append(f"{how} at {cut - last}: earlier bytes changed")
        aside = path.with_name(NAME + ".damaged")
        torn = left[len(b"\n".join(lines[: len(before)])) + 1 :]
        if torn and aside.read_bytes() != torn + b"\n":
            wrong.append(f"{how} at {cut - last}: the damaged bytes were not kept")
        aside.unlink(missing_ok=True)
    return wrong


def _written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
