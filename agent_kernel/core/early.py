"""Early: read-only calls that begin while the answer that makes them still streams (F4.17).

May not start what has a side effect, what would be asked, or what a hook wants to see first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import callable_tool
from agent_kernel.core.events import ToolCall
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.core.state import input_hash
from agent_kernel.core.tool import Tool, ToolError

MOST = 10  # at once, as in a batch


def begin(session: Session, agent: Agent, block: Json) -> None:
    """Start the call of a complete block of the stream where it may; its batch takes the answer.

    A call that was begun is kept by name and input, so a retried attempt that makes it again
    does not run it twice.
    """
    given = block.get("input")
    if block.get("type") != "tool_use" or not isinstance(given, dict) or not agent.early:
        return
    key = (str(block.get("name")), input_hash(given))
    if key in agent.begun or len(agent.begun) >= MOST or agent.hooks:
        return
    made = _work(session, agent, key[0], given, str(block.get("id")))
    if made is not None:
        agent.begun[key] = task = asyncio.ensure_future(made)
        task.add_done_callback(_looked_at)


def _work(session: Session, agent: Agent, name: str, given: Json, call_id: str) -> Any:
    """Return the coroutine of a call that may start early, None for any other."""
    runner = agent.runner
    tool = callable_tool(session, runner, name)
    if not isinstance(tool, Tool) or not tool.early:
        return None
    try:
        value = tool.parse(given)
    except ToolError:
        return None  # answered when its turn comes
    context = runner.context(session, call_id)
    if not tool.is_read_only(value) or agent.permit(tool, given, context).verdict != "allow":
        return None
    return tool.run(value, context)


def forget(agent: Agent, kept: Iterable[ToolCall] = ()) -> None:
    """Stop what was begun and is not among the calls `kept`."""
    wanted = {(call.name, call.input_hash) for call in kept}
    for key in [key for key in agent.begun if key not in wanted]:
        agent.begun.pop(key).cancel()


def _looked_at(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # a failure that no batch asks for is no one's
