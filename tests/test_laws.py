"""The laws of the house, as properties over random sessions made by the real loop."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.core.agent import Agent
from agent_kernel.core.events import CompactionEnd, RequestContext, SurfaceEvent, ToolStart
from agent_kernel.core.query import End, advance, interrupt, next_action, query, start_turn
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.surface import Surface, fold
from agent_kernel.core.validate import validate_messages
from tests.runs import Turn, agent, answers, random_turns, run

BOUND = settings(max_examples=40, deadline=None)


def recorded(turns: list[Turn], window: int = 200_000) -> tuple[Session, list[bytes], list[str]]:
    counter: list[str] = []
    session, made = Session(), agent(turns, counter, window=window)
    sent: list[bytes] = []
    inner = made.provider.stream

    def stream(request):  # type: ignore[no-untyped-def]
        sent.append(request.body)
        return inner(request)

    made.provider.stream = stream  # type: ignore[method-assign]
    asyncio.run(run(session, made, len(turns)))
    return session, sent, counter


@BOUND
@given(random_turns(), st.sampled_from([200_000, 2_500]))
def test_law_1_the_log_gives_every_request_byte_for_byte(turns: list[Turn], window: int) -> None:
    session, sent, _ = recorded(turns, window)
    assert [request.body for _, request in requests(session.events)] == sent
    report = verify(session.events)
    assert report.ok
    assert report.requests == report.verified == len(sent)


@BOUND
@given(random_turns(), st.sampled_from([200_000, 2_500]))
def test_law_2_a_reopened_file_is_the_memory_and_any_prefix_folds(
    turns: list[Turn], window: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.agent.jsonl"
        session = Session.open(path)
        asyncio.run(run(session, agent(turns, window=window), len(turns)))
        session.close()
        again = Session.open(path)
        assert list(again.events) == list(session.events)
        assert again.surface().messages() == session.surface().messages()
        assert again.state() == session.state()
    kept = Surface("main")
    for at, event in enumerate(session.events):
        kept.apply(event)
        if at % 7 == 0:
            folded = fold(session.events[: at + 1])
            assert folded.seqs == kept.seqs
            assert folded.generation == kept.generation
            assert folded.messages() == kept.messages()


@BOUND
@given(random_turns(), st.sampled_from([200_000, 2_500]))
def test_law_3_no_request_breaks_the_rules(turns: list[Turn], window: int) -> None:
    session, _, _ = recorded(turns, window)
    profile = agent([]).profile
    for _context, request in requests(session.events):
        found = validate_messages(request.messages, profile, tools=request.tools)
        # A model may name a tool that is not there; it is told so, and the history keeps it.
        assert [v for v in found if "is offered" not in v.text] == []


@BOUND
@given(random_turns())
def test_law_4_a_compaction_hides_nothing_it_does_not_cite(turns: list[Turn]) -> None:
    session, _, _ = recorded(turns, window=2_500)
    surface = session.surface()
    reachable: set[int] = set()
    by_seq = {event.seq: event for event in session.events}
    stack = list(surface.seqs)
    while stack:
        seq = stack.pop()
        if seq not in reachable:
            reachable.add(seq)
            stack.extend(by_seq[seq].sources)
    committed = {
        e.compaction_id
        for e in session.events
        if isinstance(e, CompactionEnd) and e.status == "committed"
    }
    for event in session.events:
        if isinstance(event, SurfaceEvent) and event.compaction_id in {None, *committed}:
            assert event.seq in reachable


@BOUND
@given(random_turns(), st.lists(st.booleans(), min_size=4, max_size=4))
def test_law_5_requests_share_their_prefix_unless_something_stands_between(
    turns: list[Turn], moves: list[bool]
) -> None:
    cwd = ["/a"]
    session, made = Session(), agent(turns, cwd=cwd)

    async def all_turns() -> None:
        for number in range(len(turns)):
            cwd[0] = f"/{number}" if moves[number % 4] else cwd[0]
            await query(session, made, f"prompt {number}")

    asyncio.run(all_turns())
    before: tuple[RequestContext, bytes] | None = None
    for context, request in requests(session.events):
        if before is not None and before[0].header == context.header:
            assert request.prefix.startswith(before[1])
        # Only the last message may still grow, and only at its end: `]}]}` closes it.
        before = (context, request.prefix.removesuffix(b"]}]}"))


@BOUND
@given(random_turns(), st.integers(0, 60))
def test_stepping_in_fresh_sessions_gives_the_log_of_one_run(turns: list[Turn], cut: int) -> None:
    whole, _, _ = recorded(turns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.agent.jsonl"
        said = answers(turns)
        steps = 0
        for number in range(len(turns)):
            session = Session.open(path)
            start_turn(session, agent([]), f"prompt {number}")
            session.close()
            while True:
                session = Session.open(path)
                made = agent(turns)
                used = sum(e.type == "assistant/message" for e in session.events)
                made.provider = _rest(said[used:])
                action = asyncio.run(advance(session, made))
                session.close()
                steps += 1
                if isinstance(action, End):
                    break
        again = list(Session.open(path).events)
    assert [_timeless(e) for e in again] == [_timeless(e) for e in whole.events]


def _rest(said):  # type: ignore[no-untyped-def]
    from agent_kernel.providers.scripted import scripted

    return scripted(said)


def _timeless(event):  # type: ignore[no-untyped-def]
    wire = event.wire()
    for key in ("time", "created", "session", "seconds", "ttft", "waited"):
        wire.pop(key, None)
    wire.get("meta", {}).pop("seconds", None) if isinstance(wire.get("meta"), dict) else None
    if wire["type"] == "request/context":
        wire.pop("joined")  # holds fingerprints of the above
    return json.dumps(wire, sort_keys=True)


@BOUND
@given(random_turns(), st.data())
def test_a_log_cut_at_any_event_goes_on_and_runs_nothing_twice(
    turns: list[Turn], data: st.DataObject
) -> None:
    counter: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.agent.jsonl"
        session = Session.open(path)
        asyncio.run(run(session, agent(turns, counter), len(turns)))
        session.close()
        lines = path.read_bytes().splitlines(keepends=True)
        keep = data.draw(st.integers(1, len(lines)))
        path.write_bytes(b"".join(lines[:keep]))
        path.with_name(path.name + ".lock").unlink()
        again = Session.open(path)
        started = {e.id for e in again.events if isinstance(e, ToolStart)}
        open_started = {c.call.id for c in again.state().open_calls if c.started}
        ran_before = [call for call in counter if call in started]
        again.resume()
        used = sum(e.type == "assistant/message" for e in again.events)
        second: list[str] = []
        made = agent(turns, second)
        made.provider = _rest(answers(turns)[used:])
        if again.state().turn_open:
            asyncio.run(query(again, made))
        assert next_action(again, made) == End(None)
        assert not set(second) & set(ran_before)
        assert "never" not in second
        for call in open_started:
            results = [e for e in again.events if e.type == "tool/result" and e.id == call]
            assert len(results) == 1
            assert "outcome unknown" in str(results[0].wire())
        assert verify(again.events, again.log.loaded.findings).ok


@BOUND
@given(random_turns(), st.data())
def test_a_fork_anywhere_is_valid_and_leaves_its_parent_alone(
    turns: list[Turn], data: st.DataObject
) -> None:
    session, _, _ = recorded(turns)
    before = list(session.events)
    at = data.draw(st.integers(0, len(before) - 1))
    branch = session.fork(at)
    assert list(session.events) == before
    assert list(branch.events)[: at + 1] == before[: at + 1]
    assert [e.seq for e in branch.events] == list(range(len(branch.events)))
    made = agent([[], []])
    if branch.state().turn_open:
        asyncio.run(query(branch, made))
    asyncio.run(query(branch, made, "and now"))
    assert verify(branch.events).ok


def test_next_action_is_the_same_after_reopening() -> None:
    turns: list[Turn] = [[[("look", 5), ("touch", 1)], [("fail", 2)]], [[("secret", 1)]]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.agent.jsonl"
        session = Session.open(path)
        asyncio.run(run(session, agent(turns), 2))
        session.close()
        lines = path.read_bytes().splitlines(keepends=True)
        for keep in range(1, len(lines) + 1):
            copy = Path(folder) / f"{keep}.agent.jsonl"
            copy.write_bytes(b"".join(lines[:keep]))
            memory = Session()
            for event in session.events[:keep]:
                memory.log.append_all([event])
            made = agent(turns)
            made.system = ()
            opened = Session.open(copy)
            assert next_action(opened, made) == next_action(memory, made)


def test_interrupt_closes_the_turn_in_every_place() -> None:
    turns: list[Turn] = [[[("look", 5), ("touch", 1)]]]
    for stop_after in range(8):
        session, made = Session(), agent(turns)

        asyncio.run(_stopped(session, made, stop_after))
        assert not session.state().turn_open
        assert not session.surface().open_calls
        asyncio.run(query(session, agent([[]]), "again"))
        assert verify(session.events).ok


async def _stopped(session: Session, made: Agent, count: int) -> None:
    start_turn(session, made, "go")
    for _ in range(count):
        if isinstance(await advance(session, made), End):
            return
    interrupt(session, made)
