"""Runs: sessions made by the real loop over a scripted model, for tests of laws and of the log.

May not fake the loop, the log or a tool: only the model's words are scripted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from agent_kernel import compaction
from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Judgement, Question, Reply
from agent_kernel.core.messages import Message, Text, ToolUse
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.prompt import PromptContext, Section
from agent_kernel.core.query import query
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool, ToolContext, ToolError, tool
from agent_kernel.providers.scripted import scripted

# A scripted turn: one list of calls a step, each call (tool name, size); the last step only speaks.
Turn = list[list[tuple[str, int]]]
NAMES = ("look", "touch", "fail", "secret", "missing", "odd")


def tools(counter: list[str]) -> tuple[Tool, ...]:
    """Return a read-only tool, one with a side effect that notes itself in `counter`, and a
    failing one."""

    @tool(concurrent=True, read_only=True)
    async def look(size: int) -> str:
        """Look at something of a size."""
        await asyncio.sleep(0)
        return "x" * size

    @tool
    async def touch(size: int, ctx: ToolContext) -> str:
        """Change something once."""
        counter.append(ctx.call_id)
        return f"touched {size}"

    @tool(concurrent=True, read_only=True)
    async def fail(size: int) -> str:
        """Fail as the model's fault."""
        raise ToolError(f"no {size} here")

    @tool
    async def secret(size: int) -> str:
        """Do what is never allowed."""
        counter.append("never")
        return "never"

    return (look, touch, fail, secret)


def permit(made: Tool, _value: Any, _context: ToolContext) -> Judgement:
    """Allow read-only tools, ask for `touch`, deny the rest."""
    if made.name in ("look", "fail"):
        return Judgement("allow")
    if made.name == "touch":
        return Judgement("ask", reason="it changes something")
    return Judgement("deny", reason="not allowed here")


async def allow(_question: Question) -> Reply:
    """Say yes."""
    return Reply("allow")


def answers(turns: Sequence[Turn]) -> list[Message]:
    """Return the scripted model's messages: calls with unique ids, a last text for each turn."""
    out: list[Message] = []
    for number, turn in enumerate(turns):
        for at, step in enumerate(turn):
            uses = [
                ToolUse(f"t{number}s{at}c{i}", name, {"sise": 1} if name == "odd" else {"size": n})
                for i, (name, n) in enumerate(step)
            ]
            uses = [ToolUse(u.id, "look" if u.name == "odd" else u.name, u.input) for u in uses]
            out.append(Message("assistant", (Text(f"step {at}"), *uses)))
        out.append(Message("assistant", (Text(f"answer {number}"),)))
    return out


def agent(
    turns: Sequence[Turn],
    counter: list[str] | None = None,
    *,
    window: int = 200_000,
    cwd: list[str] | None = None,
) -> Agent:
    """Return an agent whose model says `turns`; `cwd[0]` is what its dynamic section says."""
    where = cwd if cwd is not None else ["/somewhere"]

    def environment(_context: PromptContext) -> str:
        return f"cwd {where[0]}"

    return Agent(
        provider=scripted(answers(turns)),
        model="scripted",
        tools=tools(counter if counter is not None else []),
        sections=(
            Section("identity", True, lambda _context: "You are a test."),
            Section("environment", False, environment),
        ),
        strategies=compaction.ALL,
        profile=ModelProfile("scripted", window=window, max_output=256),
        permit=permit,
        ask=allow,
        workspace=Path(),
    )


async def run(session: Session, made: Agent, count: int) -> None:
    """Run `count` turns to their ends."""
    for number in range(count):
        await query(session, made, f"prompt {number}")


def random_turns() -> st.SearchStrategy[list[Turn]]:
    """Up to four turns of up to four steps of up to four calls of any kind."""
    call = st.tuples(st.sampled_from(NAMES), st.integers(0, 3_000))
    return st.lists(
        st.lists(st.lists(call, min_size=1, max_size=4), max_size=4), min_size=1, max_size=4
    )
