"""Breakpoints: each kind stops a turn exactly before its event, over the real loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent_kernel.core.events import BreakpointSet
from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.query import End, advance, start_turn
from agent_kernel.core.session import Session
from agent_kernel.kernel import breaks
from agent_kernel.providers.scripted import scripted
from tests.runs import agent

ANSWERS = [
    Message("assistant", (Text("a"), ToolUse("c0", "look", {"size": 40_000}))),
    Message("assistant", (Text("b"), ToolUse("c1", "touch", {"size": 1}))),
    Message("assistant", (Text("c"), ToolUse("c2", "fail", {"size": 1}))),
    "Done.",
]


async def stops(*specs: str, window: int = 200_000) -> tuple[Session, list[tuple[str, str]]]:
    """Run the turn over every breakpoint; return (spec, the last event's type) of each stop."""
    session = Session()
    made = replace(
        agent([]),
        provider=scripted(ANSWERS),
        model="claude-sonnet-5-5",
        profile=ModelProfile("scripted", window=window, max_output=256),
    )
    start_turn(session, made, "go")
    session.append(*(BreakpointSet(spec=breaks.spec_of(spec), on=True) for spec in specs))
    found: list[tuple[str, str]] = []
    while True:
        stopped = await breaks.stop(session, made, breaks.set_in(session))
        if stopped is not None:
            found.append((stopped.spec, session.events[-1].type))
        if isinstance(await advance(session, made), End):
            return session, found


@pytest.mark.parametrize(
    "spec,kept,where",
    [
        ("request", "request", ["breakpoint/set", "attachment", "tool/result"]),
        ("tool", "tool", ["tool/call", "tool/call", "tool/call"]),
        ("tool:touch", "tool:touch", ["tool/call"]),
        ("error", "error", ["tool/result"]),
        ("tokens > 10k", "tokens>10000", ["tool/result", "tool/result", "tool/result"]),
        ("cost>0.01", "cost>0.01", ["tool/result"]),
    ],
)
def test_each_kind_stops_before_its_event(spec: str, kept: str, where: list[str]) -> None:
    session, found = asyncio.run(stops(spec))
    assert {each for each, _last in found} == {kept}
    last = [each for _spec, each in found]
    if spec == "request":
        assert len(last) >= 4 and not {"request/context", "assistant/message"} & set(last)
    elif spec.startswith("cost"):
        assert last and set(last) == {"tool/result"}
    else:
        assert last == where
    assert session.state().turn_end.reason == "completed"


def test_compaction_is_stopped_before_it_begins() -> None:
    session, found = asyncio.run(stops("compaction", window=14_000))
    assert found and "compaction/start" in [e.type for e in session.events]
    first = next(e.seq for e in session.events if e.type == "compaction/start")
    assert session.log.get(first - 1).type == "step/start"
    assert (
        found[0] == ("compaction", session.log.get(first - 3).type) == ("compaction", "tool/result")
    )


def test_breakpoints_are_kept_in_the_log_and_removed_there() -> None:
    session = Session()
    for spec, on in (("request", True), ("error", True), ("request", False)):
        session.append(BreakpointSet(spec=spec, on=on))
    assert breaks.set_in(session) == ["error"]


@pytest.mark.parametrize("text", ["requests", "tool:", "tokens>", "cost>x", "", "tokens>5 km"])
def test_a_word_that_is_no_breakpoint_is_one_line_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no breakpoint; there are request, tool, tool:NAME"):
        breaks.spec_of(text)
