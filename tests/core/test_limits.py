"""Limits: told at four fifths, ended at the whole, children counted, equal calls noticed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.core.agent import Limits
from agent_kernel.core.events import Attachment, BudgetSet, StepStart
from agent_kernel.core.limits import over_limits, spent
from agent_kernel.core.messages import Message, Text, ToolUse, Usage, text_of
from agent_kernel.core.model import Done, ModelProfile
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.providers.scripted import scripted
from tests.runs import agent

NONE = Limits(None, None, None, None, None)


def done(*blocks: Any, usage: Usage | None = None) -> Done:
    stop = "tool_use" if any(isinstance(b, ToolUse) for b in blocks) else "end_turn"
    return Done(Message("assistant", blocks), usage or Usage(10, 5), stop, model="scripted")


def look(at: int, size: int | None = None) -> Done:
    return done(ToolUse(f"c{at}", "look", {"size": at if size is None else size}))


def ran(answers: list[Any], **changes: Any) -> Session:
    session = Session()
    asyncio.run(query(session, replace(agent([]), provider=scripted(answers), **changes), "go"))
    return session


def reminders(session: Session, label: str) -> list[Attachment]:
    found = [e for e in session.events if isinstance(e, Attachment) and e.kind == "reminder"]
    return [e for e in found if e.label == label]


@pytest.mark.parametrize(
    "limits,answers,word",
    [
        (Limits(5, None, None, None, None), [look(n) for n in range(9)], "steps"),
        (Limits(None, 5, None, None, None), [look(n) for n in range(9)], "tool_calls"),
        (Limits(None, None, 75, None, None), [look(n) for n in range(9)], "tokens"),
    ],
)
def test_at_four_fifths_person_and_model_are_told_once_then_the_turn_ends(
    limits: Limits, answers: list[Any], word: str
) -> None:
    session = ran(answers, limits=limits)
    (told,) = reminders(session, "budget")
    assert text_of(told.content).startswith("<system-reminder>\n80% of the turn's")
    assert word in text_of(told.content)
    assert "1 left" in text_of(told.content) or "15 left" in text_of(told.content)
    assert not told.hidden
    end = session.state().turn_end
    assert end is not None
    assert end.reason == ("max_steps" if word == "steps" else "budget")
    seen = [text_of(r.messages[-1].content) for _, r in requests(session.events)]
    assert "80% of the turn's" in seen[-1]
    assert len(seen) == 5
    assert verify(session.events).ok


def test_dollars_are_counted_by_price_and_told() -> None:
    usage = Usage(10_000, 1_000)
    answers = [done(ToolUse(f"c{n}", "look", {"size": n}), usage=usage) for n in range(9)]
    limits = Limits(None, None, None, 0.25, None)
    session = ran(answers, limits=limits, model="claude-sonnet-4-5")
    (told,) = reminders(session, "budget")
    assert "dollars" in text_of(told.content)
    assert session.state().turn_end.reason == "budget"  # type: ignore[union-attr]


def test_a_session_limit_is_told_once_a_session_and_ends_a_later_turn() -> None:
    session = Session()
    session.append(BudgetSet(scope="notebook", limits={"steps": 5}))
    made = replace(
        agent([]),
        provider=scripted([look(1), look(2), done(Text("one")), look(3), done(Text("two"))]),
        session_limits=replace(NONE, steps=5),
    )
    asyncio.run(query(session, made, "one"))
    assert reminders(session, "budget") == []
    asyncio.run(query(session, made, "two"))
    assert len(reminders(session, "budget")) == 1
    assert "of the session's steps" in text_of(reminders(session, "budget")[0].content)
    assert sum(isinstance(e, StepStart) for e in session.events) == 5
    stop = over_limits(session, made)
    assert stop is not None
    assert stop.reason == "max_steps"


def test_the_same_call_three_five_and_eight_times_is_said_more_sharply_each_time() -> None:
    session = ran([*[look(n, size=7) for n in range(9)], done(Text("enough"))])
    told = [text_of(e.content) for e in reminders(session, "repeat")]
    assert [text.split(":")[0].split()[1] for text in told] == ["look"] * 3
    assert "3 times" in told[0]
    assert "5 times" in told[1]
    assert "\nlook: 8 equal calls. Stop" in told[2]
    assert verify(session.events).ok


def test_key_order_does_not_make_another_call_and_another_turn_counts_anew() -> None:
    one = {"a": 1, "b": {"x": 1, "y": 2}}
    other = json.loads('{"b": {"y": 2, "x": 1}, "a": 1}')
    calls = [done(ToolUse(f"c{n}", "missing", one if n % 2 else other)) for n in range(3)]
    session = ran([*calls, done(Text("ok"))])
    assert len(reminders(session, "repeat")) == 1
    made = replace(
        agent([]), provider=scripted([done(ToolUse("d", "missing", one)), done(Text("ok"))])
    )
    asyncio.run(query(session, made, "again"))
    assert len(reminders(session, "repeat")) == 1


def test_three_equal_calls_of_one_batch_are_one_reminder() -> None:
    calls = [ToolUse(f"c{n}", "look", {"size": 1}) for n in range(4)]
    session = ran([done(*calls), done(Text("ok"))])
    assert len(reminders(session, "repeat")) == 1
    assert "4 times" in text_of(reminders(session, "repeat")[0].content)


def test_what_a_turns_agents_spend_is_the_turns() -> None:
    session = ran([look(1), done(Text("ok"))])
    assert {name: usage.total for name, usage in spent(session, "main").items()} == {"main": 30}


WIDE = ModelProfile("scripted", max_output=64_000)


def test_the_next_request_may_answer_with_no_more_than_is_left() -> None:
    answers = [*(look(n) for n in range(3)), done(Text("ok"))]
    limits = replace(NONE, tokens=20_000)
    session = ran(answers, limits=limits, max_tokens=19_990, profile=WIDE)
    held = [r.max_tokens for _, r in requests(session.events)]
    assert len(held) == 4
    assert held == sorted(held, reverse=True)
    assert 256 <= held[-1] < held[0] <= 19_990
    free = ran(answers, limits=NONE, max_tokens=19_990, profile=WIDE)
    assert {r.max_tokens for _, r in requests(free.events)} == {19_990}
    assert verify(session.events).ok


def test_dollars_left_bound_the_answer_by_its_price() -> None:
    usage = Usage(10_000, 1_000)  # $0.045 a request at $3 and $15 a million
    answers = [done(ToolUse(f"c{n}", "look", {"size": n}), usage=usage) for n in range(9)]
    limits = Limits(None, None, None, 0.2, None)
    session = ran(
        answers, limits=limits, model="claude-sonnet-4-5", max_tokens=16_000, profile=WIDE
    )
    asked = [r.max_tokens for _, r in requests(session.events)]
    assert len(asked) == 5
    assert asked[0] <= 0.2 * 1e6 / 15
    assert asked[-1] <= 0.02 * 1e6 / 15 + 1
