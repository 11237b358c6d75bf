"""Offer: which tools the next request carries: resident ones, those found, those switched by hand.

May not run a tool, and may not send a deferred one's schema before it was asked for.
"""

from __future__ import annotations

from agent_kernel.core.agent import Agent
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool


def offered(session: Session, agent: Agent) -> tuple[Tool, ...]:
    """Return the tools of the next request: resident ones that have a use now, then those found.

    Deferred ones stand in the order they were found (F5.3), then those a person switched on; what
    a person switched off is left out (F5.1).
    """
    switched = session.enabled
    resident = [
        tool
        for tool in agent.tools
        if not tool.deferred
        and switched.get(tool.name, True)
        and (tool.when is None or tool.when(agent))
    ]
    wanted = [*discovered(session, agent.id), *(name for name, on in switched.items() if on)]
    if not wanted:
        return tuple(resident)
    later = {tool.name: tool for tool in agent.tools if tool.deferred}
    names = [name for name in dict.fromkeys(wanted) if switched.get(name, True) and name in later]
    return (*resident, *(later[name] for name in names))


def discovered(session: Session, agent: str) -> tuple[str, ...]:
    """Return the names of deferred tools found by tool_search, in the order they were found."""
    return session.state(agent).discovered_names
