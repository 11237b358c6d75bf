"""Edits: a branch with other content in an event's place, its parent untouched, its prefix free."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.agent import Agent
from agent_kernel.core.events import AssistantMessage, RequestContext, ToolResultEvent, UserMessage
from agent_kernel.core.messages import Message, Text, ToolUse, Usage
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.validate import validate_messages
from agent_kernel.kernel.edits import EditError, edit, text_at
from agent_kernel.providers.scripted import scripted
from tests.runs import agent


def recorded(path: Path, counter: list[str]) -> Session:
    """A turn of two steps: two calls together, one with a side effect, then the answer."""
    first = Message(
        "assistant",
        (Text("I look"), ToolUse("a", "look", {"size": 3}), ToolUse("b", "look", {"size": 5})),
    )
    second = Message("assistant", (Text("I touch"), ToolUse("c", "touch", {"size": 1})))
    session = Session.open(path)
    made = replace(agent([], counter), provider=scripted([first, second, "All done."]))
    asyncio.run(query(session, made, "Look at it."))
    session.log.sync()
    return session


def seq_of(session: Session, kind: type, at: int = 0) -> int:
    return [e.seq for e in session.events if isinstance(e, kind)][at]


def go_on(branch: Session, counter: list[str], *answers: Any) -> Agent:
    made = replace(agent([], counter), provider=scripted(list(answers)))
    asyncio.run(query(branch, made))
    return made


def bodies(session: Session) -> list[bytes]:
    """Every request as it was sent."""
    return [request.body for _context, request in requests(session.events)]


@pytest.mark.parametrize("at", [0, 1])
def test_an_edited_result_is_what_the_next_request_holds_and_the_parent_stays(
    tmp_path: Path, at: int
) -> None:
    path, counter = tmp_path / "s.agent.jsonl", list[str]()
    session = recorded(path, counter)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    seq = seq_of(session, ToolResultEvent, at)
    branch = edit(session, seq, "nothing at all", name="other")
    own = list(branch.log.own_events)
    assert [e.type for e in own] == ["session/header", "tool/result"]
    assert own[0].forked_from["edited"] == seq and own[1].sources == (seq,)
    assert own[0].forked_from["session"] == session.id
    sent = sum(isinstance(e, RequestContext) for e in branch.events)
    assert sent == 1, "the prefix is read from the parent, no request was made for it"
    go_on(branch, counter, "Then nothing is there.")
    assert b"nothing at all" in bodies(branch)[-1] and b"xxx" in bodies(session)[-1]
    assert verify(branch.events).ok
    assert counter == ["c"], "the branch never came to the call of the parent's second step"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    branch.close()
    reopened = Session.open(tmp_path / "s.agent" / "branches" / "other.jsonl")
    assert bodies(reopened) == bodies(branch) and reopened.state().turn_end.reason == "completed"
    session.close()


def test_an_edited_prompt_runs_the_turn_again_from_its_beginning(tmp_path: Path) -> None:
    session = recorded(tmp_path / "s.agent.jsonl", [])
    branch = edit(session, seq_of(session, UserMessage), "Look at something else.")
    go_on(branch, [], "Other.")
    assert b"something else" in bodies(branch)[0] and b"Look at it." not in bodies(branch)[0]
    assert [e.type for e in branch.log.own_events][:2] == ["session/header", "user/message"]
    assert branch.state().turn == 1 and branch.state().answer.content[0].text == "Other."
    session.close()


def test_an_edited_input_is_called_again_and_judged_again(tmp_path: Path) -> None:
    counter: list[str] = []
    session = recorded(tmp_path / "s.agent.jsonl", counter)
    call = next(e for e in session.events if e.type == "tool/call" and e.name == "touch")
    assert text_at(session.events, call.seq) == {"size": 1}
    branch = edit(session, call.seq, {"size": 2})
    go_on(branch, counter, "Touched twice.")
    own = [e.type for e in branch.log.own_events]
    assert own[:4] == ["session/header", "assistant/message", "tool/call", "tool/ask"]
    results = [e for e in branch.events if isinstance(e, ToolResultEvent) and e.id == "c"]
    assert results[-1].content[0].text == "touched 2" and counter == ["c", "c"]
    assert verify(branch.events).ok
    session.close()


def test_an_edited_answer_is_what_later_turns_see_and_costs_nothing(tmp_path: Path) -> None:
    session = recorded(tmp_path / "s.agent.jsonl", [])
    seq = seq_of(session, AssistantMessage, -1)
    branch = edit(session, seq, "It was all wrong.")
    assert branch.log.own_events[1].usage == Usage(), "paid for once, in the parent"
    made = go_on(branch, [], "I see.")
    spent = branch.state().session_usage
    assert spent == session.state().session_usage
    asyncio.run(query(branch, made, "Really?"))
    assert b"It was all wrong." in bodies(branch)[-1] and b"All done." not in bodies(branch)[-1]
    session.close()


def test_every_event_the_model_saw_can_be_edited_and_leaves_a_valid_request(tmp_path: Path) -> None:
    session = recorded(tmp_path / "s.agent.jsonl", [])
    profile = ModelProfile("m")
    edited, refused = 0, list[str]()
    for event in session.events:
        content: Any = {"size": 9} if event.type == "tool/call" else "other"
        try:
            branch = edit(session, event.seq, content)
        except EditError as error:
            refused.append(str(error))
            continue
        edited += 1
        asyncio.run(query(branch, replace(agent([]), provider=scripted(["ok", "ok", "ok"]))))
        messages = branch.surface().messages()
        assert not list(validate_messages(messages, profile, sendable=False))
        assert verify(branch.events).ok
        branch.close()
    assert edited == 1 + 3 + 3 + 3  # the prompt, answers, calls, results
    assert len(refused) == len(session.events) - edited
    assert all(re.match(r"seq \d+ is a ", each) for each in refused)
    session.close()


def test_what_cannot_be_edited_is_one_line_naming_the_seq(tmp_path: Path) -> None:
    session = recorded(tmp_path / "s.agent.jsonl", [])
    with pytest.raises(EditError, match=r"seq 0 is a session/header; only a message"):
        edit(session, 0, "x")
    with pytest.raises(EditError, match="seq 999 is not in the log"):
        edit(session, 999, "x")
    call = next(e.seq for e in session.events if e.type == "tool/call")
    with pytest.raises(EditError, match="its input as a JSON object"):
        edit(session, call, "x")
    assert not (tmp_path / "s.agent").exists(), "nothing was written"
    session.close()
