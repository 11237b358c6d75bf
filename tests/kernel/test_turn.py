"""A turn in a real kernel: it streams, it is logged, it is shown again, it fails in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.core.replay import verify
from agent_kernel.widgets.turnview import MIME
from tests.kernel.live import Script, calls, says

pytestmark = pytest.mark.kernel


def test_a_turn_streams_to_one_display_and_is_on_disk(kernel, serve) -> None:
    server = serve(None, Script(says("Forty-two. " * 40)))
    k = kernel(server)
    ran = k.ok("%%agent\nWhat is it?", "c1")
    (turn,) = ran.turns
    assert "Forty-two." in turn["data"]["text/plain"]
    assert {"text/html", "text/markdown", "text/plain", MIME} <= set(turn["data"])
    record = ran.record
    assert record["session"] == k.session().id
    assert record["turn"] == 1 and record["reason"] == "completed" and record["steps"] == 1
    assert record["usage"]["output"] > 0 and record["cost"] > 0
    types = k.types()
    assert types[:3] == ["session/header", "turn/start", "user/message"]
    assert types[-1] == "turn/end"


def test_the_requests_on_the_wire_are_those_the_log_rebuilds(kernel, serve) -> None:
    server = serve(None, Script(calls(("glob", {"pattern": "*"})), says("Nothing there.")))
    k = kernel(server)
    k.ok("%%agent\nWhat files are there?", "c1")
    report = verify(k.session().events)
    assert report.ok and report.requests == 2
    from agent_kernel.core.replay import requests

    assert [r.body for _, r in requests(k.session().events)] == [m.body for m in server.messages]


def test_the_same_cell_again_is_shown_from_the_log_and_sends_nothing(kernel, serve) -> None:
    server = serve(None, Script(says("One."), says("Two.")))
    k = kernel(server)
    k.ok("%%agent\nSay it.", "c1")
    again = k.ok("%%agent\nSay it.", "c1")
    assert len(server.messages) == 1
    assert again.record["replayed"] is True
    assert "Replayed from the log" in again.plain and "One." in again.plain
    fresh = k.ok("%%agent --fresh\nSay it.", "c1")
    assert len(server.messages) == 2 and "Two." in fresh.plain


def test_a_changed_earlier_cell_forks_and_switch_goes_back(kernel, serve) -> None:
    server = serve(None, Script(says("A1"), says("B1"), says("A2"), says("B2")))
    k = kernel(server)
    k.ok("%%agent\nfirst", "c1")
    k.ok("%%agent\nsecond", "c2")
    changed = k.ok("%%agent\nfirst, changed", "c1")
    assert "branch" in changed.text and "Turns 2" in changed.text
    body = json.loads(server.messages[-1].body)
    assert "second" not in json.dumps(body["messages"])
    k.ok("%%agent\nsecond", "c2")
    assert len(server.messages) == 4
    k.ok("%agent switch main")
    assert "B1" in k.ok("%%agent\nsecond", "c2").plain
    assert len(server.messages) == 4


def test_order_append_runs_a_changed_cell_at_the_end(kernel, serve) -> None:
    server = serve(None, Script(says("A1"), says("B1"), says("A2")))
    k = kernel(server, AGENT_KERNEL_ORDER="append")
    k.ok("%%agent\nfirst", "c1")
    k.ok("%%agent\nsecond", "c2")
    k.ok("%%agent\nfirst, changed", "c1")
    assert "second" in json.dumps(json.loads(server.messages[-1].body)["messages"])
    assert not (k.folder / "session.agent" / "branches").exists()


def test_out_gives_the_answer_as_a_value(kernel, serve) -> None:
    k = kernel(serve(None, Script(says("Paris."))))
    k.ok("%%agent -o city\nThe capital of France?")
    assert k.ok("print(city)").text.strip() == "Paris."


def test_a_failed_turn_fails_its_cell_in_one_readable_line(kernel, serve) -> None:
    server = serve({"scenario": "auth", "replies": [{"fault": "auth"}]})
    k = kernel(server)
    ran = k.run("%%agent\nhello")
    assert ran.status == "error" and ran.error.startswith("TurnFailed: ")
    traceback = ran.reply["content"]["traceback"]
    assert len(traceback) == 1 and "\n" not in traceback[0].strip()
    assert k.session().events[-1].type == "turn/end"
    assert k.session().events[-1].reason == "error"


@pytest.mark.parametrize(
    "cell,words",
    [
        ("%%agent --modell x\nhi", "did you mean '--model'"),
        ("%%agent --mode pln\nhi", "did you mean 'plan'"),
        ("%agent statsu", "did you mean 'status'"),
        ("%agent show requst", "did you mean 'request'"),
        ("%agent config modle", "did you mean 'mode"),
        ("%%agent\n\n", "no prompt"),
        ("%%agent\nuse $`nope`", "no variable 'nope'"),
        ("%agent step sideways", "step 'sideways'"),
    ],
)
def test_what_is_not_understood_is_a_usage_error_with_the_nearest_match(
    demo_kernel, cell, words
) -> None:
    ran = demo_kernel.run(cell)
    assert ran.status == "error"
    assert ran.error.startswith("UsageError: ") and words in ran.error
    assert not list(demo_kernel.folder.glob("*.jsonl"))


@pytest.fixture(scope="module")
def demo_kernel(tmp_path_factory):
    from tests.kernel.live import live

    with live(tmp_path_factory.mktemp("demo"), {}) as made:
        yield made


def test_values_and_functions_are_handed_over_by_their_marks(kernel, serve) -> None:
    server = serve(None, Script(calls(("rows", {"table": "t"})), says("Seven rows.")), strict=True)
    k = kernel(server)
    k.ok("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")
    k.ok('def rows(table: str) -> int:\n    "Count the rows of a table."\n    return 7')
    k.ok("%agent mode bypass")
    k.ok("%%agent\nLook at $`df` {braces} %s and use &`rows`.", "c1")
    first = json.loads(server.messages[0].body)
    text = json.dumps(first["messages"], ensure_ascii=False)
    assert "Look at df {braces} %s and use rows." in text
    assert "DataFrame 2 × 2" in text and "int64" in text
    assert "rows" in [tool["name"] for tool in first["tools"]]
    assert "7" in json.dumps(json.loads(server.messages[1].body)["messages"][-1])


def test_a_dry_run_shows_the_request_and_changes_no_byte(kernel, serve) -> None:
    server = serve(None, Script(says("hi")))
    k = kernel(server)
    k.ok("%%agent\nhello", "c1")
    before = (k.folder / "session.agent.jsonl").read_bytes()
    ran = k.ok("%%agent --dry-run\nwhat would go?", "c2")
    assert "not sent" in ran.plain and "what would go?" in ran.plain
    assert (k.folder / "session.agent.jsonl").read_bytes() == before
    assert len(server.messages) == 1


def test_without_a_key_the_demo_answers(demo_kernel: Path) -> None:
    ran = demo_kernel.ok("%%agent\nhelp", "d1")
    assert "demo provider: fixed rules, no language model" in ran.plain
    status = demo_kernel.ok("%agent")
    assert "demo" in status.text and "ANTHROPIC_API_KEY: not set" in status.text


def test_compact_and_undo_give_equal_requests_back(kernel, serve) -> None:
    big = calls(*(("read", {"path": f"f{n}.txt"}) for n in range(8)))
    k = kernel(serve(None, Script(big, says("Read."), says("Next."))))
    for n in range(8):
        (k.folder / f"f{n}.txt").write_text(f"line {n}\n" * 300)
    k.ok("%%agent\nread them", "c1")
    before = k.session().surface().messages()
    assert "nothing was changed" in k.ok("%agent compact --dry-run").text
    assert k.session().surface().messages() == before
    ran = k.ok("%agent compact --no-model --policy micro")
    assert "ompact" in ran.plain, ran.text
    assert k.session().surface().messages() != before
    k.ok("%agent undo")
    assert k.session().surface().messages() == before
    assert "did you mean" in k.run("%agent compact --polcy micro").error


def test_a_turn_in_the_background_frees_its_cell_and_takes_more_text(kernel) -> None:
    k = kernel()
    k.ok(
        "from agent_kernel.kernel import build\n"
        "from agent_kernel.providers import scripted\n"
        "slow = scripted(['word ' * 300, 'Heard both.'], delay=0.1)\n"
        "build.provider_of = lambda *_, **_more: slow"
    )
    started = k.finish(k.start("%%agent --background\ngo", "c1", stdin=True), [])
    assert started.status == "ok" and started.seconds < 5
    assert "The turn goes on as task c" in started.text
    assert k.ok("print(6 * 7)").text.strip() == "42"
    assert "running" in k.ok("%agent tasks").plain
    assert "a turn runs" in k.run("%agent step").error
    k.finish(k.start("%%agent\nand this too", "c2", stdin=True), [])
    assert "completed" in k.ok("%agent wait").text or "No task runs" in k.ok("%agent wait").text
    session = k.session()
    assert [e.type for e in session.events].count("turn/start") == 1
    assert session.state().turn_end.reason == "completed"
    assert "and this too" in str(session.surface().messages())


def test_the_live_tables_and_the_agent_are_there_for_python(kernel, serve) -> None:
    k = kernel(serve(None, Script(says("One."), says("Two."))))
    k.ok("%%agent\nhello", "c1")
    assert k.ok("print(len(get_ipython().agent.frames.turns))").text.strip() == "1"
    table = k.ok("%agent frames calls")
    assert "text/html" in table.displays[-1]["data"]
    k.ok("await get_ipython().agent('again')")
    assert k.ok("print(len(get_ipython().agent.frames.turns))").text.strip() == "2"
