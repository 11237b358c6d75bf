"""The loop: which events a turn leaves, how it ends, what it does with strange answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.core.agent import Limits
from agent_kernel.core.batch import Question, Reply
from agent_kernel.core.events import AssistantMessage, RequestContext, ToolDecision, ToolResultEvent
from agent_kernel.core.messages import Message, Text, ToolUse, Usage
from agent_kernel.core.model import BadInput, Delta, Done, ProviderError
from agent_kernel.core.query import (
    Ask,
    TurnError,
    advance,
    next_action,
    query,
    queue,
    start_turn,
)
from agent_kernel.core.replay import request_at, verify
from agent_kernel.core.session import Session
from agent_kernel.core.tool import tool
from agent_kernel.providers.scripted import scripted
from tests.runs import agent


def done(*blocks: Any, stop: str = "end_turn", bad: tuple[BadInput, ...] = ()) -> Done:
    return Done(Message("assistant", blocks), Usage(10, 5), stop, bad_inputs=bad, model="scripted")


def call(id: str, name: str = "look", **given: Any) -> ToolUse:
    return ToolUse(id, name, given or {"size": 3})


def ran(answers: list[Any], prompt: str = "go", **changes: Any) -> Session:
    session, made = Session(), replace(agent([]), provider=scripted(answers), **changes)
    asyncio.run(query(session, made, prompt))
    return session


def types(session: Session) -> list[str]:
    return [event.type for event in session.events]


def results(session: Session) -> dict[str, ToolResultEvent]:
    return {e.id: e for e in session.events if isinstance(e, ToolResultEvent)}


def end(session: Session) -> tuple[str, Any]:
    last = session.state().turn_end
    assert last is not None
    return last.reason, last.detail


def test_a_turn_leaves_exactly_these_events() -> None:
    session = ran([done(Text("I look"), call("a"), call("b"), stop="tool_use"), done(Text("Done"))])
    assert types(session) == [
        "session/header", "turn/start", "user/message", "step/start", "attachment",
        "request/header", "request/context", "assistant/message", "tool/call", "tool/call",
        "tool/decision", "tool/decision", "tool/start", "tool/start", "tool/result", "tool/result",
        "step/end", "step/start", "request/context", "assistant/message", "step/end", "turn/end",
    ]  # fmt: skip
    assert end(session) == ("completed", None)


def test_batches_are_greedy_and_results_stand_in_model_order() -> None:
    order: list[str] = []
    waits = {"a": 0.03, "b": 0.0, "c": 0.02, "d": 0.0}

    @tool(concurrent=True, read_only=True)
    async def slow(id: str) -> str:
        """Wait."""
        order.append(f"+{id}")
        await asyncio.sleep(waits[id])
        order.append(f"-{id}")
        return id

    @tool(read_only=True)
    async def alone(id: str) -> str:
        """Run alone."""
        order.append(f"+{id}")
        await asyncio.sleep(waits[id])
        order.append(f"-{id}")
        return id

    session, made = Session(), agent([])
    uses = [ToolUse(i, "slow" if i in "ab" else "alone", {"id": i}) for i in "abcd"]
    made.tools = (slow, alone)
    made.permit = lambda *_: _allowed()
    made.provider = scripted([done(*uses, stop="tool_use"), done(Text("Done"))])
    asyncio.run(query(session, made, "go"))
    assert order == ["+a", "+b", "-b", "-a", "+c", "-c", "+d", "-d"]
    assert list(results(session)) == ["a", "b", "c", "d"]


def _allowed() -> Any:
    from agent_kernel.core.batch import Judgement

    return Judgement("allow")


def test_unknown_tool_bad_input_and_denied_call_are_answered_and_the_loop_goes_on() -> None:
    session = ran(
        [
            done(
                call("a", "nothing"), call("b", "look", size="many", extra=1), call("c", "secret")
            ),
            done(Text("I see")),
        ]
    )
    said = {id: str(e.content) for id, e in results(session).items()}
    assert "no tool 'nothing'" in said["a"]
    assert "size" in said["b"]
    assert "extra" in said["b"]
    assert "Denied" in said["c"]
    assert all(e.is_error for e in results(session).values())
    assert end(session)[0] == "completed"


def test_a_call_whose_input_was_cut_never_runs_and_the_next_request_may_be_longer() -> None:
    counter: list[str] = []
    session, made = Session(), agent([], counter)
    cut = done(call("a", "touch"), stop="max_tokens", bad=(BadInput("a", "input was cut at 5"),))
    made.provider = scripted([cut, done(Text("ok"))])
    made.max_tokens = 100
    asyncio.run(query(session, made, "go"))
    assert counter == []
    assert "cut at 5" in str(results(session)["a"].content)
    sizes = [e.max_tokens for e in session.events if isinstance(e, RequestContext)]
    assert sizes == [100, 200]


def test_text_cut_at_the_limit_is_continued_three_times() -> None:
    cut = done(Text("more"), stop="max_tokens")
    session = ran([cut, cut, cut, cut, done(Text("never"))])
    assert sum(isinstance(e, AssistantMessage) for e in session.events) == 4
    assert end(session) == ("completed", "max_tokens: cut 4 times")
    assert verify(session.events).ok


@pytest.mark.parametrize(
    "answers, expected",
    [
        ([done(Text("no"), stop="refusal")], ("refused", None)),
        ([done(), done()], ("completed", "empty")),
        ([done(), done(Text("yes"))], ("completed", None)),
        ([done(Text("x"), stop="odd_reason")], ("completed", "odd_reason")),
        ([done(Text("x"), stop="tool_use")], ("completed", "tool_use")),
        ([done(call("a"), stop="end_turn"), done(Text("y"))], ("completed", None)),
        ([done(Text("x"), stop="pause_turn"), done(Text("y"))], ("completed", None)),
    ],
    ids=["refusal", "empty twice", "empty once", "unknown", "tool_use without a call",
         "call with end_turn", "pause"],
)  # fmt: skip
def test_strange_endings(answers: list[Any], expected: tuple[str, Any]) -> None:
    assert end(ran(answers)) == expected


def test_a_provider_error_ends_the_turn_as_error_and_the_next_turn_works() -> None:
    session, made = Session(), agent([])
    made.provider = scripted([ProviderError("auth", "no key"), done(Text("fine"))])
    with pytest.raises(ProviderError):
        asyncio.run(query(session, made, "go"))
    reason, detail = end(session)
    assert reason == "error"
    assert detail["kind"] == "auth"
    asyncio.run(query(session, made, "again"))
    assert end(session)[0] == "completed"


def test_a_bug_in_a_tool_ends_the_turn_as_error_with_every_call_answered() -> None:
    @tool
    async def broken(size: int) -> str:
        """Break."""
        raise ZeroDivisionError("ours")

    session, made = Session(), agent([])
    made.tools, made.permit = (broken,), lambda *_: _allowed()
    made.provider = scripted([done(call("a", "broken"), call("b", "broken")), done(Text("later"))])
    with pytest.raises(ZeroDivisionError):
        asyncio.run(query(session, made, "go"))
    assert end(session)[0] == "error"
    assert set(results(session)) == {"a", "b"}
    asyncio.run(query(session, made, "again"))
    assert verify(session.events).ok


@pytest.mark.parametrize(
    "limits, reason, limit",
    [
        (Limits(steps=3), "max_steps", "steps"),
        (Limits(tool_calls=2), "budget", "tool_calls"),
        (Limits(tokens=40), "budget", "tokens"),
        (Limits(seconds=0.0), "budget", "seconds"),
    ],
)
def test_each_limit_is_a_hard_stop(limits: Limits, reason: str, limit: str) -> None:
    many = [done(call(f"c{n}"), stop="tool_use") for n in range(60)]
    session = ran(many, limits=limits)
    said, detail = end(session)
    assert said == reason
    assert detail["limit"] == limit
    requests = sum(isinstance(e, RequestContext) for e in session.events)
    assert requests <= 4
    assert verify(session.events).ok


def test_dollars_without_a_price_do_not_start() -> None:
    session = Session()
    with pytest.raises(TurnError, match="no price"):
        start_turn(session, replace(agent([]), limits=Limits(dollars=0.5)), "go")
    assert len(session.events) == 0


def test_steering_lands_before_the_next_request() -> None:
    session, made = Session(), agent([])

    @tool(read_only=True)
    async def look(size: int) -> str:
        """Look while the person types."""
        queue(session, {"text": "also this"})
        return "seen"

    made.tools = (look,)
    made.provider = scripted([done(call("a"), stop="tool_use"), done(Text("ok"))])
    asyncio.run(query(session, made, "go"))
    _, request = request_at(session.events, 1, 2)
    assert "also this" in str(request.messages[-1])
    assert session.state().inbox == {}


def test_steering_during_the_last_answer_keeps_the_turn_going() -> None:
    session, made = Session(), agent([])

    def answer(_request: Any) -> Any:
        if not any(e.type == "inbox/queued" for e in session.events):
            queue(session, {"text": "wait"})
            return done(Text("first"))
        return done(Text("second"))

    made.provider = scripted(answer)
    outcome = asyncio.run(query(session, made, "go"))
    assert outcome.answer == "second"
    assert outcome.steps == 2


def test_nobody_there_means_denied_and_the_model_reads_why() -> None:
    session = ran([done(call("a", "touch")), done(Text("ok"))], ask=None)
    assert "nobody is there" in str(results(session)["a"].content)
    decision = next(e for e in session.events if isinstance(e, ToolDecision))
    assert (decision.verdict, decision.by) == ("deny", "policy")


def test_an_edited_input_is_judged_again_and_runs_as_edited() -> None:
    counter: list[str] = []

    async def edit(_question: Question) -> Reply:
        return Reply("allow", edited_input={"size": 9})

    session, made = Session(), replace(agent([], counter), ask=edit)
    made.provider = scripted([done(call("a", "touch")), done(Text("ok"))])
    asyncio.run(query(session, made, "go"))
    assert "touched 9" in str(results(session)["a"].content)
    assert results(session)["a"].meta["edited_by"] == "person"
    assert counter == ["a"]


def test_an_edit_that_does_not_fit_is_refused_and_nothing_runs() -> None:
    counter: list[str] = []

    async def edit(_question: Question) -> Reply:
        return Reply("allow", edited_input={"size": "much"})

    session, made = Session(), replace(agent([], counter), ask=edit)
    made.provider = scripted([done(call("a", "touch")), done(Text("ok"))])
    asyncio.run(query(session, made, "go"))
    assert counter == []
    assert results(session)["a"].is_error


async def _cancelled(session: Session, made: Any, reached: asyncio.Event) -> None:
    task = asyncio.ensure_future(query(session, made, "go"))
    await asyncio.wait_for(reached.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_interrupt_in_a_stream_keeps_the_text_so_far() -> None:
    session, made, reached = Session(), agent([]), asyncio.Event()
    made.provider = scripted([done(Text("word " * 200), call("a"))], delay=0.01)
    made.on_stream = lambda event: reached.set() if isinstance(event, Delta) else None
    asyncio.run(_cancelled(session, made, reached))
    answer = session.state().answer
    assert answer is not None
    assert answer.interrupted
    assert "word" in str(answer.content)
    assert end(session) == ("interrupted", "stream")
    asyncio.run(query(session, agent([[]]), "again"))
    assert verify(session.events).ok


@pytest.mark.parametrize("where", ["tools", "approval"])
def test_interrupt_in_a_tool_or_an_approval_answers_the_calls(where: str) -> None:
    session, made, reached = Session(), agent([]), asyncio.Event()

    @tool(read_only=True)
    async def look(size: int) -> str:
        """Look for ever."""
        reached.set()
        await asyncio.sleep(60)
        return "never"

    async def ask(_question: Question) -> Reply:
        reached.set()
        await asyncio.sleep(60)
        return Reply("allow")

    made.ask = ask
    if where == "tools":
        made.tools = (look,)
    made.provider = scripted([done(call("a", "look" if where == "tools" else "touch"))])
    asyncio.run(_cancelled(session, made, reached))
    assert end(session) == ("interrupted", where)
    assert results(session)["a"].is_error
    asyncio.run(query(session, agent([[]]), "again"))
    assert verify(session.events).ok


def test_stepping_shows_each_action_before_it_happens() -> None:
    session, made = Session(), agent([[[("touch", 1)]]])
    start_turn(session, made, "go")
    seen = []
    for _ in range(20):
        action = asyncio.run(advance(session, made))
        seen.append(type(action).__name__)
        if seen[-1] == "End":
            break
    assert seen == ["Attach", "Call", "RunBatch", "Ask", "RunBatch", "Call", "End"]
    assert not isinstance(next_action(session, made), Ask)


def test_a_large_result_is_cut_with_the_whole_in_a_blob() -> None:
    session, made = Session(), agent([])

    @tool(read_only=True)
    async def look(size: int) -> str:
        """Return much."""
        return "é" * size

    made.tools = (look,)
    made.provider = scripted([done(call("a", size=5_000_000)), done(Text("ok"))])
    asyncio.run(query(session, made, "go"))
    result = results(session)["a"]
    text = str(result.content[0].text)  # type: ignore[union-attr]
    assert len(text.encode()) <= 50_000
    assert result.meta["original_bytes"] == 10_000_000
    assert session.blobs.get(result.meta["blob"]).decode() == "é" * 5_000_000
