"""A session recorded and answered again by `%agent record`, in a real kernel, its host gone."""

from __future__ import annotations

import json

import pytest

from tests.kernel.live import Script, calls, says

pytestmark = pytest.mark.kernel


def test_a_recorded_session_runs_without_its_host_and_a_change_fails_loudly(
    kernel, serve, tmp_path
) -> None:
    server = serve(
        None, Script(calls(("read", {"path": "a.txt"})), says("It says one."), says("x"))
    )
    (tmp_path / "a.txt").write_text("one\n")
    k = kernel(server)
    assert "off:" in k.ok("%agent record").text
    assert "no cassette 'first.jsonl'" in k.run("%agent record replay first").error
    assert "did you mean 'replay'" in k.run("%agent record repaly").error
    assert "cannot be named '../up'" in k.run("%agent record record ../up").error
    assert "record:" in k.ok("%agent record record first").text
    k.ok("%%agent\nwhat is in a.txt?", "c1")
    assert "off:" in k.ok("%agent record off").text
    path = tmp_path / "session.agent/cassettes/first.jsonl"
    assert len(path.read_text().splitlines()) == 3 and len(server.messages) == 2
    k.ok("%%agent\nnot recorded", "c2")
    assert len(path.read_text().splitlines()) == 3 and len(server.messages) == 3
    server.stop()  # from here on the network refuses
    k.ok("%agent new")
    assert "replay:" in k.ok("%agent record replay first").text
    assert "It says one." in k.ok("%%agent\nwhat is in a.txt?", "c3").plain
    k.ok("%agent new")
    k.ok("%agent record replay first")
    ran = k.run("%%agent\nwhat is in b.txt?", "c4")
    shown = ran.plain + ran.text + ran.error
    assert "cassette_miss" in shown or "no recording for this request" in shown
    assert "nearest is #1" in shown and "$.messages[0].content" in shown
    assert "asked 'what is in b.txt?'" in shown
    # Another set of tools is another request, too.
    k.ok("%agent new")
    k.ok("%agent record replay first")
    k.ok("%agent tools glob off")
    ran = k.run("%%agent\nwhat is in a.txt?", "c5")
    assert "$.tools" in ran.plain + ran.text + ran.error
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()[1:]]
    assert len(set(keys)) == 2 and len(path.read_text().splitlines()) == 3
