"""Edits, rewinds and breakpoints as a person types them, in a real kernel over a real server."""

from __future__ import annotations

import hashlib

import pytest

from agent_kernel.core.replay import verify
from agent_kernel.core.validate import validate_messages
from agent_kernel.kernel import breaks
from agent_kernel.kernel.display import WIDGET_MIME
from tests.kernel.live import Script, calls, says, until

pytestmark = pytest.mark.kernel


def branch(k, name):
    return k.session(f"session.agent/branches/{name}.jsonl")


def seqs(k, kind, name=None):
    events = (branch(k, name) if name else k.session()).events
    return [e.seq for e in events if e.type == kind]


def texts(session, kind):
    return [e.content[0].text for e in session.events if e.type == kind]


def test_a_result_is_edited_and_run_on_and_the_files_of_a_turn_are_put_back(
    kernel, serve, tmp_path
) -> None:
    shell = calls(("bash", {"command": "sed -i s/one/two/ a.txt; echo made > b.txt; cat a.txt"}))
    server = serve(None, Script(says("Hello."), shell, says("It says two."), says("Nothing then.")))
    (tmp_path / "a.txt").write_text("one\n")
    k = kernel(server)
    k.ok("%agent mode bypass")
    k.ok("%%agent\nhello", "c1")
    k.ok("%%agent\nwhat is in a.txt?", "c2")
    log = tmp_path / "session.agent.jsonl"
    before = hashlib.sha256(log.read_bytes()).hexdigest()
    (seq,) = seqs(k, "tool/result")
    said = k.ok(f"%agent edit {seq} 'the file is empty' --name guess")
    assert "branch guess" in said.text and "%agent continue" in said.text
    assert len(server.messages) == 3, "the prefix costs no request"
    assert "Nothing then." in k.ok("%agent continue").plain
    assert len(server.messages) == 4
    body = server.messages[-1].body
    assert b"the file is empty" in body and b"two" not in body.split(b"tool_result")[-1]
    made = branch(k, "guess")
    assert made.header.forked_from["edited"] == seq
    assert texts(made, "tool/result")[-1] == "the file is empty"
    assert verify(made.events).ok and made.state().turn_end.reason == "completed"
    assert hashlib.sha256(log.read_bytes()).hexdigest() == before

    k.ok("%agent switch main")
    k.ok("new = 'What is in c.txt?'")
    seq = seqs(k, "user/message")[1]
    ran = k.ok(f"%agent edit {seq} --from new --name other --run")
    body = server.messages[-1].body
    assert "Done." in ran.plain and b"c.txt?" in body and b"in a.txt?" not in body
    assert branch(k, "other").state().turn == 2

    k.ok("%agent switch main")
    refused = k.run("%agent rewind 2 --files")
    assert "restore a.txt" in refused.error and "nobody is there to ask" in refused.error
    assert (tmp_path / "a.txt").read_text() == "two\n"
    assert "nothing was changed" in k.run("%agent rewind 2 --files", stdin=["2"]).error
    done = k.ok("%agent rewind 2 --files --name back", stdin=["yes"]).text
    assert "restored     a.txt" in done and "removed      b.txt" in done
    assert (tmp_path / "a.txt").read_text() == "one\n" and not (tmp_path / "b.txt").exists()
    assert branch(k, "back").state().turn == 1
    assert "not touched" not in k.ok("%agent rewind --undo --yes").text
    assert (tmp_path / "a.txt").read_text() == "two\n" and (tmp_path / "b.txt").exists()
    (tmp_path / "a.txt").write_text("mine\n")
    k.ok("%agent switch main")
    assert "not touched  a.txt: someone else" in k.ok("%agent rewind 2 --files --yes").text
    assert (tmp_path / "a.txt").read_text() == "mine\n"
    k.ok("%agent switch main")
    rays = k.ok("%agent context", stdin=[])
    assert "Context, request by request" in rays.plain
    assert any(WIDGET_MIME in shown["data"] for shown in rays.displays)
    differs = k.ok("%agent request 2.1 --diff 1.1", stdin=[])
    assert "Request 1.1 against 2.1" in differs.plain
    assert any(WIDGET_MIME in shown["data"] for shown in differs.displays)
    asked = k.ok("%agent again 1.1 --n 2 --without bash")
    assert "Asked again: 2 answers" in asked.plain and "text 2" in asked.plain
    assert (tmp_path / "session.agent/branches/again-1.1-1.jsonl").is_file()
    for line, words in (
        ("%agent again 1.1 --without bsh", "offered no tool 'bsh'"),
        ("%agent again 1.1 --edit 3", "go together"),
        ("%agent edit 0 x", "seq 0 is a session/header"),
        ("%agent edit zz x", "no call 'zz' waits"),
        ("%agent rewind 9", "there is no turn 9"),
        ("%agent rewind", "say a turn"),
    ):
        assert words in k.run(line).error
    assert "the content of seq" in k.ok(f"%agent edit {seqs(k, 'user/message')[0]}").text


def click(k, ran, **message):
    """Press a button of the panel a cell shows, as its widget does."""
    views = [d["data"].get(WIDGET_MIME) for d in ran.displays]
    model = [view["model_id"] for view in views if view][-1]
    data = {"method": "custom", "content": message}
    k.client.shell_channel.send(k.client.session.msg("comm_msg", {"comm_id": model, "data": data}))


def test_a_turn_stops_at_its_breakpoints_and_a_person_acts_on_a_call(
    kernel, serve, tmp_path
) -> None:
    one = calls(("bash", {"command": "echo wrong > out.txt"}), text="First.")
    two = calls(
        ("glob", {"pattern": "*"}), ("bash", {"command": "echo skipped >> out.txt"}),
        ("bash", {"command": "echo hand >> out.txt"}),
    )  # fmt: skip
    server = serve(None, Script(one, two, says("Done.")))
    k = kernel(server)
    k.ok("%agent break tool:bash")
    k.ok("%agent break request")
    assert k.ok("%agent breaks").text.split() == ["tool:bash", "request"]
    assert "no breakpoint 'error' is set" in k.run("%agent unbreak error").error
    ran = k.ok("%%agent\nWrite it.", "c1")
    assert "Next: send the next request" in ran.plain and "break request" in ran.plain
    assert not server.messages and "request/context" not in k.types()
    k.ok("%agent unbreak request")
    ran = k.ok("%agent continue")
    assert "Next: run bash" in ran.plain and "break tool:bash" in ran.plain
    assert k.types()[-1] == "tool/call" and len(server.messages) == 1
    call = k.session().state().open_calls[0].call.id
    edit = f"%agent edit {call} 'echo right > out.txt'"
    assert "would be denied: nobody is here to ask" in k.run(edit).error
    assert "you said no" in k.run(edit, stdin=["n"]).error
    assert k.types()[-1] == "tool/call", "nothing was changed"
    said = k.ok(edit, stdin=["y"])
    assert "runs with your input" in said.text and "echo right" in said.prompts[0]
    ran = k.ok("%agent continue", stdin=[])
    assert (tmp_path / "out.txt").read_text() == "right\n"
    decision = next(e for e in k.session().events if e.type == "tool/decision")
    assert decision.by == "person" and decision.edited_input == {"command": "echo right > out.txt"}
    result = next(e for e in k.session().events if e.type == "tool/result")
    assert result.meta["edited_by"] == "person"
    assert "Next: run bash" in ran.plain, "the second batch stops too"
    second, third = [s.call.id for s in k.session().state().open_calls if s.call.name == "bash"]
    session = k.session()
    click(k, ran, type="skip", call=second, key="of another stop")
    click(k, ran, type="skip", call=f"{second}; stop", key=f"{session.id}:{len(session.events)}")
    click(k, ran, type="skip", call=second, key=f"{session.id}:{len(session.events)}")
    until(lambda: "skipped" in str([e.meta for e in k.session().events if e.type == "tool/result"]))
    assert k.types().count("tool/result") == 3, "only the button of this stop, only its command"
    k.ok(f"%agent answer {third} 'by hand'")
    ran = k.ok("%agent continue")
    assert "Done." in ran.plain
    session = k.session()
    messages = session.surface().messages()
    assert not list(validate_messages(messages, _profile(), sendable=False))
    assert verify(session.events).ok
    assert [e.meta.get("by") for e in session.events if e.type == "tool/result"][-2:] == [
        "person",
        "person",
    ]
    assert (tmp_path / "out.txt").read_text() == "right\n"
    assert breaks.set_in(session) == ["tool:bash"], "kept in the session, another kernel has it"


def _profile():
    from agent_kernel.core.model import ModelProfile

    return ModelProfile("m")
