"""Scenarios: the five questions every harness is asked, each with real tools and its three logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import tools as room
from agent_kernel.core.calling import compact
from agent_kernel.core.events import RequestContext, ToolStart, TurnStart
from agent_kernel.core.limits import by_call
from agent_kernel.core.messages import Text, ToolUse, Usage, text_of
from agent_kernel.core.model import ModelProfile, Request
from agent_kernel.core.offer import offered
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool, tool
from agent_kernel.core.validate import validate_messages
from agent_kernel.core.waking import settle, wake
from agent_kernel.testing import MessagesServer
from tests.tools.flow import (
    done,
    flow,
    notices,
    parted,
    request_texts,
    result_text,
    said,
    start,
    tasks,
)

CHILD_SECONDS = 0.4  # ten seconds, scaled down


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty workspace."""
    folder = tmp_path / "w"
    folder.mkdir()
    return folder


async def child(_request: Request) -> Any:
    """The agent that takes its time."""
    await asyncio.sleep(CHILD_SECONDS)
    return said("Found 3 errors.")


def sent(session: Session, agent: str = "main") -> list[Request]:
    """The requests of an agent as they went out."""
    return [r for c, r in requests(session.events) if c.agent == agent]


def sound(session: Session) -> None:
    """Every request is the log's, none breaks the API's rules, each end was told once."""
    assert verify(session.events).ok
    for _, request in requests(session.events):
        found = validate_messages(request.messages, ModelProfile("any"), tools=request.tools)
        assert [v for v in found if v.severity == "api"] == []
    assert session.state().inbox == {}


# ---- 1. too many tools ---------------------------------------------------------------------------


def many(count: int) -> tuple[Tool, ...]:
    """Deferred tools whose names say nothing to the model until it looks for them."""

    def made(number: int) -> Tool:
        @tool(name=f"mcp__desk__thing_{number}", deferred=True, read_only=True)
        async def thing(colour: str) -> str:
            """Look after one of the things."""
            return f"{number} is {colour}"

        return replace(thing, description=f"Paint thing number {number} in a colour.")

    return tuple(made(number) for number in range(count))


async def test_five_hundred_tools_cost_the_search_and_what_was_found_stays(place: Path) -> None:
    found = "mcp__desk__thing_321"
    answers = [
        done(ToolUse("s", "tool_search", {"query": f"select:{found}"})),
        done(ToolUse("c", found, {"colour": "red"})),
        said("painted"),
        said("still there"),
    ]
    deferred = many(500)
    session, agent = flow(
        parted(answers, {}),
        place,
        tools=(*room.ALL, *deferred),
        services={"deferred_tools": lambda: deferred},
    )
    await query(session, agent, "paint number 321 red")
    names = [[tool.name for tool in request.tools] for request in sent(session)]
    # No search provider is here, so `web_search` has no use and is not sent (F5.1).
    idle = "web_search"
    resident = [tool.name for tool in room.ALL if not tool.deferred and tool.name != idle]
    assert names[0] == resident
    assert names[1] == [*resident, found]
    assert result_text(session, "c") == "321 is red"
    alone, other = flow(parted([said("x")], {}), place)
    await query(alone, other, "paint number 321 red")
    schemas = [[json.dumps(t.wire()) for t in s[0].tools] for s in (sent(session), sent(alone))]
    (search,) = (text for text in schemas[0] if '"name": "tool_search"' in text)
    # Five hundred deferred tools cost the search tool; a room without any does not send that.
    assert schemas[1] == [text for text in schemas[0] if text != search]
    await compact(session, agent, "manual", use_model=False)
    assert found in [tool.name for tool in offered(session, agent)]
    await query(session, agent, "and now?")
    assert found in [tool.name for tool in sent(session)[-1].tools]
    sound(session)


# ---- 2. and 3. a ten-second agent: busy, idle, together with the person --------------------------


async def test_a_busy_its_end_waits_for_the_next_step_and_disturbs_nothing(place: Path) -> None:
    command = {"command": f"echo begun; sleep {CHILD_SECONDS * 2}; echo ended"}
    answers = [
        done(start("a", "part one")),
        done(Text("meanwhile"), ToolUse("b", "bash", command)),
        said("both known"),
    ]
    session, agent = flow(parted(answers, {"part one": child}), place, wake="auto")
    outcome = await query(session, agent, "go")
    texts = [request_texts(request) for request in sent(session)]
    assert ["task-notification" in text for text in texts] == [False, False, True]
    assert result_text(session, "b").startswith("begun\nended\n")
    last = sent(session)[2].messages[-1]
    assert last.content[0].wire()["type"] == "tool_result"
    assert "<result>Found 3 errors.</result>" in text_of(last.content)
    assert outcome.answer == "both known"
    assert len(notices(session)) == 1
    sound(session)


async def test_a_busy_an_end_during_the_last_answer_ends_the_turn_and_wakes_one(
    place: Path,
) -> None:
    async def slow(request: Request) -> Any:
        await asyncio.sleep(CHILD_SECONDS * 2)
        return said("launched")

    answers: list[Callable[[Request], Any]] = [
        lambda _r: done(start("a", "part one")),
        slow,
        lambda _r: said("now I know"),
    ]
    left = iter(answers)

    async def main(request: Request) -> Any:
        if "part one" in text_of(request.messages[0].content):
            return await child(request)
        made = next(left)(request)
        return await made if asyncio.iscoroutine(made) else made

    session, agent = flow(main, place, wake="auto")
    first = await query(session, agent, "go")
    assert first.answer == "launched"
    assert notices(session) == []
    second = await settle(session, agent)
    assert second is not None
    assert second.answer == "now I know"
    sources = [e.source for e in session.events if isinstance(e, TurnStart) and e.agent == "main"]
    assert sources == ["cell", "notification"]
    assert len(notices(session)) == 1
    sound(session)


async def test_b_idle_a_fresh_turn_begins_for_it_on_the_same_log(place: Path) -> None:
    answers = [done(start("a", "part one")), said("launched"), said("it found 3")]
    session, agent = flow(parted(answers, {"part one": child}), place, wake="auto")
    await query(session, agent, "go")
    assert await wake(session, agent) is None
    outcome = await settle(session, agent)
    assert outcome is not None
    assert (outcome.turn, outcome.answer) == (2, "it found 3")
    assert "Runtime notice, not a message from the person." in request_texts(sent(session)[-1])
    assert len(notices(session)) == 1
    sound(session)


async def test_b_idle_with_wake_cell_the_same_turn_answers_with_wake_off_the_next_does(
    place: Path,
) -> None:
    answers = [done(start("a", "part one")), said("launched"), said("it found 3")]
    session, agent = flow(parted(answers, {"part one": child}), place, wake="cell")
    outcome = await query(session, agent, "go")
    assert (outcome.turn, outcome.answer) == (1, "it found 3")
    sound(session)

    session, agent = flow(parted(answers, {"part one": child}), place, wake="off")
    assert (await query(session, agent, "go")).answer == "launched"
    await asyncio.sleep(CHILD_SECONDS * 2)
    assert (await query(session, agent, "what is new?")).answer == "it found 3"
    assert len(notices(session)) == 1
    sound(session)


async def test_c_the_person_writes_too_their_words_stand_first_in_one_request(place: Path) -> None:
    answers = [done(start("a", "part one")), said("launched"), said("both answered")]
    session, agent = flow(parted(answers, {"part one": child}), place, wake="off")
    await query(session, agent, "go")
    await asyncio.sleep(CHILD_SECONDS * 2)
    await query(session, agent, "and what about the tests?")
    assert len(sent(session)) == 3
    last = sent(session)[-1].messages[-1]
    words = [block.wire()["text"] for block in last.content]
    assert words[0] == "and what about the tests?"
    assert words[1].startswith(
        "Runtime notice, not a message from the person. If the person has written too, answer the "
        "person first.\n<task-notification>\n<task-id>a"
    )
    sound(session)


async def test_ends_that_come_together_are_told_in_the_order_they_came(place: Path) -> None:
    async def timed(request: Request) -> Any:
        number = int(text_of(request.messages[0].content)[-1])
        await asyncio.sleep(0.1 * (3 - number))
        return said(f"found {number}")

    answers = [done(*[start(f"a{n}", f"part {n}") for n in range(3)]), said("ok"), said("all")]
    session, agent = flow(parted(answers, {"part": timed}), place, wake="off")
    await query(session, agent, "go")
    await asyncio.sleep(0.6)
    await query(session, agent, "and?")
    text = request_texts(sent(session)[-1])
    assert text.index("found 2") < text.index("found 1") < text.index("found 0")
    assert text.index("and?") < text.index("found 2")
    sound(session)


# ---- 4. runaway spawning -------------------------------------------------------------------------


async def test_a_fork_shares_the_cache_of_its_parent_and_starts_nothing(place: Path) -> None:
    """Over the loopback server: the child's first request reads what the parent's wrote."""

    def answer(body: Any) -> Any:
        last = json.dumps(body["messages"][-1])
        if "Fork is not available" in last:
            return {"role": "assistant", "content": [{"type": "text", "text": "alone then"}]}
        if "alone then" in last:
            return {"role": "assistant", "content": [{"type": "text", "text": "good"}]}
        fork = {"prompt": "your part", "description": "p", "fork": True, "background": False}
        call = {"type": "tool_use", "id": f"f{len(body['messages'])}", "name": "agent"}
        return {
            "role": "assistant",
            "content": [{**call, "input": fork}],
            "stop_reason": "tool_use",
        }

    from tests.providers.kit import anthropic_of

    with MessagesServer(answer=answer) as server:
        provider = anthropic_of(server)
        session, agent = flow(parted([], {}), place, provider=provider, model="claude-sonnet-5-5")
        await query(session, agent, "go " * 3_000)
        await provider.close()
    (made,) = tasks(session)
    first = next(e for e in session.events if e.type == "assistant/message" and e.agent == made.id)
    assert first.usage.cache_read > 0  # type: ignore[attr-defined]
    parent, fork = sent(session)[0], sent(session, made.id)[0]
    assert fork.head == parent.head
    assert fork.prefix.startswith(parent.prefix[:-4])
    sound(session)


async def test_what_three_levels_spend_counts_to_the_call_that_began_it(place: Path) -> None:
    def answer(request: Request) -> Any:
        if len(request.messages) > 1:
            return said("ok")
        level = text_of(request.messages[0].content)
        if level == "level 3":
            return said("leaf")
        down = f"level {int(level[-1]) + 1}"
        return done(start(f"call to {down}", down, background=level == "level 1"))

    session, agent = flow(answer, place)
    await query(session, agent, "level 0")
    own = {name: session.state(name).session_usage for name in session.agents}
    whole = Usage()
    for event in session.events:
        if event.type == "assistant/message":
            whole = whole + event.usage  # type: ignore[attr-defined]
    assert sum(usage.total for usage in own.values()) == whole.total
    calls = by_call(session.events)
    ids = [made.id for made in tasks(session)]
    assert calls["call to level 3"] == own[ids[2]]
    assert calls["call to level 1"].total == sum(own[i].total for i in ids)
    assert calls["call to level 1"].total + own["main"].total == whole.total
    sound(session)


# ---- 5. lossless resume --------------------------------------------------------------------------


async def test_four_parallel_calls_cut_in_the_middle_are_answered_and_run_once(
    place: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.agent.jsonl"
    calls = [
        ToolUse(f"b{n}", "bash", {"command": f"echo {n} >> effects; sleep {n // 2}"})
        for n in range(4)
    ]
    script = [done(*calls), said("all seen")]
    session, agent = flow(parted(script, {}), place, path)
    running = asyncio.ensure_future(query(session, agent, "go"))
    while sum(isinstance(e, ToolStart) for e in session.events) < 3:
        await asyncio.sleep(0.005)
    while not (place / "effects").exists() or (place / "effects").read_text().count("\n") < 3:
        await asyncio.sleep(0.005)
    await session.log.commit()
    data = path.read_bytes()
    running.cancel()
    await asyncio.wait([running])
    session.close()
    path.write_bytes(data)

    again, agent = flow(parted(script[1:], {}), place, path)
    resumed = again.resume()
    assert resumed is not None
    assert resumed.open_calls == ("b2",)
    assert (await query(again, agent)).answer == "all seen"
    assert (place / "effects").read_text().split() == ["0", "1", "2", "3"]
    assert "outcome unknown" in result_text(again, "b2")
    assert "[exit code 0]" in result_text(again, "b3")
    contexts = [e for e in again.events if isinstance(e, RequestContext)]
    assert len(contexts) == 2
    sound(again)
    again.close()
