"""Sessions for the panels: a real loop over a scripted model whose answers say what was counted."""

from __future__ import annotations

import asyncio
from functools import cache

from agent_kernel.core.agent import Agent
from agent_kernel.core.calling import build, compact
from agent_kernel.core.messages import Message, Text, ToolUse, Usage
from agent_kernel.core.model import Done, ModelProfile, Request
from agent_kernel.core.prompt import Section
from agent_kernel.core.query import query, start_turn
from agent_kernel.core.session import Session
from agent_kernel.core.tool import tool
from agent_kernel.core.usage import estimate
from agent_kernel.providers.scripted import scripted


@tool(concurrent=True, read_only=True)
async def read(path: str, chars: int) -> str:
    """Read a file."""
    return f"{path}\n" + "line of the file with some words in it\n" * (chars // 39)


@tool
async def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def answer(window: list[int], *blocks: object) -> Done:
    """An answer whose usage counts the request: what the one before held was cached."""
    message = Message("assistant", blocks)  # type: ignore[arg-type]
    stop = "tool_use" if any(isinstance(b, ToolUse) for b in blocks) else "end_turn"
    return Done(message, Usage(*window), stop, model="claude-sonnet-5-5")


def model(request: Request) -> Done:
    """Read twice a turn, then answer; a summary when one is asked for."""
    size = estimate(len(request.prefix))
    cached = model.cached if size >= model.cached else size // 4
    usage = [size - cached, 120, cached, 0, 0]
    model.cached = size
    results = sum("tool_result" in str(m.wire()) for m in request.messages[-3:])
    n = model.calls = model.calls + 1
    if results < 2:
        given = {"path": f"src/report/part{n}.py", "chars": 3_000 + 2_500 * (n % 4)}
        return answer(usage, Text("I read it."), ToolUse(f"toolu_{n:04d}", "read", given))
    return answer(usage, Text("The report joins refunds twice. " * 40))


model.cached = model.calls = 0  # type: ignore[attr-defined]


def agent() -> Agent:
    """The agent of these sessions."""
    from agent_kernel import compaction

    return Agent(
        provider=scripted(model),
        model="claude-sonnet-5-5",
        tools=(read, bash),
        sections=(
            Section("identity", True, lambda _c: "You are a careful engineer. " * 60),
            Section("environment", False, lambda _c: "cwd /work"),
        ),
        strategies=compaction.ALL,
        profile=ModelProfile("claude-sonnet-5-5", window=20_000, max_output=1_000),
    )


async def _run() -> tuple[Session, Agent]:
    session, made = Session(), agent()
    model.cached = model.calls = 0  # type: ignore[attr-defined]
    for prompt in ("Why does the weekly report count refunds twice?", "Show it.", "And now?"):
        await query(session, made, prompt)
    await compact(session, made, "manual", use_model=False)
    await query(session, made, "Go on.")
    start_turn(session, made, "One more thing.")
    await made.refresh(session)
    return session, made


@cache
def worked() -> tuple[Session, Agent]:
    """Four turns with a compaction between, and the prompt of a fifth."""
    return asyncio.run(_run())


@cache
def following() -> Request:
    """The request that would be sent next."""
    return build(*worked())[0]
