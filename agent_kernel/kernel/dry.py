"""Dry: what would be sent next, shown exactly, with nothing sent and nothing appended.

May not write: it builds on a copy of the session in memory.
"""

from __future__ import annotations

from agent_kernel.core.actions import Call
from agent_kernel.core.calling import build as build_request
from agent_kernel.core.log import Log
from agent_kernel.core.model import Request
from agent_kernel.core.query import advance, next_action, start_turn
from agent_kernel.core.session import Session
from agent_kernel.kernel import build, pages, panels, turns
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.running import display_of
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import request as request_view

_ACTIONS = 10  # of a step before its request: drain, attach, compact


def copy_of(session: Session) -> Session:
    """Return the session in memory: what is appended to it touches no file."""
    events = list(session.events)
    hashes = [bytes.fromhex(session.log.hash_at(event.seq)) for event in events]
    return Session(Log(None, parent=(events, hashes)))


async def next_request(session: Session, built: build.Built, prompt: str | None) -> Request | None:
    """Return the request a new turn of `prompt`, or the open one, would send; None when none comes.

    Runs every action before the request on a copy, so that attachments and compaction are in it.
    """
    copy = copy_of(session)
    agent = built.agent
    if prompt is not None:
        start_turn(copy, agent, prompt)
    await agent.refresh(copy)
    for _ in range(_ACTIONS):
        action = next_action(copy, agent)
        if isinstance(action, Call):
            return build_request(copy, agent)[0]
        if type(action).__name__ not in ("Drain", "Attach", "Compact"):
            return None
        await advance(copy, agent)
    return None


async def show_request(
    bench: Workbench, publisher: Publisher, options: build.Options, prompt: str
) -> None:
    """Show the exact request a prompt would send; the log keeps its bytes."""
    built = bench.built(options)
    made = await next_request(bench.session, built, prompt)
    if made is not None:
        pages.show(publisher, request_view.view(made, label="of this cell", sent=False))


async def show_stop(
    bench: Workbench, publisher: Publisher, built: build.Built, *, turn_too: bool = True
) -> None:
    """Show the open turn as it stands, and what the loop does next, in words."""
    session, agent = bench.session, built.agent
    if turn_too:
        first = turns.recorded(session)[-1].first
        display_of(bench, session, first, publisher).finish(update=False)
    await agent.refresh(session)
    action = next_action(session, agent)
    made = await next_request(session, built, None) if isinstance(action, Call) else None
    panels.stop(bench, publisher, action, request=made)
