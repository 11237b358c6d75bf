"""One turn at a time: words that join it, words that stop it, turns that nobody typed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Reply
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    InboxDropped,
    InboxQueued,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Message, Text, ToolUse, Usage, text_of
from agent_kernel.core.model import Done, Request
from agent_kernel.core.query import drop, query, queue, reword
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Ended, Task, Tasks
from agent_kernel.core.tool import Tool, tool
from agent_kernel.core.waking import in_background, may_wake, settle, wake, watch
from agent_kernel.providers.scripted import scripted
from tests.runs import agent


def done(*blocks: Any) -> Done:
    stop = "tool_use" if any(isinstance(b, ToolUse) for b in blocks) else "end_turn"
    return Done(Message("assistant", blocks), Usage(10, 5), stop, model="scripted")


def made(answers: Any, session: Session, **changes: Any) -> Agent:
    return replace(agent([]), provider=scripted(answers), tasks=Tasks(session), **changes)


def kinds(session: Session, kind: type[Any]) -> list[Any]:
    return [e for e in session.events if isinstance(e, kind)]


# ---- one turn a session (F1.7) -------------------------------------------------------------------


def test_two_queries_at_once_are_one_turn_with_both_texts() -> None:
    async def answer(request: Request) -> Any:
        await asyncio.sleep(0.05)
        if "second" in str(request.messages[-1].wire()):
            return done(Text("both"))
        return done(ToolUse("a", "look", {"size": 1}))

    session = Session()
    main = made(answer, session)

    async def both() -> list[Any]:
        first = asyncio.ensure_future(query(session, main, "first"))
        await asyncio.sleep(0.01)
        return list(await asyncio.gather(first, query(session, main, "second")))

    outcomes = asyncio.run(both())
    assert [o.answer for o in outcomes] == ["both", "both"]
    assert len(kinds(session, TurnStart)) == len(kinds(session, TurnEnd)) == 1
    assert [text_of(e.content) for e in kinds(session, UserMessage)] == ["first", "second"]
    assert verify(session.events).ok


def test_words_that_come_after_the_last_answer_get_a_turn_of_their_own() -> None:
    session = Session()
    main = made([done(Text("one")), done(Text("two"))], session)

    async def after() -> Any:
        first = asyncio.ensure_future(query(session, main, "first"))
        while not kinds(session, TurnEnd):
            await asyncio.sleep(0)
        return await query(session, main, "second"), await first

    second, first = asyncio.run(after())
    assert (first.answer, second.answer) == ("one", "two")
    assert len(kinds(session, TurnStart)) == 2
    assert session.driven == {}


def test_words_for_a_turn_that_was_interrupted_start_their_own() -> None:
    session = Session()
    reached = asyncio.Event()

    async def answer(_request: Request) -> Any:
        if reached.is_set():
            return done(Text("mine"))
        reached.set()
        return await asyncio.sleep(60)

    main = made(answer, session)

    async def cut() -> Any:
        first = asyncio.ensure_future(query(session, main, "first"))
        await reached.wait()
        second = asyncio.ensure_future(query(session, main, "second"))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        return await second

    assert asyncio.run(cut()).answer == "mine"
    assert [e.reason for e in kinds(session, TurnEnd)] == ["interrupted", "completed"]
    assert kinds(session, InboxDropped)[0].why == "the turn it was for ended first"
    assert session.state().inbox == {}


# ---- priorities (F6.5, F6.9) ---------------------------------------------------------------------


@pytest.mark.parametrize("where", ["stream", "tool", "approval"])
def test_words_for_now_stop_what_runs_and_are_read_next(where: str) -> None:
    session = Session()
    reached = asyncio.Event()
    asked: list[Request] = []

    async def answer(request: Request) -> Any:
        asked.append(request)
        if len(asked) > 1:
            return done(Text("I stop"))
        if where == "stream":
            reached.set()
            return await asyncio.sleep(60)
        return done(ToolUse("w", "slow" if where == "tool" else "touch", {"size": 1}))

    @tool(read_only=True)
    async def slow(size: int) -> str:
        """Take long."""
        reached.set()
        await asyncio.sleep(60)
        return "never"

    async def ask(_question: Any) -> Any:
        reached.set()
        return await asyncio.sleep(60)

    main = made(answer, session, ask=ask)
    main.tools = (*main.tools, slow)
    judge = main.permit
    main.permit = lambda t, v, c: judge(replace(t, name="look") if t.name == "slow" else t, v, c)

    async def now() -> Any:
        running = asyncio.ensure_future(query(session, main, "go"))
        await reached.wait()
        queue(session, {"text": "stop that"}, "now")
        return await asyncio.wait_for(running, 10)

    assert asyncio.run(now()).answer == "I stop"
    assert "stop that" in text_of(asked[1].messages[-1].content)
    if where != "stream":
        (result,) = kinds(session, ToolResultEvent)
        assert result.is_error
        assert "the person wrote something" in text_of(result.content)
    assert [e.reason for e in kinds(session, TurnEnd)] == ["completed"]
    assert verify(session.events).ok


def test_a_real_interrupt_is_no_word_for_now() -> None:
    session = Session()

    async def answer(_request: Request) -> Any:
        return await asyncio.sleep(60)

    main = made(answer, session)

    async def cut() -> None:
        running = asyncio.ensure_future(query(session, main, "go"))
        await asyncio.sleep(0.05)
        running.cancel()
        queue(session, {"text": "too"}, "now")
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cut())
    assert kinds(session, TurnEnd)[0].reason == "interrupted"


def test_text_that_was_streamed_before_words_for_now_is_kept() -> None:
    session = Session()
    provider = scripted([done(Text("x" * 2_000)), done(Text("I stop"))], delay=0.005)
    main = replace(agent([]), provider=provider)

    async def now() -> Any:
        running = asyncio.ensure_future(query(session, main, "go"))
        while not main.partial:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.05)
        queue(session, {"text": "stop that"}, "now")
        return await running

    assert asyncio.run(now()).answer == "I stop"
    first = kinds(session, AssistantMessage)[0]
    assert first.interrupted
    assert 0 < len(text_of(first.content)) < 2_000
    assert verify(session.events).ok


def test_queued_words_may_be_reworded_and_taken_back_until_they_are_read() -> None:
    session = Session()
    main = made([done(Text("ok"))], session)
    first = queue(session, {"text": "one"})
    second = queue(session, {"text": "two"})
    third = reword(session, first, "uno")
    drop(session, second, "taken back")
    asyncio.run(query(session, main, "go"))
    assert [text_of(e.content) for e in kinds(session, UserMessage)] == ["go", "uno"]
    assert [e.why for e in kinds(session, InboxDropped)] == ["reworded", "taken back"]
    with pytest.raises(KeyError, match="was read or taken back"):
        drop(session, third, "too late")


# ---- waking (F6.8) -------------------------------------------------------------------------------


def later(session: Session, text: str = "a task ended") -> None:
    queue(session, {"text": text, "kind": "reminder"}, "later")


def test_three_turns_in_a_row_are_woken_and_the_fourth_waits_for_the_person() -> None:
    session = Session()
    main = made([done(Text(f"w{n}")) for n in range(9)], session, wake="auto")

    async def many() -> list[Any]:
        out = [await query(session, main, "go")]
        for n in range(5):
            later(session, f"end {n}")
            out.append(await wake(session, main))
        out.append(await query(session, main, "I am here"))
        later(session)
        out.append(await wake(session, main))
        return out

    outcomes = asyncio.run(many())
    assert [bool(o) for o in outcomes] == [True, True, True, True, False, False, True, True]
    starts = kinds(session, TurnStart)
    assert [e.source for e in starts] == ["cell", *["notification"] * 3, "cell", "notification"]
    here = [e for e in kinds(session, Attachment) if "end 3" in text_of(e.content)]
    assert len(here) == 1  # it waited, and was read with the person's own words
    assert verify(session.events).ok


def test_nothing_is_woken_for_nothing_in_an_open_turn_or_without_money() -> None:
    session = Session()
    main = made([done(Text("ok"))], session)
    assert asyncio.run(wake(session, main)) is None
    asyncio.run(query(session, main, "go"))
    later(session)
    assert may_wake(session, main)
    poor = replace(main, session_limits=replace(main.session_limits, tokens=5))
    assert not may_wake(session, poor)
    session.append(TurnStart(text="open"))
    assert not may_wake(session, main)


def test_a_watcher_wakes_a_turn_for_ends_that_come_together() -> None:
    session = Session()
    main = made([done(Text("ok")), done(Text("woken"))], session)

    async def together() -> None:
        await query(session, main, "go")
        watching = asyncio.ensure_future(
            watch(session, "main", lambda: wake(session, main), rest=0.05)
        )
        await asyncio.sleep(0)
        later(session, "one")
        later(session, "two")
        while len(kinds(session, TurnEnd)) < 2:
            await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(together())
    _, last = list(requests(session.events))[-1]
    assert text_of(last.messages[-1].content).endswith("one\ntwo")


def test_settling_waits_for_tasks_and_answers_their_ends() -> None:
    session = Session()
    main = made([done(Text("launched")), done(Text("all told"))], session, wake="auto")

    async def work(_task: Task) -> Ended:
        await asyncio.sleep(0.05)
        return Ended("completed", "it is done", "42")

    async def run() -> Any:
        assert main.tasks is not None
        await query(session, main, "go")
        main.tasks.start("agent", "part", work)
        return await settle(session, main)

    assert asyncio.run(run()).answer == "all told"


# ---- a turn in the background (F6.12) ------------------------------------------------------------


class _Held:
    """A turn that stands still in its stream, in its tool or at its approval until `go` is set."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.session = Session()
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self.agent = made(self.answer, self.session, ask=self.ask)
        judge = self.agent.permit
        self.agent.tools = (*self.agent.tools, self.slow())
        self.agent.permit = lambda t, v, c: judge(
            replace(t, name="look") if t.name == "slow" else t, v, c
        )

    async def stop_here(self, where: str) -> None:
        if where == self.where:
            self.reached.set()
            await self.go.wait()

    async def answer(self, request: Request) -> Any:
        if len(request.messages) > 1:
            return done(Text("done"))
        await self.stop_here("stream")
        return done(ToolUse("t", "touch" if self.where == "approval" else "slow", {"size": 1}))

    async def ask(self, _question: Any) -> Any:
        await self.stop_here("approval")
        return Reply("allow")

    def slow(self) -> Tool:
        @tool(read_only=True)
        async def slow(size: int) -> str:
            """Be slow."""
            await self.stop_here("tool")
            return "slow"

        return slow

    async def move(self, running: asyncio.Future[Any]) -> None:
        assert self.agent.tasks is not None
        task = in_background(self.session, self.agent.tasks, "main", running, "go")
        assert task.id[0] == "c"
        self.go.set()
        await self.agent.tasks.wait(task.id, 10)
        assert task.ended is not None
        assert task.ended.result == "done"

    async def turn(self, move: bool) -> None:
        running = asyncio.ensure_future(query(self.session, self.agent, "go"))
        await self.reached.wait()
        if move:
            await self.move(running)
        self.go.set()
        await running


@pytest.mark.parametrize("where", ["stream", "tool", "approval"])
def test_a_turn_moved_to_the_background_leaves_the_log_of_an_unmoved_one(where: str) -> None:
    def run(move: bool) -> list[str]:
        held = _Held(where)
        asyncio.run(held.turn(move))
        assert held.session.state().inbox == {}
        assert verify(held.session.events).ok
        return [e.type for e in held.session.events if not e.type.startswith("task/")]

    assert run(move=True) == run(move=False)


@pytest.mark.parametrize("priority", ["now", "next"])
def test_words_queued_before_a_wait_begins_end_it(priority: str) -> None:
    """A cell may queue them from the main thread after the wait was chosen."""
    session = Session()
    tasks = Tasks(session)

    async def waiting() -> None:
        async def work(_task: Task) -> Ended:
            return await asyncio.sleep(60)

        task = tasks.start("agent", "a long one", work)
        queue(session, {"kind": "prompt", "text": "hello"}, priority)
        await asyncio.wait_for(tasks.wait_any("main"), 30)
        await tasks.stop(task.id)

    asyncio.run(waiting())


def test_stopping_a_background_turn_interrupts_it() -> None:
    session = Session()

    async def answer(_request: Request) -> Any:
        return await asyncio.sleep(60)

    main = made(answer, session)

    async def turn() -> None:
        assert main.tasks is not None
        running = asyncio.ensure_future(query(session, main, "go"))
        await asyncio.sleep(0.02)
        task = in_background(session, main.tasks, "main", running, "go")
        await asyncio.sleep(0)
        await main.tasks.stop(task.id)

    asyncio.run(turn())
    assert kinds(session, TurnEnd)[0].reason == "interrupted"


def test_words_survive_a_kill_between_queueing_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    session = Session.open(path)
    queue(session, {"text": "remember"})
    session.log.sync()
    data = path.read_bytes()
    session.close()
    path.write_bytes(data)
    again = Session.open(path)
    asyncio.run(query(again, made([done(Text("ok"))], again), "hello"))
    assert [text_of(e.content) for e in kinds(again, UserMessage)] == ["hello", "remember"]
    assert len(kinds(again, InboxQueued)) == 1
    again.close()
