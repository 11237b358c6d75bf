"""Steps: a turn stepped across kernels is the same log as one run; a crash is gone on from."""

from __future__ import annotations

import json

import pytest

from agent_kernel.core.model import ModelProfile
from agent_kernel.core.replay import verify
from agent_kernel.core.validate import validate_messages
from tests.kernel.conftest import env_of
from tests.kernel.live import Live, Script, calls, live, says, until

pytestmark = pytest.mark.kernel
VARYING = {
    "time", "h", "session", "created", "ttft", "seconds", "request_id", "waited",
}  # fmt: skip


def answers() -> Script:
    """Two steps with three calls, then the answer."""
    two = calls(
        ("glob", {"pattern": "*.txt"}), ("grep", {"pattern": "x", "path": "a.txt"}), text="Looking."
    )
    return Script(two, calls(("read", {"path": "a.txt"})), says("There it is."))


def comparable(k: Live) -> list[dict]:
    """The log without what differs between two runs of the same thing."""
    out = []
    for event in k.session().events:
        wire = {name: value for name, value in event.wire().items() if name not in VARYING}
        for moment in ("seconds", "early"):  # when a read ran, not what it gave
            wire.get("meta", {}).pop(moment, None)
        out.append(json.loads(json.dumps(wire)))
    return out


def prepared(folder):
    folder.mkdir()
    (folder / "a.txt").write_text("x marks it\n")
    return folder


def test_a_turn_stepped_with_a_new_kernel_each_time_is_the_same_log_as_one_run(
    tmp_path, serve
) -> None:
    for name in ("once", "stepped"):
        prepared(tmp_path / name)
    at_once, stepped = serve(None, answers()), serve(None, answers())
    with live(tmp_path / "once", env_of(at_once)) as k:
        k.ok("%%agent\nFind it.", "c1")
        whole = comparable(k)
    with live(tmp_path / "stepped", env_of(stepped)) as k:
        k.ok("%%agent --step\nFind it.", "c1")
    for _ in range(30):
        with live(tmp_path / "stepped", env_of(stepped)) as k:
            said = k.ok("%agent step")
            done = not k.session().state().turn_open
            assert done or "Next:" in said.plain
            if done:
                break
    assert [w["type"] for w in comparable(k)] == [w["type"] for w in whole]
    bodies = [m.body for m in stepped.messages]
    ours = [str(tmp_path / "stepped").encode(), str(tmp_path / "once").encode()]
    assert [b.replace(*ours) for b in bodies] == [m.body for m in at_once.messages]
    assert verify(k.session().events).ok


def test_a_turn_stepped_in_one_kernel_is_the_same_log_byte_for_byte_but_times(
    tmp_path, serve
) -> None:
    logs = []
    folder = prepared(tmp_path / "w")
    for stepped in (False, True):
        with live(folder, env_of(serve(None, answers()))) as k:
            if stepped:
                k.ok("%%agent --step\nFind it.", "c1")
                for word in ("", " model", " tools", " turn"):
                    k.ok(f"%agent step{word}")
            else:
                k.ok("%%agent\nFind it.", "c1")
            logs.append(comparable(k))
        (folder / "session.agent.jsonl").rename(tmp_path / f"{stepped}.jsonl")
    assert logs[0] == logs[1]


def test_kill_9_in_a_batch_then_resume_runs_no_started_call_twice(kernel, tmp_path, serve) -> None:
    batch = calls(
        ("bash", {"command": "echo once >> first"}),
        ("bash", {"command": "echo began >> second; sleep 300"}),
        ("bash", {"command": "echo once >> third"}),
    )
    server = serve(None, Script(batch, says("Going on.")))
    with live(tmp_path, env_of(server)) as k:
        k.ok("%agent mode bypass")
        k.start("%%agent\nDo three things.", "c1")
        until((tmp_path / "second").exists)
        k.kill()
    k = kernel(server)
    status = k.ok("%agent")
    assert "the last one is open" in status.text
    ran = k.ok("%agent resume")
    assert "not run again" in ran.text and "Going on." in ran.plain
    counts = [(tmp_path / n).read_text().count("\n") for n in ("first", "second", "third")]
    assert counts == [1, 1, 1]
    session = k.session()
    results = [e for e in session.events if e.type == "tool/result"]
    assert "outcome unknown" in results[1].content[0].text
    assert [r.is_error for r in results] == [False, True, False]
    assert session.state().turn_end.reason == "completed"
    assert verify(session.events).ok
    messages = session.surface().messages()
    assert not validate_messages(messages, ModelProfile("m"), sendable=False)


def test_the_same_cell_after_a_crash_goes_on_with_its_open_turn(kernel, tmp_path, serve) -> None:
    server = serve(
        {
            "scenario": "crash",
            "replies": [{"fault": "stall", "after": 3, "seconds": 600, **says("Half")}],
            "otherwise": "answer",
        },
        Script(says("Whole.")),
    )
    with live(tmp_path, env_of(server)) as k:
        k.start("%%agent\ngo", "c1")
        until(lambda: server.messages, 40)
        k.kill()
    k = kernel(server)
    assert "Whole." in k.ok("%%agent\ngo", "c1").plain
    assert k.types().count("turn/start") == 1


def test_a_second_kernel_on_the_same_log_is_told_whose_it_is(kernel, tmp_path, serve) -> None:
    server = serve(None, Script(says("One."), says("Two.")))
    k = kernel(server)
    k.ok("%%agent\nhello", "c1")
    with live(tmp_path, env_of(server)) as other:
        ran = other.run("%%agent\nanother", "c2")
        assert "read-only" in ran.error and f"pid {k.pid}" in ran.error
        assert "One." in other.ok("%%agent\nhello", "c1").plain


def test_a_session_a_fork_and_a_new_one_lie_where_they_are_said_to(kernel, serve) -> None:
    k = kernel(serve(None, Script(says("One."), says("Two."), says("Three."))))
    k.ok("%%agent\nhello", "c1")
    k.ok("%agent fork --name other")
    k.ok("%%agent\nmore", "c2")
    assert (k.folder / "session.agent" / "branches" / "other.jsonl").is_file()
    tree = k.ok("%agent branches").plain
    assert "main" in tree and "● other (you are here)" in tree
    k.ok("%agent new")
    k.ok("%%agent\nhello again", "c3")
    assert (k.folder / "session.agent.2.jsonl").is_file()
    assert "session.agent.2.jsonl" in k.ok("%agent session").text
