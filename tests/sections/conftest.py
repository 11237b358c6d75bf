"""Fixtures of the sections' tests: a workspace, a home, and an agent with all sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import sections
from agent_kernel import tools as room
from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Judgement
from agent_kernel.core.events import Attachment
from agent_kernel.core.messages import Message, Text, text_of
from agent_kernel.core.model import ModelProfile, Request
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks
from agent_kernel.providers.scripted import scripted


@dataclass
class Desk:
    """A session whose agent has every section and tool; the model says what it is told to."""

    workspace: Path
    home: Path
    session: Session = field(default_factory=Session)
    answers: list[Any] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)

    def agent(self) -> Agent:
        def answer(_request: Request) -> Any:
            return self.answers.pop(0) if self.answers else Message("assistant", (Text("ok"),))

        given: dict[str, Any] = {
            "provider": scripted(answer),
            "model": "scripted",
            "tools": room.ALL,
            "sections": sections.ALL,
            "profile": ModelProfile("scripted"),
            "permit": lambda *_: Judgement("allow"),
            "workspace": self.workspace,
            "services": {"lent": room.LENT, "home": str(self.home)},
            "tasks": Tasks(self.session),
            **self.changes,
        }
        return Agent(**given)

    async def say(self, prompt: str, *answers: Any) -> str:
        """Run a turn; its answer."""
        self.answers = [*answers]
        outcome = await query(self.session, self.agent(), prompt)
        assert verify(self.session.events).ok
        return outcome.answer

    def file(self, name: str, text: str, base: Path | None = None) -> Path:
        path = (base or self.workspace) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def attached(self, label: str) -> list[str]:
        """What attachments whose label begins so say, in order."""
        found = [e for e in self.session.events if isinstance(e, Attachment)]
        return [text_of(e.content) for e in found if e.label.split(":")[0] == label]

    def sent(self) -> list[Request]:
        return [request for _, request in requests(self.session.events)]


def text(request: Request) -> str:
    """All a request's messages say."""
    return "\n".join(text_of(message.content) for message in request.messages)


def names(events: Sequence[Any], kind: type[Any]) -> list[Any]:
    """The events of a class."""
    return [event for event in events if isinstance(event, kind)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk in an empty workspace, with an empty home."""
    home, workspace = tmp_path / "home", tmp_path / "w"
    home.mkdir()
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return Desk(workspace, home)
