"""Pins: what a person keeps is in every later request; what they drop is a line, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel import compaction
from agent_kernel.core.calling import build, compact
from agent_kernel.core.events import AssistantMessage, Attachment, ToolResultEvent, UserMessage
from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.pins import PinError, drop, pin, undrop
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from tests.sections.conftest import Desk, names, text


def reads(*ids: str) -> Message:
    return Message("assistant", [Text("I look."), *(ToolUse(i, "read", {"path": f"{i}.txt"})
                                                    for i in ids)])  # fmt: skip


async def test_pinned_text_is_in_every_later_request(desk: Desk) -> None:
    desk.changes["strategies"] = compaction.ALL
    await desk.say("the port is 4711, keep it")
    await desk.say("the colour is mauve")
    pinned = names(desk.session.events, UserMessage)[-1].seq
    pin(desk.session, pinned)
    for n in range(4):
        await desk.say(f"{n} " * 2_000)
    before = len(desk.sent())
    for _ in range(2):
        nodes = desk.session.surface().nodes
        span = (nodes[0].seq, nodes[-1].seq)
        agent = desk.agent()
        await agent.refresh(desk.session)
        await compact(desk.session, agent, "manual", span=span, use_model=False)
        await desk.say("and now? " * 400)
    assert all("mauve" in text(request) for request in desk.sent()[before:])
    with pytest.raises(PinError, match="seq 99999 is not on the surface"):
        pin(desk.session, 99_999)
    pin(desk.session, pinned, on=False)
    assert pinned not in desk.session.pins


async def test_a_dropped_result_keeps_its_call_and_comes_back_byte_for_byte(desk: Desk) -> None:
    desk.file("a.txt", "ALPHA\n")
    desk.file("b.txt", "BETA\n")
    await desk.say("read both", reads("a", "b"))
    await desk.say("go on")
    agent = desk.agent()
    await agent.refresh(desk.session)
    before = build(desk.session, agent)[0]
    result = next(e for e in names(desk.session.events, ToolResultEvent) if e.id == "a")
    made = drop(desk.session, result.seq)
    assert isinstance(made, ToolResultEvent)
    request, _, violations = build(desk.session, agent)
    assert [v.rule for v in violations] == ["V5"]  # it ends in an answer: no turn is open
    assert "ALPHA" not in text(request)
    assert "BETA" in text(request)
    assert f"[seq {result.seq} was dropped by the person]" in text(request)
    assert undrop(desk.session, made.seq) == [result.seq]
    assert build(desk.session, agent)[0].digest == before.digest
    await desk.say("and after")
    assert verify(desk.session.events).ok


async def test_a_dropped_answer_goes_with_its_results_and_survives_a_reopening(
    desk: Desk, tmp_path: Path
) -> None:
    desk.session = Session.open(tmp_path / "a.agent.jsonl")
    desk.file("a.txt", "ALPHA\n")
    desk.file("b.txt", "BETA\n")
    await desk.say("read both", reads("a", "b"))
    await desk.say("go on")
    answer = names(desk.session.events, AssistantMessage)[0]
    made = drop(desk.session, answer.seq)
    assert isinstance(made, Attachment)
    both = [e.seq for e in names(desk.session.events, ToolResultEvent)]
    assert made.meta["dropped"][0] == answer.seq
    assert set(both) < set(made.meta["dropped"])
    desk.session.close()
    desk.session = Session.open(tmp_path / "a.agent.jsonl")
    await desk.say("after")
    last = text(desk.sent()[-1])
    assert "ALPHA" not in last
    assert "BETA" not in last
    assert last.count("was dropped by the person") == 1
    first = desk.sent()[-2]
    assert "ALPHA" in text(first)  # what was sent before stays what it was
    undrop(desk.session, made.seq)
    await desk.say("and back")
    assert "ALPHA" in text(desk.sent()[-1])
    desk.session.close()


async def test_what_may_not_be_dropped_says_why_and_changes_nothing(desk: Desk) -> None:
    await desk.say("hello")
    await desk.say("again")
    context = next(e for e in names(desk.session.events, Attachment) if e.label == "environment")
    words = names(desk.session.events, UserMessage)[0]
    pin(desk.session, words.seq)
    count = len(desk.session.events)
    with pytest.raises(PinError, match="attached again at once"):
        drop(desk.session, context.seq)
    with pytest.raises(PinError, match=f"seq {words.seq} is pinned"):
        drop(desk.session, words.seq)
    with pytest.raises(PinError, match="is no drop"):
        undrop(desk.session, words.seq)
    assert len(desk.session.events) == count
