"""Waking: turns nobody typed: for a task's end, without a person a few in a row and no more.

May not decide in which setting it is wanted: `wake` is the roof's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agent_kernel.core.agent import NO_LIMITS, Agent
from agent_kernel.core.events import Event
from agent_kernel.core.limits import over_limits
from agent_kernel.core.query import TurnResult, query, wake_turn
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Ended, Kind, Task, Tasks

IN_A_ROW = 3  # features.md F6.8, setting wakes_in_a_row


def may_wake(session: Session, agent: Agent, in_a_row: int = IN_A_ROW) -> bool:
    """Tell whether a turn may start for what waits: none is open, too few in a row, money left."""
    state = session.state(agent.id)
    idle = bool(state.inbox) and not state.turn_open and agent.id not in session.driven
    return idle and state.wakes < in_a_row and over_limits(session, _rested(agent)) is None


def _rested(agent: Agent) -> Agent:
    """Return the agent by its session's limits alone: a new turn has its own to spend."""
    return replace(agent, limits=NO_LIMITS)


async def wake(session: Session, agent: Agent) -> TurnResult | None:
    """Run one turn for what waits in the inbox; None when that may not be."""
    if not may_wake(session, agent):
        return None
    wake_turn(session, agent)
    await session.log.commit()
    return await query(session, agent)


async def watch(
    session: Session, agent: str, wake_up: Callable[[], Awaitable[object]], rest: float = 0.0
) -> None:
    """Until cancelled, call `wake_up` whenever something waits for `agent` and no turn is open.

    `rest` seconds pass before, so that ends that come together are told together.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def hear(event: Event) -> None:
        if event.agent == agent:
            loop.call_soon_threadsafe(news.set)

    session.log.listeners.append(hear)
    try:
        while True:
            await news.wait()
            await asyncio.sleep(rest)
            news.clear()
            state = session.state(agent)
            if state.inbox and not state.turn_open:
                await wake_up()
    finally:
        session.log.listeners.remove(hear)


async def settle(
    session: Session, agent: Agent, kinds: tuple[Kind, ...] = ("agent",)
) -> TurnResult | None:
    """Wait until no task of these kinds runs and nothing waits, waking turns as `auto` does.

    Returns the last turn's result, None when none was needed. For runs without a person.
    """
    last: TurnResult | None = None
    while True:
        woken = await wake(session, agent)
        if woken is not None:
            last = woken
            continue
        works = [
            task.work
            for kind in kinds
            for task in (agent.tasks.running(agent.id, kind) if agent.tasks else ())
            if task.work is not None
        ]
        if not works:
            return last
        await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)


def in_background(
    session: Session, tasks: Tasks, agent: str, running: asyncio.Future[TurnResult], label: str
) -> Task:
    """Make a running turn a task of kind `c`, so that its cell may end; return the task (F6.12).

    Its end is told to the person by whoever waits for the task: no notice is due. The log of the
    turn is that of an unmoved one but for the task's events. Stopping the task interrupts the turn.
    """

    async def work(_task: Task) -> Ended:
        try:
            done = await running
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait([running])
            raise
        said = f"Turn {done.turn} ended: {done.reason}"
        return Ended("completed" if done.reason == "completed" else "failed", said, done.answer)

    return tasks.start("cell", label, work, agent=agent, awaited=True, begun=True)
