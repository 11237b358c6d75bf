"""Agent: all of a running agent that is not history: provider, tools, sections, limits, who judges.

May not hold anything the loop needs to go on after a crash: that is in the log.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agent_kernel.core.batch import Asker, Judgement, Permit, Runner
from agent_kernel.core.compaction import Prepared, Strategy, WaterMarks
from agent_kernel.core.hooks import Hook
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ModelProfile, Provider, StreamEvent, SystemText
from agent_kernel.core.prompt import (
    ContextItem,
    Late,
    Prompt,
    PromptContext,
    Section,
    assemble,
    check_names,
)
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks
from agent_kernel.core.tool import Tool, ToolContext


@dataclass(frozen=True)
class Limits:
    """Hard stops of one turn or of the session: tokens of all kinds, dollars, seconds; None =
    none."""

    steps: int | None = 50
    tool_calls: int | None = 200
    tokens: int | None = 2_000_000
    dollars: float | None = None
    seconds: float | None = 1_800.0


NO_LIMITS = Limits(None, None, None, None, None)


def read_only_permit(tool: Tool, value: Json, _context: ToolContext) -> Judgement:
    """Return the judgement used where no guard was given: read-only calls run, all else is
    denied."""
    if tool.is_read_only(tool.parse(value)):
        return Judgement("allow", by="mode", stage="base", reason="read-only")
    return Judgement("deny", by="policy", stage="base", reason=f"no guard allows {tool.name!r}")


class Background(Protocol):
    """What prepares a compaction while turns go on (compaction.md §8)."""

    def start(self, session: Session, agent: Agent) -> object:
        """Begin to prepare one, where it is due and none is at work."""
        ...

    async def take(self, session: Session, agent: Agent) -> Prepared | None:
        """Return what was prepared if it still fits; log why when it does not."""
        ...


@dataclass
class Agent:
    """What runs a session's turns.

    `permit` judges calls, `ask` puts a question to a person (None = nobody is there: denied);
    `on_stream` and `on_progress` are told what happens, for display alone. `max_tokens` in tokens.
    """

    provider: Provider
    model: str
    tools: Sequence[Tool] = ()
    sections: Sequence[Section] = ()
    strategies: Sequence[Strategy] = ()
    background: Background | None = None
    marks: WaterMarks | None = None  # where layers begin; None = the profile's defaults
    limits: Limits = field(default_factory=Limits)
    session_limits: Limits = NO_LIMITS
    permit: Permit = read_only_permit
    ask: Asker | None = None
    hooks: Sequence[Hook] = ()
    fallback_model: str | None = None  # asked for after 3 overloaded attempts in a row
    id: str = "main"
    profile: ModelProfile = field(default_factory=lambda: ModelProfile("unknown"))
    max_tokens: int = 16_384
    params: Json = field(default_factory=dict)
    betas: tuple[str, ...] = ()
    workspace: Path = field(default_factory=Path.cwd)
    variables: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, Any] = field(default_factory=dict)
    tasks: Tasks | None = None
    wake: Literal["cell", "auto", "off"] = "cell"
    depth: int = 0
    forked: bool = False
    team: str | None = None
    on_stream: Callable[[StreamEvent], None] = lambda _event: None
    on_progress: Callable[[str, str], None] = lambda _id, _text: None
    system: tuple[SystemText, ...] | None = None
    context: tuple[ContextItem, ...] = ()
    early: bool = True  # read-only calls may begin while an answer streams; not when stepping
    begun: dict[tuple[str, str], Future[Any]] = field(default_factory=dict)  # those that did
    late: Late = field(default_factory=dict)  # sections that were not ready in time
    partial: dict[int, Json] = field(default_factory=dict)  # blocks of the stream now running

    @property
    def runner(self) -> Runner:
        """What a batch of this agent needs; tools find the agent itself as the service `owner`."""
        own = {"owner": self} if self.tasks is None else {"owner": self, "tasks": self.tasks}
        tools = {tool.name: tool for tool in self.tools}
        return Runner(
            self.id,
            tools,
            self.permit,
            self.workspace,
            {**self.services, **own},
            self.ask is None,
            self.on_progress,
            self.hooks,
            self.begun,
        )

    async def refresh(self, session: Session) -> None:
        """Render the sections: the system text once a session, the context anew (F2.4).

        Raises PromptError on two sections or two tools of one name, or an undefined variable.
        """
        check_names("tool", ((tool.name, tool.owner) for tool in self.tools))
        facts = {**self.services, "session": session, "agent": self}
        where = PromptContext(self.workspace, self.id, session.mode or "ask", facts)
        prompt: Prompt = await assemble(self.sections, self.variables, where, self.late)
        if self.system is None:
            self.system = prompt.system
        self.context = prompt.dynamic
