"""Flow: sessions whose main agent and children are scripted, with the real tools between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent_kernel import sections
from agent_kernel import tools as room
from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Judgement
from agent_kernel.core.events import Attachment, Event, TaskCreated, TaskFinished, ToolResultEvent
from agent_kernel.core.messages import Message, Text, ToolUse, Usage, text_of
from agent_kernel.core.model import Done, ModelProfile, Request
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks
from agent_kernel.providers.scripted import scripted


def done(*blocks: Any) -> Done:
    """An answer of 10 tokens in and 5 out."""
    stop = "tool_use" if any(isinstance(b, ToolUse) for b in blocks) else "end_turn"
    return Done(Message("assistant", blocks), Usage(10, 5), stop, model="scripted")


def start(id: str, prompt: str, **more: Any) -> ToolUse:
    """A call of `agent`."""
    return ToolUse(id, "agent", {"prompt": prompt, "description": prompt[:40], **more})


def said(text: str) -> Done:
    """An answer of text alone."""
    return done(Text(text))


def request_texts(request: Request) -> str:
    """All a request's messages say."""
    return "\n".join(text_of(message.content) for message in request.messages)


Script = Callable[[Request], Any]


def parted(main: Sequence[Any], children: dict[str, Any]) -> Script:
    """Answers of the main agent in order; a child's by a word that is in its first message.

    A child's value is a Done, a list of them, or a function of the request (may be async).
    """
    left = iter(main)
    lists = {word: iter(v) for word, v in children.items() if isinstance(v, list)}

    async def answer(request: Request) -> Any:
        first = text_of(request.messages[0].content)
        for word, value in children.items():
            if word in first.rsplit("\n", 1)[-1]:
                if word in lists:
                    return next(lists[word])
                made = value(request) if callable(value) else value
                return await made if inspect.isawaitable(made) else made
        return next(left)

    return answer


def flow(
    answer: Script, workspace: Path, path: Path | None = None, **changes: Any
) -> tuple[Session, Agent]:
    """A session (in memory without `path`) and its main agent with every tool, all allowed."""
    session = Session.open(path) if path is not None else Session()
    given: dict[str, Any] = {
        "provider": scripted(answer),
        "model": "scripted",
        "tools": room.ALL,
        "sections": [s for s in sections.ALL if s.name in ("identity", "rules")],
        "profile": ModelProfile("scripted"),
        "permit": lambda *_: Judgement("allow"),
        "workspace": workspace,
        "tasks": Tasks(session),
        **changes,
    }
    return session, Agent(**given)


def notices(session: Session, agent: str = "main") -> list[Attachment]:
    """The notifications an agent was told."""
    return [
        e
        for e in session.events
        if isinstance(e, Attachment) and e.kind == "notification" and e.agent == agent
    ]


def results(session: Session, agent: str = "main") -> dict[str, ToolResultEvent]:
    """The results of an agent's calls by id."""
    found = [e for e in session.events if isinstance(e, ToolResultEvent) and e.agent == agent]
    return {e.id: e for e in found}


def result_text(session: Session, id: str, agent: str = "main") -> str:
    """What one call was answered."""
    return text_of(results(session, agent)[id].content)


def tasks(session: Session) -> list[TaskCreated]:
    """How the tasks came to be."""
    return [e for e in session.events if isinstance(e, TaskCreated)]


def ends(session: Session) -> list[TaskFinished]:
    """How tasks ended."""
    return [e for e in session.events if isinstance(e, TaskFinished)]


def types(events: Sequence[Event]) -> list[str]:
    """The types of events."""
    return [event.type for event in events]
