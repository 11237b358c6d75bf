"""Ask again: one past request several times; no tool runs, the parent's log stays as it is."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from agent_kernel import frames
from agent_kernel.core.events import Sample
from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.model import ProviderError
from agent_kernel.core.query import query
from agent_kernel.core.replay import request_at, verify
from agent_kernel.core.session import Session
from agent_kernel.kernel.again import Wish, ask
from agent_kernel.kernel.edits import EditError
from agent_kernel.providers.scripted import scripted
from agent_kernel.widgets import samples
from agent_kernel.widgets.bundle import of_blocks
from tests.runs import agent

LOOK = Message("assistant", (Text("I look"), ToolUse("a", "look", {"size": 3})))


def recorded(path: Path) -> Session:
    session = Session.open(path)
    asyncio.run(query(session, replace(agent([]), provider=scripted([LOOK, "Three."])), "Look."))
    session.log.sync()
    return session


def test_five_answers_are_counted_by_action_and_no_tool_runs(tmp_path: Path) -> None:
    path, ran = tmp_path / "s.agent.jsonl", list[str]()
    session = recorded(path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    touch = Message("assistant", (ToolUse("b", "touch", {"size": 1}),))
    refused = ProviderError("overloaded", "too many")
    sent: list[bytes] = []

    def answer(request):
        sent.append(request.body)
        return [LOOK, touch, "No idea.", touch, refused][len(sent) - 1]

    made = replace(agent([], ran), provider=scripted(answer))
    branch = asyncio.run(ask(session, made, (1, 1), 5, Wish()))
    assert sent == [request_at(session.events, 1, 1)[1].body] * 5, "the same bytes, five times"
    assert not ran and hashlib.sha256(path.read_bytes()).hexdigest() == before
    found = [e for e in branch.log.own_events if isinstance(e, Sample)]
    assert [e.n for e in found] == [1, 2, 3, 4, 5] and found[0].usage.output
    table = frames.of(branch).samples
    assert sorted(table["action"].dropna()) == ["error", "text", "tool", "tool", "tool"]
    assert table["tool"].value_counts().to_dict() == {"touch": 2, "look": 1}
    kept = tmp_path / "s.agent" / "branches" / "again-1.1-1.jsonl"
    assert list(frames.load(kept).samples["input"].dropna()).count('{"size": 1}') == 2
    reopened = Session.open(kept)
    assert verify(reopened.events).ok and not reopened.state().calls
    said = str(of_blocks(samples.view(found, branch="x"))["text/plain"])
    assert "touch 2, look 1, text 1, error 1" in said and "no tool was run" in said
    session.close()


def test_the_wish_is_what_is_sent_and_its_absence_is_said(tmp_path: Path) -> None:
    session = recorded(tmp_path / "s.agent.jsonl")
    seq = next(e.seq for e in session.events if e.type == "tool/result")
    sent = []
    made = replace(agent([]), provider=scripted(lambda r: (sent.append(r), "ok")[1]))
    wish = Wish(edit=(seq, "nothing there"), without=("touch",), model="other")
    branch = asyncio.run(ask(session, made, (1, 2), 1, wish))
    (request,) = sent
    assert b"nothing there" in request.body and b"xxx" not in request.body
    assert "touch" not in [tool.name for tool in request.tools] and request.model == "other"
    assert branch.events[-1].changes == {"edit": seq, "without": ["touch"], "model": "other"}
    with pytest.raises(KeyError, match="no tool 'nope'"):
        asyncio.run(ask(session, made, (1, 1), 1, Wish(without=("nope",))))
    with pytest.raises(EditError, match=r"was not in that request|is not in the log"):
        asyncio.run(ask(session, made, (1, 1), 1, Wish(edit=(seq, "x"))))
    with pytest.raises(KeyError, match=r"no request 7\.1"):
        asyncio.run(ask(session, made, (7, 1), 1, Wish()))
    assert len(sent) == 1
    session.close()
