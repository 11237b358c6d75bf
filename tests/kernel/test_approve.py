"""Approvals: by input() where a person is, by policy where none is, by command at a stop."""

from __future__ import annotations

import json

import pytest

from tests.kernel.live import Script, calls, says

pytestmark = pytest.mark.kernel
TOUCH = calls(("bash", {"command": "touch made"}))


def decisions(k) -> list[tuple[str, str]]:
    """Verdict and who decided, in order."""
    return [(e.verdict, e.by) for e in k.session().events if e.type == "tool/decision"]


def test_yes_at_the_prompt_runs_the_call(kernel, serve) -> None:
    k = kernel(serve(None, Script(TOUCH, says("Done."))))
    ran = k.ok("%%agent\nmake it", "c1", stdin=["y"])
    assert "touch made" in ran.prompts[0] and "[y] once" in ran.prompts[0]
    assert (k.folder / "made").exists()
    assert decisions(k) == [("allow", "person")]


def test_no_at_the_prompt_runs_nothing_and_the_model_reads_why(kernel, serve) -> None:
    server = serve(None, Script(TOUCH, says("Understood.")))
    k = kernel(server)
    k.ok("%%agent\nmake it", "c1", stdin=["n use a list instead"])
    assert not (k.folder / "made").exists()
    assert "use a list instead" in json.dumps(json.loads(server.messages[1].body)["messages"])
    assert decisions(k) == [("deny", "person")]


def test_for_this_turn_asks_once_for_a_tool(kernel, serve) -> None:
    two = calls(("python", {"code": "a = 1"}), ("python", {"code": "b = a + 1"}))
    k = kernel(serve(None, Script(two, says("Done."))))
    ran = k.ok("%%agent\nmake it", "c1", stdin=["t"])
    assert len(ran.prompts) == 1
    assert k.ok("print(a + b)").text.strip() == "3"


def test_without_a_person_every_ask_is_denied_and_names_the_rule(kernel, serve) -> None:
    server = serve(None, Script(TOUCH, says("Could not.")))
    k = kernel(server)
    k.ok("%%agent\nmake it", "c1")
    assert not (k.folder / "made").exists()
    assert decisions(k) == [("deny", "policy")]
    assert "nobody is here to ask" in server.messages[1].body.decode()


def test_a_hidden_character_is_spelled_at_the_prompt(kernel, serve) -> None:
    sly = calls(("bash", {"command": "echo a\u202eb\x1b[2K > made"}))
    k = kernel(serve(None, Script(sly, says("Done."))))
    ran = k.ok("%%agent\nmake it", "c1", stdin=["n"])
    assert "\u202e" not in ran.prompts[0] and "\x1b" not in ran.prompts[0]


def test_a_stopped_turn_takes_approve_deny_skip_and_answer(kernel, serve) -> None:
    four = calls(*(("bash", {"command": f"touch made{n}"}) for n in range(4)))
    server = serve(None, Script(four, says("Done.")))
    k = kernel(server)
    k.ok("%%agent --step\nmake them", "c1")
    k.ok("%agent step model")
    ids = [e.id for e in k.session().events if e.type == "tool/call"]
    short = ["".join(c for c in i if c.isalnum())[-6:] for i in ids]
    k.ok(f'%agent skip {short[0]}\n%agent answer {short[1]} "I did it"')
    k.finish(k.start("%agent step", stdin=True), ["y"])
    ran = k.run(f"%agent deny {short[3]} later")
    assert "does not wait" in ran.error
    k.ok("%agent continue", stdin=["y", "n", "n"])
    made = sorted(p.name for p in k.folder.glob("made*"))
    assert made == ["made2"]
    results = {e.id: e for e in k.session().events if e.type == "tool/result"}
    assert results[ids[0]].meta["error_kind"] == "skipped"
    assert results[ids[1]].meta["by"] == "person" and not results[ids[1]].is_error


def test_the_ask_tool_reaches_the_person(kernel, serve) -> None:
    ask = calls(("ask", {"question": "Which one?", "options": ["red", "blue"]}))
    server = serve(None, Script(ask, says("Blue it is.")))
    k = kernel(server)
    ran = k.ok("%%agent\npick", "c1", stdin=["2"])
    assert "1. red" in ran.prompts[0]
    assert "blue" in json.dumps(json.loads(server.messages[1].body)["messages"][-1])
