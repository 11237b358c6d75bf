"""History: whatever a harness makes of its messages, the log's surface comes to say the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.core.bodies import normal
from agent_kernel.core.messages import Message, Text, ToolResult, ToolUse
from agent_kernel.core.session import Session
from agent_kernel.proxy.history import Loose, changes


class Writer:
    """Makes conversations the Messages API takes, and edits them as harnesses do."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calls = 0

    def turns(self, count: int) -> list[Message]:
        """Return `count` turns: a prompt, perhaps calls with their results, an answer."""
        out: list[Message] = []
        for _ in range(count):
            out.append(Message("user", self.words()))
            if self.random.random() < 0.3:
                out.append(Message("system", self.words()))
            for _ in range(self.random.randint(0, 2)):
                out += self.batch()
            out.append(Message("assistant", self.words()))
        return out

    def words(self) -> list[Text]:
        some = self.random.choice(["", " ", "a", "b", "<system-reminder>x", "<task-notification>"])
        return [Text(some), Text(self.random.choice("cde"))]

    def batch(self) -> list[Message]:
        self.calls += 1
        ids = [f"t{self.calls}.{n}" for n in range(self.random.randint(1, 3))]
        uses = [ToolUse(id, "read", {"path": id}) for id in ids]
        results = [ToolResult(id, (Text("r"),)) for id in ids]
        self.random.shuffle(results)
        more = [Text("and")] if self.random.random() < 0.2 else []
        return [Message("assistant", [*self.words(), *uses]), Message("user", [*results, *more])]

    def edited(self, messages: list[Message]) -> list[Message]:
        """Return what a harness may send next after `messages`."""
        way = self.random.choice(["more", "clear", "edit", "rewind", "sum", "tail", "again"])
        starts = [i for i, m in enumerate(messages) if m.role == "user" and not results_in(m)]
        at = self.random.choice(starts)
        match way:
            case "more":
                return [*messages, *self.turns(1)]
            case "clear":
                return [*map(cleared, messages), *self.turns(1)]
            case "edit":
                return [m if i != at else Message("user", "e") for i, m in enumerate(messages)]
            case "rewind":
                return [*messages[:at], *self.turns(1)]
            case "sum":
                return [Message("user", "A summary."), *self.turns(1)]
            case "tail":
                return [Message("user", "A summary."), *messages[at + 1 :], *self.turns(1)]
        return messages


def results_in(message: Message) -> bool:
    return any(isinstance(block, ToolResult) for block in message.content)


def cleared(message: Message) -> Message:
    blocks = [
        ToolResult(b.tool_use_id, (Text("[cleared]"),)) if isinstance(b, ToolResult) else b
        for b in message.content
    ]
    return Message(message.role, blocks)


def taken(session: Session, messages: list[Message]) -> None:
    for event in changes(session.surface(), normal(messages), "m"):
        session.append(event)


@settings(max_examples=300)
@given(st.integers(0, 1 << 32), st.integers(1, 3), st.integers(1, 5))
def test_the_surface_says_what_the_request_says(seed: int, turns: int, requests: int) -> None:
    writer, session = Writer(seed), Session()
    messages = writer.turns(turns)
    for _ in range(requests):
        taken(session, messages)
        assert session.surface().messages() == normal(messages)
        messages = writer.edited(messages)


def test_a_longer_history_adds_and_replaces_nothing() -> None:
    writer, session = Writer(1), Session()
    messages: list[Message] = []
    for _ in range(20):
        messages += writer.turns(1)
        taken(session, messages)
    assert session.surface().generation == 0
    assert not any(getattr(event, "replaces", None) for event in session.events)


OPEN = [Message("user", "a"), Message("assistant", [ToolUse("t", "read", {})])]


@pytest.mark.parametrize(
    "messages", [[*OPEN, Message("user", "b"), Message("assistant", "c")], []], ids=["open", "none"]
)
def test_what_no_surface_holds_is_said(messages: list[Message]) -> None:
    session = Session()
    taken(session, [Message("user", "before"), Message("assistant", "it")])
    before = len(session.events)
    with pytest.raises(Loose):
        taken(session, messages)
    assert len(session.events) == before
