"""The surface: what the model sees, where it may be cut, what may join it."""

from __future__ import annotations

import pytest

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    Replace,
    StepStart,
    ToolCall,
    ToolResultEvent,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import (
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
    blocks_of,
)
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.session import Session
from agent_kernel.core.surface import SurfaceError, fold


def said(*blocks: object) -> AssistantMessage:
    return AssistantMessage(content=blocks, model="m", usage=Usage(1, 1))


def result(call: str, text: str = "ok") -> ToolResultEvent:
    return ToolResultEvent(id=call, content=blocks_of(text))


def batch() -> Session:
    session = Session()
    session.append(TurnStart(text="x"), UserMessage(content="do it"), StepStart())
    uses = [ToolUse("a", "look", {}), ToolUse("b", "look", {})]
    session.append(said(Text("hm"), *uses), *(_call(use) for use in uses))
    return session


def _call(use: ToolUse) -> ToolCall:
    return ToolCall(id=use.id, name=use.name, input=use.input, input_hash="h")


def test_results_stand_first_and_in_the_calls_order() -> None:
    session = batch()
    note = Attachment(kind="reminder", label="n", content=blocks_of("note"))
    session.append(note, result("b"), result("a"))
    last = session.surface().messages()[-1]
    assert last == Message(
        "user", (ToolResult("a", (Text("ok"),)), ToolResult("b", (Text("ok"),)), Text("note"))
    )


def test_neighbours_of_one_role_are_one_message() -> None:
    session = Session()
    session.append(UserMessage(content="one"), UserMessage(content="two"))
    assert session.surface().messages() == (Message("user", (Text("one"), Text("two"))),)


def test_an_empty_answer_leaves_no_message_and_no_double_role() -> None:
    session = Session()
    session.append(UserMessage(content="one"), said(), UserMessage(content="two"))
    assert session.surface().messages() == (Message("user", (Text("one"), Text("two"))),)
    session.append(said(Text("yes")), UserMessage(content="three"))
    assert [m.role for m in session.surface().messages()] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    "event, why",
    [
        (said(Text("early")), "no result"),
        (result("zzz"), "no open call"),
        (ToolResultEvent(id="a", content=(), sources=(99,)), "earlier"),
        (ToolResultEvent(id="a", content=(), replaces=Replace(first=2, last=2)), "citing"),
        (UserMessage(content="x", replaces=Replace(first=77, last=78)), "not on the surface"),
    ],
    ids=["answer over open calls", "orphan", "later source", "uncited", "unknown span"],
)
def test_what_may_not_join_is_refused_and_changes_nothing(event: object, why: str) -> None:
    session = batch()
    before = list(session.events)
    with pytest.raises(SurfaceError, match=why):
        session.append(event)  # type: ignore[arg-type]
    assert list(session.events) == before


def test_a_second_result_is_refused() -> None:
    session = batch()
    session.append(result("a"))
    with pytest.raises(SurfaceError, match="already"):
        session.append(result("a"))


def test_a_replacement_takes_the_place_of_its_span() -> None:
    session = batch()
    session.append(result("a", "long " * 50), result("b"))
    at = session.surface().seqs[2]
    short = ToolResultEvent(
        id="a", content=blocks_of("short"), sources=(at,), replaces=Replace(first=at, last=at)
    )
    (stored,) = session.append(short)
    surface = session.surface()
    assert surface.generation == 1
    assert surface.hidden_by(stored.seq) == [at]
    assert fold(session.events).messages() == surface.messages()
    assert "short" in str(surface.messages()[-1])


def test_cuts_keep_batches_and_thinking_loops_whole() -> None:
    session = Session()
    session.append(UserMessage(content="one"), said(Thinking("t", "s"), ToolUse("a", "x", {})))
    session.append(result("a"))
    session.append(said(Text("done")), UserMessage(content="two"))
    surface = session.surface()
    adaptive = ModelProfile("m", thinking="adaptive")
    assert surface.cuts(adaptive) == frozenset({0, 1, 4, 5})
    assert surface.cuts(adaptive, strict=False) == frozenset({0, 1, 3, 4, 5})
    with pytest.raises(ValueError, match="strict"):
        surface.cuts(ModelProfile("m", thinking="manual"), strict=False)
    seqs = surface.seqs
    with pytest.raises(ValueError, match="no legal cut"):
        surface.region(seqs[2], seqs[2], adaptive)


def test_messages_cannot_be_changed() -> None:
    message = Message("user", "x")
    with pytest.raises(AttributeError, match="frozen"):
        message.role = "assistant"
    with pytest.raises(AttributeError):
        message.content[0].text = "y"  # type: ignore[misc]
