"""A live run over the loopback Messages API: candidate at soft, commit at hard, the cache read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_kernel.compaction import ALL, Auto, Candidates
from agent_kernel.core.agent import NO_LIMITS, Agent
from agent_kernel.core.events import AssistantMessage, CompactionCandidate, RequestContext
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.query import query
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from agent_kernel.core.tool import tool
from agent_kernel.testing import MessagesServer
from tests.compaction.kit import SUMMARY, ends, marks, starts, summaries, texts
from tests.providers.kit import anthropic_of

STEPS = 10
WATER = marks(soft=12_000, mid=50_000, hard=15_000, tail=2_500)


@tool(concurrent=True, read_only=True)
async def read(path: str) -> str:
    """Read a file."""
    return f"{path}: the same line of source text, over and over\n" * 110


def asked(body: dict[str, Any]) -> bool:
    return "about to be shortened" in str(body["messages"][-1]["content"][-1].get("text"))


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """A model that reads ten files one by one, says so, and writes a summary when asked."""
    if asked(body):
        return {"content": [{"type": "text", "text": SUMMARY}], "stop_reason": "end_turn"}
    last = body["messages"][-1]["content"]
    number = max(
        [int(b["tool_use_id"].split("_")[1]) + 1 for b in last if b["type"] == "tool_result"],
        default=0,
    )
    if number == STEPS:
        return {"content": [{"type": "text", "text": "all read"}], "stop_reason": "end_turn"}
    use = {
        "type": "tool_use",
        "id": f"toolu_{number}",
        "name": "read",
        "input": {"path": f"src/file_{number}.py"},
    }
    return {"content": [use], "stop_reason": "tool_use"}


def agent_of(server: MessagesServer, **more: Any) -> Agent:
    return Agent(
        provider=anthropic_of(server),
        model="claude-sonnet-5-5",
        tools=(read,),
        strategies=more.pop("strategies", ALL),
        limits=NO_LIMITS,
        profile=ModelProfile("claude-sonnet-5-5", max_output=8_192),
        marks=WATER,
        max_tokens=1_000,
        **more,
    )


def run(server: MessagesServer, **more: Any) -> tuple[Session, Any]:
    session, made = Session(), agent_of(server, **more)

    async def whole() -> Any:
        result = await query(session, made, "read the ten files and never write to any of them")
        background = made.background
        if isinstance(background, Candidates):
            await asyncio.gather(*background.tasks.values())
        return result

    return session, asyncio.run(whole())


def told(session: Session) -> list[tuple[str, str | None]]:
    return [(e.status, e.reason) for e in session.events if isinstance(e, CompactionCandidate)]


def test_soft_starts_a_candidate_more_results_arrive_and_hard_commits_it() -> None:
    with MessagesServer(answer=answer) as server:
        session, result = run(server, background=Candidates())
    assert (result.reason, result.answer) == ("completed", "all read")
    assert told(session) == [("started", None), ("ready", None), ("committed", None)]
    start = next(s for s in starts(session) if s.trigger == "hard")
    held = next(e for e in session.events if isinstance(e, CompactionCandidate))
    assert start.candidate_id == held.candidate_id
    between = [
        e for e in session.events if held.seq < e.seq < start.seq and e.type == "tool/result"
    ]
    assert len(between) >= 2
    assert "never write to any of them" in texts(session.surface().nodes)
    assert verify(session.events).ok


def test_the_summary_call_reads_nine_tenths_of_the_last_request_from_the_cache() -> None:
    with MessagesServer(answer=answer) as server:
        session, _ = run(server, strategies=ALL[-1:])
    (made,) = summaries(session)
    assert made.prefix_shared
    read, whole = made.usage.cache_read or 0, made.usage.context
    last = [e for e in session.events if isinstance(e, AssistantMessage) and e.seq < made.seq][-1]
    assert read > 0.85 * whole
    assert read > 0.9 * last.usage.context  # what came since was never cached
    contexts = [e for e in session.events if isinstance(e, RequestContext)]
    at = next(n for n, e in enumerate(contexts) if e.purpose == "compaction")
    assert contexts[at - 1].purpose == "turn"
    assert made.cost_usd is None or made.cost_usd > 0
    assert made.duration_ms is not None
    assert ends(session)[-1].status == "committed"


@pytest.mark.parametrize("background", [True, False])
def test_a_failing_summariser_never_stops_the_turn(background: bool) -> None:
    down = {"when": {"contains": "about to be shortened"}, "fault": "server"}
    scenario = {"scenario": "down", "replies": [down] * 9, "otherwise": "answer"}
    with MessagesServer(scenario, answer=answer) as server:
        session, result = run(
            server, strategies=ALL[-1:], background=Candidates() if background else None
        )
    assert result.answer == "all read"
    end = ends(session)[-1]
    assert end.status == "committed"
    if background:
        assert told(session)[:2] == [("started", None), ("failed", "provider")]
    else:
        assert end.error is not None
        assert end.error["code"] == "provider"
    assert summaries(session) == []
    assert verify(session.events).ok


def test_a_stale_candidate_is_dropped_and_a_fresh_summary_written() -> None:
    class Slow(Candidates):
        async def take(self, session: Session, agent: Agent) -> Any:
            agent.model, kept = "another-model", agent.model
            try:
                return await super().take(session, agent)
            finally:
                agent.model = kept

    with MessagesServer(answer=answer) as server:
        session, result = run(server, strategies=ALL[-1:], background=Slow())
    assert result.answer == "all read"
    assert ("discarded", "model") in told(session)
    assert starts(session)[0].candidate_id is None
    assert len(summaries(session)) == 1


def test_without_a_key_the_same_turn_ends_with_the_ledger_alone() -> None:
    with MessagesServer(answer=answer) as server:
        session, result = run(server, background=Candidates(use_model=False))
    assert result.answer == "all read"
    assert told(session)[-1] == ("committed", None)
    assert Auto().name in starts(session)[0].strategies
    assert [e.purpose for e in session.events if isinstance(e, RequestContext)].count(
        "compaction"
    ) == 0
