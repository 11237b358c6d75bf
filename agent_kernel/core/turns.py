"""Turns: how a turn begins in the log and what its end says, and the words that wait for it.

May not run anything: `query` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.agent import Agent
from agent_kernel.core.events import (
    InboxDropped,
    InboxQueued,
    TurnReason,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Block, Json, Usage, blocks_of, text_of
from agent_kernel.core.prompt import spoken
from agent_kernel.core.session import Session
from agent_kernel.core.usage import cost


class TurnError(Exception):
    """A turn that ended as error: its text is one readable line."""


@dataclass(frozen=True)
class TurnResult:
    """How a turn ended: the answer's text, tokens of the turn, dollars (None = unknown price)."""

    turn: int
    reason: TurnReason
    answer: str
    usage: Usage
    steps: int
    detail: Json | str | None = None


def start_turn(
    session: Session,
    agent: Agent,
    prompt: str | Sequence[Block],
    *,
    text: str | None = None,
    source: Any = "cell",
    cell: str | None = None,
    key: str | None = None,
    settings: Json | None = None,
) -> int:
    """Log turn/start and the person's message; return the turn's number. Nothing is sent yet.

    Raises TurnError when a turn is open, or dollars are limited and the model's price is unknown.
    """
    _check_start(session, agent)
    content = blocks_of(prompt)
    if not any(getattr(block, "text", "x").strip() for block in content):
        raise TurnError("the prompt is empty; write what the agent should do")
    start = TurnStart(
        text=text_of(content) if text is None else text,
        source=source,
        key=key,
        cell=cell,
        settings=settings or {},
    )
    session.append(start, UserMessage(content=spoken(content), cell=cell), agent=agent.id)
    return session.state(agent.id).turn


def wake_turn(session: Session, agent: Agent) -> int:
    """Log the start of a turn for what waits in the inbox, without a person's message (F6.8).

    Raises TurnError as `start_turn` does, and when nothing waits.
    """
    _check_start(session, agent)
    if not session.state(agent.id).inbox:
        raise TurnError("nothing waits in the inbox; a turn needs a prompt")
    session.append(TurnStart(text="", source="notification"), agent=agent.id)
    return session.state(agent.id).turn


def _check_start(session: Session, agent: Agent) -> None:
    if session.state(agent.id).turn_open:
        raise TurnError("a turn is open; finish it with %agent continue or %agent stop")
    priced = cost(agent.model, Usage(1, 1)) is not None
    if not priced and (agent.limits.dollars or agent.session_limits.dollars):
        raise TurnError(
            f"a dollar budget is set and {agent.model!r} has no price; set a token budget"
        )


def result(session: Session, agent: str = "main") -> TurnResult:
    """Return how the last turn of `agent` ended. Raises ValueError while it is open."""
    state = session.state(agent)
    if state.turn_end is None:
        raise ValueError(f"turn {state.turn} of {agent!r} is still open; run query() or advance()")
    answer = text_of(state.answer.content) if state.answer else ""
    end = state.turn_end
    return TurnResult(
        state.turn, end.reason, answer, state.turn_usage, state.steps_in_turn, end.detail
    )


def queue(session: Session, item: Json, priority: Any = "next", agent: str = "main") -> int:
    """Put an item into the inbox of `agent`; return its seq. It is read at the next step
    boundary, at once when its priority is `now`."""
    (stored,) = session.append(InboxQueued(item=item, priority=priority), agent=agent)
    return stored.seq


def drop(session: Session, item: int, why: str, agent: str = "main") -> None:
    """Take back what was queued. Raises KeyError when it was read or dropped before."""
    if item not in session.state(agent).inbox:
        raise KeyError(f"item {item} does not wait for {agent!r}: it was read or taken back")
    session.append(InboxDropped(item=item, why=why), agent=agent)


def reword(session: Session, item: int, text: str, agent: str = "main") -> int:
    """Put other words in the place of what was queued, at its end; return their seq.

    Raises KeyError as `drop` does.
    """
    waiting = session.state(agent).inbox.get(item)
    drop(session, item, "reworded", agent)
    assert isinstance(waiting, InboxQueued)
    return queue(session, {"text": text}, waiting.priority, agent)
