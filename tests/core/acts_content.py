"""Acts of what stands in a log and of the clock, by row of the durability table."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from agent_kernel import frames, transcripts
from agent_kernel.core.agent import Limits
from agent_kernel.core.events import (
    StepStart,
    ToolResultEvent,
    TurnStart,
    UnknownEvent,
    UserMessage,
)
from agent_kernel.core.query import query, start_turn
from agent_kernel.core.reading import LINE_BYTES
from agent_kernel.core.session import Session
from agent_kernel.core.validate import validate_messages
from agent_kernel.testing.script import Script
from agent_kernel.testing.script import said as words
from tests.core.acts import (
    act,
    edited,
    findings,
    goes_on,
    made,
    opened,
    path_of,
    refused,
)
from tests.core.disk import Disk
from tests.runs import agent


# ---------------------------------------------------------------- content
@act(25)
async def bad_line_in_the_middle(place: Path) -> None:
    session = made(place)
    edited(place, lambda lines: [*lines[:3], b"{broken", *lines[4:]])
    again = opened(place)
    offset = path_of(place).read_bytes().index(b"{broken")
    assert findings(again)["bad_line"].startswith(f"line 4 (byte {offset}) was put aside: ")
    assert findings(again)["seq_gap"] == "seq 4 where 3 was expected"
    assert len(again.events) == len(session.events) - 1
    data = path_of(place).read_bytes()
    goes_on(place, len(again.events))
    assert path_of(place).read_bytes().startswith(data)  # kept, never deleted


@act(26)
async def lone_surrogates_and_nul(place: Path) -> None:
    session = opened(place)
    text = "a\ud800b\x00c\udfff"
    session.append(TurnStart(text=text), UserMessage(content=text))
    session.close()
    assert b"\\ud800" in path_of(place).read_bytes()
    again = opened(place)
    assert again.events[1].text == text  # type: ignore[attr-defined]
    assert list(again.events) == list(session.events)


@act(27)
async def cut_inside_a_character(place: Path) -> None:
    made(place)
    line = json.dumps({"type": "x/y", "seq": 99, "text": "\U0001f600"}, ensure_ascii=False).encode()
    edited(place, lambda lines: [*lines[:-1], line[: line.index(b"\xf0") + 2], b""])
    session = opened(place)
    assert "torn_tail" in findings(session)
    goes_on(place, len(session.events))
    edited(place, lambda lines: [*lines[:2], b'{"text":"\xf0\x9f"}', *lines[2:]])
    assert "'utf-8' codec can't decode" in findings(opened(place))["bad_line"]


@act(28)
async def byte_order_mark(place: Path) -> None:
    session = made(place)
    path_of(place).write_bytes(b"\xef\xbb\xbf" + path_of(place).read_bytes())
    goes_on(place, len(session.events))


@act(29)
async def crlf(place: Path) -> None:
    session = made(place)
    path_of(place).write_bytes(path_of(place).read_bytes().replace(b"\n", b"\r\n"))
    assert opened(place).log.loaded.findings == []
    goes_on(place, len(session.events))


@act(30)
async def line_separators_in_a_text(place: Path) -> None:
    session = opened(place)
    text = "a\u2028b\u2029c\x85d\x0be\x1cf"
    session.append(TurnStart(text=text))
    session.close()
    raw = path_of(place).read_bytes().replace(b"\\u2028", "\u2028".encode())
    assert raw.count(b"\n") == 2
    path_of(place).write_bytes(raw)  # as another writer may have left it
    assert opened(place).events[1].text == text  # type: ignore[attr-defined]
    goes_on(place, 2)


@act(31)
async def line_of_a_gigabyte(place: Path) -> None:
    session = opened(place)
    session.append(TurnStart(text="x"))
    with refused("turn/start", f"over the {LINE_BYTES:,} of a line", "keep its content in a file"):
        session.append(TurnStart(text="x" * (LINE_BYTES + 1)))
    session.append(StepStart())
    session.close()
    with path_of(place).open("r+b") as file:
        line = file.read().split(b"\n")[2]
        file.truncate(file.tell() + (1 << 30))
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + line + b"\n")
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    again = opened(place)
    assert _memory("VmHWM") - before < 256 << 20
    assert "a line may have" in findings(again)["bad_line"]
    assert len(again.events) == 3
    await _large_result(place / "blob")


async def _large_result(place: Path) -> None:
    """A result of 100 MB: the blob is on the disk before the event that names it."""
    place.mkdir()
    disk = Disk(place)
    session = opened(place, disk)
    seen: list[bool] = []

    def look(event: object) -> None:
        if isinstance(event, ToolResultEvent):
            blob = place / "a.agent/blobs" / event.meta["blob"]
            seen.append(disk.surviving(blob) == b"x" * 100_000_000)

    session.log.listeners.append(look)
    await query(session, agent([[[("look", 100_000_000)]]]), "go")
    session.close()
    assert seen == [True]
    assert path_of(place).stat().st_size < 200_000


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


@act(32)
async def unknown_type(place: Path) -> None:
    session = opened(place)
    session.append(TurnStart(text="x"))
    extra = {"type": "future/thing", "ignorable": True, "zeta": [1, {"a": None}]}
    session.append(UnknownEvent.model_validate(extra))
    session.close()
    data = path_of(place).read_bytes()
    again = goes_on(place, 3)
    assert path_of(place).read_bytes().startswith(data)
    assert again.events[2].wire()["zeta"] == [1, {"a": None}]
    assert again.surface().messages() == session.surface().messages()
    edited(place, lambda lines: [line.replace(b'"step/start"', b'"step/leap"') for line in lines])
    with refused("read-only", "'step/leap'", "is unknown to this version"):
        opened(place).append(StepStart())


@act(33)
async def unknown_field(place: Path) -> None:
    made(place)
    edited(
        place, lambda lines: [lines[0], lines[1].replace(b'"h":', b'"zeta":[1],"h":'), *lines[2:]]
    )
    session = opened(place)
    assert session.events[1].wire()["zeta"] == [1]
    data = path_of(place).read_bytes()
    goes_on(place, len(session.events))
    assert path_of(place).read_bytes().startswith(data)


@act(34)
async def missing_field(place: Path) -> None:
    session = made(place)
    edited(
        place,
        lambda lines: [*lines[:2], lines[2].replace(b'"content":', b'"kontent":'), *lines[3:]],
    )
    again = opened(place)
    assert findings(again)["bad_line"].endswith("does not fit its type")
    goes_on(place, len(session.events) - 1)


@act(35)
async def newer_version(place: Path) -> None:
    session = made(place)
    edited(place, lambda lines: [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]])
    again = opened(place)
    assert len(again.events) == len(session.events)
    with refused("read-only", "the log is of format version 2, this reads 1"):
        again.append(StepStart())


@act(36)
async def older_version(place: Path) -> None:
    """Version 1 is the first: an older one can only say less, and is read as it stands."""
    session = made(place)
    edited(place, lambda lines: [lines[0].replace(b'"version":1', b'"version":0'), *lines[1:]])
    data = path_of(place).read_bytes()
    again = opened(place)
    assert again.surface().messages() == session.surface().messages()
    assert again.log.read_only is None
    assert path_of(place).read_bytes() == data


@act(37)
async def repeated_event(place: Path) -> None:
    session = made(place)
    edited(place, lambda lines: [*lines[:3], lines[2], *lines[3:]])
    again = opened(place)
    assert findings(again)["repeated_seq"] == "seq 2 stands again; the first is kept"
    assert list(again.events) == list(session.events)


@act(38)
async def gap(place: Path) -> None:
    session = made(place)
    edited(place, lambda lines: [*lines[:3], *lines[4:]])
    assert findings(opened(place))["seq_gap"] == "seq 4 where 3 was expected"
    goes_on(place, len(session.events) - 1)


@act(39)
async def out_of_order(place: Path) -> None:
    session = made(place)
    edited(place, lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]])
    again = opened(place)
    assert list(again.events) == list(session.events)
    assert findings(again)["out_of_order"] == "lines do not stand in seq order; seq rules"
    codes = findings(again)
    again.append(StepStart())
    again.close()
    assert findings(opened(place)) == codes  # what was appended after it is chained well


@act(40)
async def two_branches_in_one_log(place: Path) -> None:
    script = Script()
    root = script.user("go")
    script.answer(1, [words("first branch")], (1, 1, 0, 0, 0), parent=root)
    again = script.user("again", parent=root)
    script.answer(2, [words("second branch")], (1, 1, 0, 0, 0), parent=again)
    (place / "b.jsonl").write_bytes(b"".join(script.lines))
    found = frames.load(place / "b.jsonl", readers=transcripts.ALL, cache=False)
    assert found.columns("records")["chain"] == ["official", "rewound", "official", "official"]
    assert found.totals()["total"]["calls"] == 2  # what the other branch cost is not lost


@act(41)
async def result_without_its_call(place: Path) -> None:
    session = opened(place)
    await query(session, agent([[[("look", 1)]]]), "go")
    session.close()
    gone = [i for i, e in enumerate(session.events) if e.type in ("assistant/message", "tool/call")]
    edited(place, lambda lines: [line for i, line in enumerate(lines) if i not in gone[:2]])
    again = opened(place)
    assert any(isinstance(e, ToolResultEvent) for e in again.events)
    messages = again.surface().messages()
    assert not validate_messages(messages, agent([]).profile, sendable=False)
    assert "tool_result" not in json.dumps([m.wire() for m in messages])
    goes_on(place, len(again.events))


def _frames(path: Path) -> tuple[list[str], list[int]]:
    found = frames.load(path, readers=transcripts.ALL, cache=False)
    seqs = [seq for seq in found.columns("records")["seq"] if seq is not None]
    return found.columns("issues")["code"], seqs


@act(42)
async def truncated_gzip(place: Path) -> None:
    made(place, turns=200)
    packed = gzip.compress(path_of(place).read_bytes())
    (place / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    codes, seqs = _frames(place / "cut.jsonl.gz")
    assert set(codes) == {"torn_tail"}
    assert seqs[:-1] == list(range(len(seqs) - 1))  # the last one is the line that was cut
    assert len(seqs) > 300


@act(43)
async def concatenated_gzip(place: Path) -> None:
    session = made(place, turns=20)
    lines = path_of(place).read_bytes().splitlines(keepends=True)
    members = [gzip.compress(b"".join(part)) for part in (lines[:30], lines[30:])]
    (place / "two.jsonl.gz").write_bytes(b"".join(members))
    codes, seqs = _frames(place / "two.jsonl.gz")
    assert (codes, len(seqs)) == ([], len(session.events))
    (place / "odd.jsonl.gz").write_bytes(b"".join(members) + b"garbage")
    codes, seqs = _frames(place / "odd.jsonl.gz")
    assert len(seqs) == len(session.events)
    assert codes == ["torn_tail"]


@act(44)
async def side_file_is_gone(place: Path) -> None:
    session = opened(place)
    await query(session, agent([[[("look", 80_000)]]]), "go")
    session.close()
    (blob,) = (place / "a.agent/blobs").iterdir()
    blob.unlink()
    again = opened(place)
    text = findings(again)["missing_blob"]
    assert text.startswith(f"blob {blob.name} (80000 bytes) of seq ")
    resumed = again.resume()
    assert resumed is not None
    assert resumed.findings[0]["code"] == "missing_blob"
    with pytest.raises(KeyError, match=blob.name):
        again.blobs.get(blob.name)
    assert again.surface().messages() == session.surface().messages()  # what was shown is kept


@act(45)
async def empty_file(place: Path) -> None:
    path_of(place).touch()
    session = opened(place)
    assert (session.id, session.log.loaded.findings) == ("", [])
    session.append(TurnStart(text="x"))
    session.close()
    goes_on(place, 2)


@act(46)
async def changed_line(place: Path) -> None:
    session = made(place)
    path_of(place).write_bytes(path_of(place).read_bytes().replace(b'"text":"t0"', b'"text":"t9"'))
    again = opened(place)
    assert findings(again) == {"broken_hash": "seq 1 or the line before it was changed"}
    assert len(again.events) == len(session.events)


# ---------------------------------------------------------------- clock
class Clock:
    """The wall clock, set by the test; the monotonic one goes on."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._real = time.time

    def __call__(self) -> float:
        return self._real() + self.ahead


async def _jump(place: Path, ahead: float) -> Session:
    """A turn in which the clock jumps between two calls."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", clock)
        session = opened(place)
        made_agent = agent([[[("touch", 1)], [("look", 1)]], []])
        made_agent.limits = Limits(seconds=60)
        start_turn(session, made_agent, "go")
        clock.ahead = ahead
        ended = await query(session, made_agent)
        assert (ended.reason, ended.steps) == ("completed", 3)
        assert (await query(session, made_agent, "next")).reason == "completed"
    session.close()
    for event in session.events:
        wire = event.wire()
        seconds = [wire.get("seconds"), wire.get("waited"), (wire.get("meta") or {}).get("seconds")]
        assert all(0 <= each < 30 for each in seconds if each is not None), wire
    assert [e.seq for e in opened(place).events] == list(range(len(session.events)))
    return session


@act(47)
async def clock_back(place: Path) -> None:
    session = await _jump(place, -3_600)
    times = [e.time for e in session.events]
    assert times != sorted(times)
    assert list(opened(place).events) == list(session.events)


@act(48)
async def clock_ahead(place: Path) -> None:
    session = await _jump(place, 10 * 365 * 86_400)
    again = opened(place)
    assert again.surface().messages() == session.surface().messages()
    goes_on(place, len(session.events))


@act(49)
async def equal_times(place: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: 1.8e9)
        session = opened(place)
        await query(session, agent([[[("look", 1), ("look", 2)]]]), "go")
        session.close()
    assert {e.time for e in session.events} == {1.8e9}
    assert list(opened(place).events) == list(session.events)
