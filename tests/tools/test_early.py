"""Early: read-only calls begin while the answer streams; nothing else does, and none runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Judgement
from agent_kernel.core.hooks import Hook
from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.model import Attempt, BlockDone, Done, ProviderError, Request, Retry
from agent_kernel.core.query import query
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool, tool
from agent_kernel.providers.scripted import scripted
from agent_kernel.tools.glob import GLOB
from tests.tools.flow import done, flow, result_text, results, said

DEADLINE = 20.0
CALLS = (ToolUse("a", "look", {"at": "x"}), ToolUse("b", "look", {"at": "y"}))


class Streaming:
    """A provider whose first answer ends only when `gate` lets it; then it says that it is done."""

    def __init__(self, gate: Callable[[], Any], *, attempts: int = 1, fails: bool = False) -> None:
        inner = scripted(lambda _request: said("end"))
        self.name, self.endpoint, self.count = "streaming", inner.endpoint, inner.count
        self.models = inner.models
        self.gate, self.attempts, self.fails, self.asked = gate, attempts, fails, 0

    async def stream(self, _request: Request) -> AsyncIterator[Any]:
        self.asked += 1
        if self.asked > 1:
            yield done(Text("end"))
            return
        for n in range(1, self.attempts + 1):
            if n > 1:
                yield Retry(n - 1, "stall", None, 0.0)
                yield Attempt(n, "retry")
            for index, use in enumerate(CALLS):
                yield BlockDone(index, use.wire())
            await self.gate()
        if self.fails:
            raise ProviderError("server", "gone", retryable=False)
        yield Done(Message("assistant", CALLS), done(Text("x")).usage, "tool_use", model="s")


class Eye:
    """A tool that tells how often it began and ended."""

    def __init__(self, **changes: Any) -> None:
        self.began, self.ended, self.cancelled = asyncio.Event(), 0, 0
        self.seen: list[str] = []

        @tool(read_only=True, concurrent=True)
        async def look(at: str) -> str:
            """Look at something."""
            self.seen.append(at)
            if len(self.seen) >= 2:
                self.began.set()
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            self.ended += 1
            return f"seen {at}"

        made: Tool = look
        self.tool = replace(made, **{"early": True, **changes})


async def ran(
    workspace: Path, eye: Eye, provider: Streaming, **changes: Any
) -> tuple[Session, Agent]:
    tools = (eye.tool, GLOB)
    session, agent = flow(lambda _r: said(""), workspace, tools=tools, provider=provider)
    agent = replace(agent, **changes)
    async with asyncio.timeout(DEADLINE):
        await query(session, agent, "go")
    return session, agent


async def test_calls_begin_before_the_answer_ends_and_their_results_stand_in_order(
    workspace: Path,
) -> None:
    eye = Eye()
    session, agent = await ran(workspace, eye, Streaming(eye.began.wait))
    assert [result_text(session, each) for each in "ab"] == ["seen x", "seen y"]
    assert [results(session)[each].meta["early"] for each in "ab"] == [True, True]
    assert eye.seen == ["x", "y"]
    assert agent.begun == {}
    order = [e.type for e in session.events]
    assert order.index("assistant/message") < order.index("tool/start")
    assert verify(session.events).ok


async def test_a_retried_attempt_uses_what_was_begun(workspace: Path) -> None:
    eye = Eye()
    session, _ = await ran(workspace, eye, Streaming(eye.began.wait, attempts=3))
    assert eye.seen == ["x", "y"]
    assert result_text(session, "b") == "seen y"


async def passed() -> None:
    """Let what was started run, if anything was."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "tool_changes,agent_changes",
    [
        ({"read_only": False}, {}),
        ({"early": False}, {}),
        ({}, {"early": False}),
        ({}, {"permit": lambda *_: Judgement("ask")}),
        ({}, {"permit": lambda *_: Judgement("deny")}),
        ({}, {"hooks": (Hook("PreToolUse", "h", lambda _facts: None),)}),
        ({"deferred": True}, {}),
    ],
)
async def test_nothing_else_begins_before_the_answer_is_whole(
    workspace: Path, tool_changes: dict[str, Any], agent_changes: dict[str, Any]
) -> None:
    eye = Eye(**tool_changes)
    seen: list[int] = []

    async def gate() -> None:
        await passed()
        seen.append(len(eye.seen))

    session, _ = await ran(workspace, eye, Streaming(gate), **agent_changes)
    assert seen == [0]
    assert set(results(session)) == {"a", "b"}
    assert not any("early" in e.meta for e in results(session).values())


async def test_a_lost_answer_or_an_interrupt_stops_what_was_begun(workspace: Path) -> None:
    eye = Eye()
    with pytest.raises(ProviderError):
        await ran(workspace, eye, Streaming(eye.began.wait, fails=True))
    await passed()
    assert eye.cancelled == 2
    assert eye.ended == 0

    eye = Eye()
    session, agent = flow(
        lambda _r: said(""), workspace, tools=(eye.tool,),
        provider=Streaming(lambda: asyncio.sleep(DEADLINE)),
    )  # fmt: skip
    turn = asyncio.create_task(query(session, agent, "go"))
    async with asyncio.timeout(DEADLINE):
        await eye.began.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await passed()
    assert eye.cancelled == 2
    assert results(session) == {}
    assert session.state().turn_end.reason == "interrupted"  # type: ignore[union-attr]


async def test_a_failure_nobody_asks_for_is_silent_and_an_asked_for_one_is_told(
    workspace: Path,
) -> None:
    @tool(name="look", read_only=True, concurrent=True)
    async def broken(at: str) -> str:
        """Fail."""
        from agent_kernel.core.tool import ToolError

        raise ToolError(f"cannot see {at}")

    eye = Eye()
    eye.tool = replace(broken, early=True)
    session, _ = await ran(workspace, eye, Streaming(passed))
    assert results(session)["a"].is_error
    assert result_text(session, "b") == "cannot see y"
