"""The log: append-only, chained, locked, and readable whatever happened to its bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_kernel.core.events import StepEnd, StepStart, TurnStart, UnknownEvent, UserMessage
from agent_kernel.core.files import Files
from agent_kernel.core.log import Log, LogError
from agent_kernel.core.session import Session


def made(path: Path, turns: int = 2) -> Session:
    session = Session.open(path)
    for number in range(turns):
        session.append(TurnStart(text=f"t{number}"), UserMessage(content="hello\u2028\ud800 “x”"))
        session.append(StepStart())
        session.append(StepEnd())
        session.close_turn("completed")
    session.close()
    return session


def test_opening_a_log_writes_nothing(tmp_path: Path) -> None:
    session = Session.open(tmp_path / "a.agent.jsonl")
    assert session.id == ""
    assert list(tmp_path.iterdir()) == []


def test_every_line_is_ascii_json_with_contiguous_seq(tmp_path: Path) -> None:
    made(tmp_path / "a.agent.jsonl")
    raw = (tmp_path / "a.agent.jsonl").read_bytes()
    lines = [json.loads(line) for line in raw.splitlines()]
    assert raw.isascii()
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert lines[0]["type"] == "session/header"
    assert len(lines[0]["session"]) == 26


def test_reopened_file_equals_memory(tmp_path: Path) -> None:
    session = made(tmp_path / "a.agent.jsonl")
    again = Session.open(tmp_path / "a.agent.jsonl")
    assert list(again.events) == list(session.events)
    assert again.log.head_hash == session.log.head_hash
    assert again.log.loaded.findings == []
    assert again.surface().messages() == session.surface().messages()


def test_log_opens_after_a_cut_at_every_byte_and_appends_on_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    whole = made(path, turns=1)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        copy = tmp_path / "cut" / f"{cut}.agent.jsonl"
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(data[:cut])
        session = Session.open(copy)
        kept = sum(end <= cut for end in ends)
        assert list(session.events) == list(whole.events)[:kept], cut
        session.append(StepStart())
        session.close()
        lines = copy.read_bytes().split(b"\n")
        assert lines[-1] == b""
        assert all(json.loads(line)["seq"] == i for i, line in enumerate(lines[:-1]))
        damaged = copy.with_name(copy.name + ".damaged")
        torn = data[max([0, *(e for e in ends if e <= cut)]) : cut]
        assert (damaged.read_bytes() == torn + b"\n") if torn else not damaged.exists()


@pytest.mark.parametrize("tail", [b"\0" * 64, b'{"seq":', b"nonsense\n", b"[1]\n", b" \n"])
def test_torn_tail_is_put_aside_and_reported(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.agent.jsonl"
    whole = made(path)
    path.write_bytes(path.read_bytes() + tail)
    session = Session.open(path)
    assert list(session.events) == list(whole.events)
    assert session.log.loaded.findings[0]["code"] == "torn_tail"
    resumed = session.resume()
    assert resumed is not None
    assert resumed.damaged_bytes == len(tail)
    assert path.with_name(path.name + ".damaged").read_bytes() == tail + b"\n"


def test_bad_line_in_the_middle_is_named_and_the_rest_loads(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    whole = made(path)
    lines = path.read_bytes().split(b"\n")
    lines[3] = b"{broken"
    path.write_bytes(b"\n".join(lines))
    session = Session.open(path)
    codes = {finding["code"] for finding in session.log.loaded.findings}
    assert {"bad_line", "seq_gap"} <= codes
    assert len(session.events) == len(whole.events) - 1


def test_any_later_change_of_an_earlier_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    made(path)
    path.write_bytes(path.read_bytes().replace(b'"text":"t0"', b'"text":"t9"'))
    found = Session.open(path).log.loaded.findings
    assert [f["seq"] for f in found if f["code"] == "broken_hash"] == [1]


def test_repeated_seq_keeps_the_first(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    whole = made(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[1], *lines[2:]]))
    session = Session.open(path)
    assert list(session.events) == list(whole.events)
    assert any(f["code"] == "repeated_seq" for f in session.log.loaded.findings)


def test_bom_and_crlf_load(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    whole = made(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert list(Session.open(path).events) == list(whole.events)


def test_unknown_ignorable_event_is_kept_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = made(path)
    extra = UnknownEvent.model_validate(
        {"type": "future/thing", "ignorable": True, "zeta": [1, {"a": None}]}
    )
    session.append(extra)
    session.close()
    again = Session.open(path)
    assert again.events[-1].wire()["zeta"] == [1, {"a": None}]
    assert again.log.read_only is None
    assert again.log.loaded.findings == []


@pytest.mark.parametrize(
    "change",
    [(b'"version":1', b'"version":2'), (b'"type":"step/end"', b'"type":"step/fin"')],
    ids=["newer version", "unknown type"],
)
def test_what_this_version_cannot_know_opens_read_only(
    tmp_path: Path, change: tuple[bytes, bytes]
) -> None:
    path = tmp_path / "a.agent.jsonl"
    made(path)
    path.write_bytes(path.read_bytes().replace(*change))
    session = Session.open(path)
    with pytest.raises(LogError, match="read-only"):
        session.append(StepStart())


def test_second_opener_is_read_only_and_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    code = (
        "import sys; from agent_kernel.core.session import Session\n"
        "from agent_kernel.core.events import TurnStart\n"
        "s = Session.open(sys.argv[1]); s.append(TurnStart(text='x')); print('ready', flush=True)\n"
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        session = Session.open(path)
        with pytest.raises(LogError, match=f"pid {holder.pid}"):
            session.append(StepStart())
        assert len(session.events) == 2
    finally:
        holder.communicate(b"")


class FullDisk(Files):
    """Takes `room` bytes more, then answers as a full disk does."""

    def __init__(self) -> None:
        self.room = 10**9

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        took = os.write(fd, data[: self.room])
        self.room -= took
        return took


def test_full_disk_changes_nothing_and_goes_on_when_space_returns(tmp_path: Path) -> None:
    disk = FullDisk()
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path, files=disk)
    session.append(TurnStart(text="x"))
    before, events = path.read_bytes(), list(session.events)
    disk.room = 7
    for _ in range(2):
        with pytest.raises(LogError, match="disk full"):
            session.append(StepStart())
        assert path.read_bytes() == before
        assert list(session.events) == events
    disk.room = 10**9
    session.append(StepStart())
    session.close()
    assert len(Session.open(path).events) == len(events) + 1


def test_deleted_log_is_written_anew_and_said(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    session.append(TurnStart(text="x"))
    path.unlink()
    session.append(StepStart())
    session.close()
    assert any("written anew" in notice for notice in session.log.notices)
    assert list(Session.open(path).events) == list(session.events)


def test_a_link_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_bytes(b"")
    (tmp_path / "a.agent.jsonl").symlink_to(real)
    with pytest.raises(LogError, match="not a regular file"):
        Log(tmp_path / "a.agent.jsonl")


def test_redaction_changes_memory_disk_and_messages_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"

    def mask(wire: dict[str, object]) -> dict[str, object]:
        return dict(json.loads(json.dumps(wire).replace("hunter2", "[redacted:x]")))

    session = Session.open(path, redact=mask)
    session.append(TurnStart(text="hunter2"), UserMessage(content="say hunter2"))
    session.close()
    assert b"hunter2" not in path.read_bytes()
    assert "hunter2" not in str(session.surface().messages())


def test_nan_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    session = Session.open(tmp_path / "a.agent.jsonl")
    session.append(TurnStart(text="x"))
    with pytest.raises(ValueError, match="JSON"):
        session.append(TurnStart(text="x", settings={"a": float("nan")}))
    assert len(session.events) == 2


class Faulty(Files):
    """Fails the named operation once with the given error."""

    def __init__(self) -> None:
        self.fail: dict[str, OSError] = {}

    def _maybe(self, name: str) -> None:
        if name in self.fail:
            raise self.fail.pop(name)

    def open_append(self, path: Path) -> int:
        self._maybe("open")
        return super().open_append(path)

    def write(self, fd: int, data: bytes) -> int:
        self._maybe("write")
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._maybe("sync")
        super().sync(fd)


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_an_io_error_is_never_retried_as_success_and_the_session_goes_on(
    tmp_path: Path, operation: str
) -> None:
    disk, path = Faulty(), tmp_path / "a.agent.jsonl"
    session = Session.open(path, files=disk)
    session.append(TurnStart(text="x"))
    session.log.sync()
    disk.fail[operation] = OSError(5, "Input/output error")
    with pytest.raises(LogError, match="Input/output error"):
        session.append(StepStart())
        session.log.sync()
    session.append(StepEnd())
    session.close()
    assert session.log.path == tmp_path / "a.agent.2.jsonl"
    assert list(Session.open(session.log.path).events) == list(session.events)


def test_a_folder_that_takes_no_file_leaves_the_session_in_memory_and_says_so(
    tmp_path: Path,
) -> None:
    disk = Faulty()
    disk.fail["open"] = OSError(30, "Read-only file system")
    session = Session.open(tmp_path / "a.agent.jsonl", files=disk)
    session.append(TurnStart(text="x"))
    session.append(StepStart())
    session.close()
    assert len(session.events) == 3
    assert "memory only" in session.log.notices[0]


def test_a_view_that_fails_loses_no_event(tmp_path: Path) -> None:
    session = Session.open(tmp_path / "a.agent.jsonl")

    def broken(_event: object) -> None:
        raise RuntimeError("no screen")

    session.log.listeners.append(broken)
    session.append(TurnStart(text="x"))
    session.append(StepStart())
    session.close()
    assert len(session.events) == 3
    assert any("no screen" in notice for notice in session.log.notices)
