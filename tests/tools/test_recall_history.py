"""Recall history: H1-H8 of the design, on logs that were really compacted and reopened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.core.events import (
    AssistantMessage,
    CompactionEnd,
    CompactionStart,
    Event,
    Replace,
    StepEnd,
    StepStart,
    SurfaceEvent,
    ToolCall,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Text, ToolUse, Usage, blocks_of
from agent_kernel.core.session import Session
from agent_kernel.core.tool import ToolContext
from agent_kernel.tools.recall import text_of_event
from agent_kernel.tools.recall_history import RECALL_HISTORY
from tests.tools.conftest import Bench


def turn(session: Session, number: int, results: list[str], agent: str = "main") -> None:
    """One turn: a question, one step a result, each a read of its own file."""
    session.append(
        TurnStart(text=f"q{number}"), UserMessage(content=f"question {number}"), agent=agent
    )
    for at, text in enumerate(results):
        ident, value = f"t{number}_{at}", {"path": f"src/f{at}.py"}
        use = ToolUse(ident, "read", value)
        session.append(
            StepStart(),
            AssistantMessage(content=(Text(f"look {at}"), use), model="m", usage=Usage()),
            ToolCall(id=ident, name="read", input=value, input_hash="0" * 32),
            agent=agent,
        )
        result = ToolResultEvent(id=ident, content=blocks_of(text), meta={"path": value["path"]})
        session.append(result, StepEnd(), agent=agent)
    session.append(TurnEnd(reason="completed"), agent=agent)


def compact(session: Session) -> str:
    """Hide all results but the last; the id of that compaction."""
    cid = f"c{session.log.next_seq}"
    results = [e for e in session.surface().nodes if isinstance(e, ToolResultEvent)]
    session.append(
        CompactionStart(
            compaction_id=cid, trigger="manual", strategies=("micro",), generation=0, tokens={}
        ),
        *(hide(cid, e, f"[cleared: recall_history(seq={e.seq})]") for e in results[:-1]),
        CompactionEnd(compaction_id=cid, status="committed", generation=1),
        agent="main",
    )
    return cid


def hide(cid: str, event: SurfaceEvent, marker: str) -> ToolResultEvent:
    """What takes the place of a result in compaction `cid`."""
    assert isinstance(event, ToolResultEvent)
    return ToolResultEvent(
        id=event.id,
        content=blocks_of(marker),
        sources=(event.seq,),
        replaces=Replace(first=event.seq, last=event.seq),
        meta={**event.meta, "compaction_id": cid},
    )


def bodies(answer: Any, count: int) -> list[str]:
    return [block.text.split("\n", 1)[1] for block in answer.content[:count]]


@pytest.fixture
def told(filed: Bench) -> Bench:
    for number in range(1, 4):
        turn(filed.session, number, [f"secret number {number}-{at} " * 50 for at in range(4)])
    return filed


async def test_a_hidden_result_comes_back_word_for_word_after_a_restart(told: Bench) -> None:
    hidden = next(e for e in told.session.events if isinstance(e, ToolResultEvent))
    compact(told.session)
    marker = told.session.surface().nodes[2]
    assert isinstance(marker, ToolResultEvent)
    pointer = f"recall_history(seq={hidden.seq})"
    assert pointer in marker.content[0].text  # H8: the marker's pointer is a call that resolves
    path = told.session.log.path
    assert path is not None
    told.session.close()
    again = Bench(Session.open(path), told.workspace)
    answer = await again.call(RECALL_HISTORY, seq=hidden.seq)
    head, body = answer.content[0].text.split("\n", 1)
    assert head == f"seq {hidden.seq} · turn 1 step 1 · tool/result read src/f0.py"
    assert body == hidden.content[0].text
    assert answer.meta["recalled"] == [hidden.seq]
    assert answer.meta["next_cursor"] is None
    again.session.close()


async def test_a_cut_result_comes_back_from_its_blob(told: Bench) -> None:
    sha256 = told.session.blobs.put(b"the whole output\n" * 9)
    event = ToolResultEvent(id="x", content=blocks_of("cut"), meta={"blob": sha256})
    (stored,) = told.session.log.append_all([event])
    answer = await told.call(RECALL_HISTORY, seq=stored.seq)
    assert bodies(answer, 1) == ["the whole output\n" * 9]


@pytest.mark.parametrize(
    "value,expected",
    [
        ({"turn": 2, "kind": "user/message"}, ["question 2"]),
        ({"contains": "number 3-1"}, ["secret number 3-1 " * 50]),
        ({"path": "src/f2.py", "turn": 1}, ["secret number 1-2 " * 50]),
        (
            {"tool_use_id": "t2_3"},
            ['look 3\nread {"path": "src/f3.py"}', "secret number 2-3 " * 50],
        ),
        ({"step": 4, "turn": 3, "contains": "look"}, ['look 3\nread {"path": "src/f3.py"}']),
        ({"kind": "turn/end", "turn": 3}, ['{"reason": "completed", "detail": null}']),
    ],
)
async def test_dimensions_combine_by_intersection(
    told: Bench, value: dict[str, Any], expected: list[str]
) -> None:
    answer = await told.call(RECALL_HISTORY, max_tokens=20_000, **value)
    assert bodies(answer, len(expected)) == expected
    assert answer.meta["matched"] == len(expected)


async def test_a_compaction_gives_exactly_what_it_hid(told: Bench) -> None:
    before = [e.seq for e in told.session.surface().nodes if isinstance(e, ToolResultEvent)]
    first = compact(told.session)
    answer = await told.call(RECALL_HISTORY, compaction_id=first, max_tokens=20_000, limit=200)
    assert answer.meta["recalled"] == before[:-1]
    turn(told.session, 4, ["more " * 200] * 3)
    second = compact(told.session)
    answer = await told.call(RECALL_HISTORY, compaction_id=second, max_tokens=20_000, limit=200)
    assert set(answer.meta["recalled"]).isdisjoint(before[:-1])


async def test_transitive_opens_a_summary_inside_a_summary(told: Bench) -> None:
    session = told.session
    results = [e for e in session.surface().nodes if isinstance(e, ToolResultEvent)]
    first = compact(session)
    stub = next(
        e for e in session.surface().nodes if isinstance(e, SurfaceEvent) and e.replaces is not None
    )
    cid = f"c{session.log.next_seq}"
    start = CompactionStart(
        compaction_id=cid, trigger="manual", strategies=("x",), generation=0, tokens={}
    )
    again = hide(cid, stub, "gone")
    end = CompactionEnd(compaction_id=cid, status="committed", generation=1)
    session.append(start, again, end, agent="main")
    flat = await told.call(RECALL_HISTORY, compaction_id=cid)
    deep = await told.call(RECALL_HISTORY, compaction_id=cid, transitive=True)
    assert flat.meta["recalled"] == [stub.seq]
    assert deep.meta["recalled"] == [results[0].seq, stub.seq]
    assert first != cid


async def test_pages_together_are_all_that_fits(told: Bench) -> None:
    whole = await told.call(RECALL_HISTORY, turn=1, limit=200, max_tokens=20_000)
    seqs, text, cursor, pages = [], "", None, 0
    while True:
        more = {"cursor": cursor} if cursor else {}
        answer = await told.call(RECALL_HISTORY, turn=1, limit=2, max_tokens=100, **more)
        seqs += answer.meta["recalled"]
        text += "".join(bodies(answer, len(answer.meta["recalled"])))
        cursor, pages = answer.meta["next_cursor"], pages + 1
        if cursor is None:
            break
    assert pages > 5
    assert list(dict.fromkeys(seqs)) == whole.meta["recalled"]
    assert text == "".join(bodies(whole, len(whole.meta["recalled"])))


@settings(max_examples=30)
@given(
    texts=st.lists(st.text(max_size=700), min_size=1, max_size=5),
    limit=st.integers(1, 4),
    tokens=st.integers(100, 300),
)
async def test_any_log_pages_to_its_own_text(texts: list[str], limit: int, tokens: int) -> None:
    session = Session()
    turn(session, 1, [text or " " for text in texts])
    bench = Bench(session, Path.cwd())
    pieces: dict[int, str] = {}
    cursor: str | None = None
    first = True
    while first or cursor:
        first = False
        context = ToolContext(session, "main", "x", bench.workspace)
        value = {"kind": "tool/result", "limit": limit, "max_tokens": tokens, "cursor": cursor}
        answer = await RECALL_HISTORY.run(RECALL_HISTORY.parse(value), context)
        for seq, body in zip(
            answer.meta["recalled"], bodies(answer, len(answer.meta["recalled"])), strict=True
        ):
            pieces[seq] = pieces.get(seq, "") + body
        cursor = answer.meta["next_cursor"]
    expected = {e.seq: text_of_event(session, e) for e in session.events if _is_result(e)}
    assert pieces == expected


def _is_result(event: Event) -> bool:
    return event.type == "tool/result"


async def test_another_agents_events_are_not_found_by_words_but_by_seq(told: Bench) -> None:
    turn(told.session, 9, ["of the child"], agent="a1")
    assert (await told.call(RECALL_HISTORY, contains="of the child")).meta["matched"] == 0
    seq = next(e.seq for e in told.session.events if e.agent == "a1" and _is_result(e))
    assert bodies(await told.call(RECALL_HISTORY, seq=seq), 1) == ["of the child"]


async def test_what_a_rule_withholds_is_not_returned(told: Bench) -> None:
    told.services["may_read"] = lambda path: path != "src/f1.py"
    answer = await told.call(RECALL_HISTORY, kind="tool/result", limit=200, max_tokens=20_000)
    assert answer.meta["matched"] == 9
    assert not any("src/f1.py" in block.text for block in answer.content)


async def test_nothing_found_names_the_nearest_dimension(told: Bench) -> None:
    answer = await told.call(RECALL_HISTORY, path="src/f1.py", turn=77)
    assert answer.meta["matched"] == 0
    assert answer.content[0].text.startswith(
        "nothing matched: path='src/f1.py' alone fits 3 events, first seq"
    )


@pytest.mark.parametrize(
    "value,words",
    [
        ({}, "at least one of"),
        ({"seq": "9-3"}, "neither a number nor a range"),
        ({"seq": "x"}, "neither a number nor a range"),
        ({"kind": "nonsense"}, "the kinds are: "),
        ({"compaction_id": "c9"}, "no compaction 'c9'; there are: none"),
        ({"seq": 1, "cursor": "zz"}, "cursor 'zz'"),
    ],
)
async def test_a_bad_question_names_what_is_valid(
    told: Bench, value: dict[str, Any], words: str
) -> None:
    assert words in await told.error(RECALL_HISTORY, **value)


async def test_fact_kinds_come_from_the_roof(told: Bench) -> None:
    seq = next(e.seq for e in told.session.events if isinstance(e, UserMessage))
    told.services["facts"] = {"constraint": lambda _session, _agent: [seq]}
    answer = await told.call(RECALL_HISTORY, kind="constraint")
    assert bodies(answer, 1) == ["question 1"]


async def test_the_same_question_gives_the_same_answer_and_marks_copies(told: Bench) -> None:
    one = await told.call(RECALL_HISTORY, contains="number 1-0", max_tokens=20_000)
    two = await told.call(RECALL_HISTORY, contains="number 1-0", max_tokens=20_000)
    assert two.content[0] == one.content[0]
    assert "(a recalled copy)" in two.content[1].text
    assert json.dumps(one.meta)
