"""Secrets in the loop: a call runs with its true input once, and never with a mask of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_kernel.core.batch import Judgement, Question, Reply
from agent_kernel.core.events import Event, ToolCall, ToolDecision, ToolResultEvent
from agent_kernel.core.messages import Json, Message, Text, ToolUse
from agent_kernel.core.query import advance, query, start_turn
from agent_kernel.core.session import Session
from agent_kernel.core.tool import tool
from agent_kernel.providers.scripted import scripted
from tests.runs import agent

SECRET = "hunter2-" + "planted"


def mask(wire: Json) -> Json:
    """A redaction of one word, as the roof's of many."""
    return dict(json.loads(json.dumps(wire).replace(SECRET, "[redacted:x]")))


def made(ran: list[str], said: list[object], reply: Reply | None = None):  # type: ignore[no-untyped-def]
    @tool
    async def note(text: str) -> str:
        """Note a text."""
        ran.append(text)
        return text * 3_000

    async def ask(_question: Question) -> Reply:
        assert reply is not None
        return reply

    found = agent([[]])
    found.provider = scripted(said)  # type: ignore[arg-type]
    found.tools = (note,)
    found.permit = lambda *_: Judgement("ask" if reply else "allow")
    found.ask = ask
    return found


def call(text: str, id: str = "c1") -> Message:
    return Message("assistant", (Text("so"), ToolUse(id, "note", {"text": text})))


def opened(place: Path) -> Session:
    return Session.open(place / "a.agent.jsonl", redact=mask)


def results(session: Session) -> list[str]:
    return [e.content[0].text for e in session.events if isinstance(e, ToolResultEvent)]  # type: ignore[union-attr]


async def test_the_true_input_runs_once_and_its_long_result_is_masked_before_it_is_cut(
    tmp_path: Path,
) -> None:
    session, ran = opened(tmp_path), list[str]()
    await query(session, made(ran, [call(f"a {SECRET} b "), "done"]), "go")
    assert ran == [f"a {SECRET} b "]
    assert not session.true_inputs
    session.close()
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    assert "hunter2" not in results(session)[0]


@pytest.mark.parametrize(
    "last,reply", [(ToolCall, None), (ToolDecision, None), (ToolDecision, Reply("allow"))]
)
async def test_after_a_restart_a_masked_input_never_runs(
    tmp_path: Path, last: type[Event], reply: Reply | None
) -> None:
    """Wherever the process ended: before the judgement, after it, or after a person's answer."""
    said = [call(f"a {SECRET}"), "done"]
    session, ran = opened(tmp_path), list[str]()
    start_turn(session, made(ran, said), "go")
    first = made(ran, said, reply)
    while not any(isinstance(e, last) for e in session.events):
        await advance(session, first)
    session.close()
    lines = (tmp_path / "a.agent.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"tool/start"' not in line and b'"tool/result"' not in line]
    (tmp_path / "a.agent.jsonl").write_bytes(b"".join(kept))
    ran.clear()
    again = opened(tmp_path)
    again.resume()
    await query(again, made(ran, ["done"]))
    assert ran == []
    assert results(again) == ["its input held a secret that was not kept; make the call again"]


@pytest.mark.parametrize("text", [f"edited {SECRET}", "edited, clean"])
async def test_an_edited_input_runs_as_it_was_edited(tmp_path: Path, text: str) -> None:
    session, ran = opened(tmp_path), list[str]()
    reply = Reply("allow", edited_input={"text": text})
    await query(session, made(ran, [call(f"a {SECRET}"), "done"], reply), "go")
    assert ran == [text]
    assert SECRET.encode() not in (tmp_path / "a.agent.jsonl").read_bytes()


async def test_another_agents_answer_takes_no_true_input_away(tmp_path: Path) -> None:
    session, ran = opened(tmp_path), list[str]()
    mine = made(ran, [call(f"a {SECRET}"), "done"])
    start_turn(session, mine, "go")
    while "c1" not in session.state().calls:
        await advance(session, mine)
    other = made(ran, [call("theirs", "c2"), "done"])
    other.id = "b1"
    await query(session, other, "go")
    await query(session, mine)
    assert ran == ["theirs", f"a {SECRET}"]


def test_a_files_content_with_a_secret_is_named_but_not_kept(tmp_path: Path) -> None:
    session = opened(tmp_path)
    clean, held = session.keep(b"plain"), session.keep(f"x = {SECRET}\n".encode())
    assert session.blobs.get(clean) == b"plain"
    assert session.blobs.missing(held)
