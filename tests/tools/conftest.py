"""Fixtures of the tools' tests: a real session, a real workspace, a call as the loop makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.events import ToolResultEvent
from agent_kernel.core.messages import text_of
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Answer, Tool, ToolContext, ToolError


@dataclass
class Bench:
    """A session and a workspace; `call` runs a tool with a parsed input and logs its result."""

    session: Session
    workspace: Path
    services: dict[str, Any] = field(default_factory=dict)
    agent: str = "main"
    progress: list[str] = field(default_factory=list)
    calls: int = 0

    def context(self) -> ToolContext:
        self.calls += 1
        return ToolContext(
            self.session,
            self.agent,
            f"toolu_{self.calls}",
            self.workspace,
            self.progress.append,
            self.services,
        )

    async def call(self, tool: Tool, **value: Any) -> Answer:
        context = self.context()
        answer = Answer.of(await tool.run(tool.parse(value), context))
        result = ToolResultEvent(id=context.call_id, content=answer.content, meta=answer.meta)
        # A result without its call stays in the log: the tools fold the log, not the surface.
        self.session.log.append_all([result.model_copy(update={"agent": self.agent})])
        return answer

    async def text(self, tool: Tool, **value: Any) -> str:
        return text_of((await self.call(tool, **value)).content)

    async def error(self, tool: Tool, **value: Any) -> str:
        with pytest.raises(ToolError) as caught:
            await self.call(tool, **value)
        return str(caught.value)

    def file(self, name: str, content: str | bytes = "") -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def kinds(self) -> list[str]:
        return [event.type for event in self.session.events]


@pytest.fixture
def bench(workspace: Path) -> Bench:
    """A bench whose session is in memory."""
    return Bench(Session(), workspace)


@pytest.fixture
def filed(workspace: Path, tmp_path: Path) -> Bench:
    """A bench whose session is a file, so that blobs and spilled output lie on disk."""
    return Bench(Session.open(tmp_path / "a.agent.jsonl"), workspace)
