"""Running: the open turn of a session run on the runtime, under a display, to its end or a stop.

May not start a turn: a cell, a command or an inbox does, by writing it to the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

import agent_kernel.core.waking as waking
from agent_kernel.core.actions import Action, End, Wait
from agent_kernel.core.agent import Agent
from agent_kernel.core.events import TurnStart
from agent_kernel.core.query import TurnResult, advance, driving, interrupt, result, wake_turn
from agent_kernel.core.session import Session
from agent_kernel.kernel import breaks, build, filled, panels, places, turns
from agent_kernel.kernel.display import Publisher, TurnDisplay, waits_for_tasks
from agent_kernel.kernel.failed import KNOWN, TurnFailed, TurnInterrupted
from agent_kernel.kernel.parse import UsageError
from agent_kernel.kernel.runtime import Left, Submitted
from agent_kernel.kernel.workbench import Workbench

Until = Callable[[Action], bool]
REST = 0.2  # seconds: ends that come together are told together
STOPPED = "stopped by you; what was said so far is kept"


# ---- on the main thread -------------------------------------------------------------------------


async def drive(
    bench: Workbench,
    work: Coroutine[Any, Any, Any],
    out: str | None = None,
    *,
    turn: bool = True,
) -> Any:
    """Await work of the runtime and return its result, the answer of a turn put into `out`.

    Raises TurnInterrupted when it was interrupted, TurnFailed when a turn did not complete. A turn
    that was moved to the background leaves with one line that names its task.
    """
    with _said(bench):
        job = bench.runtime.submit(work, known_as(bench, turn))
        try:
            ended = await bench.runtime.wait(job)
        except Left as left:
            print(f"The turn goes on as task {left}; %agent wait {left} waits for its end.")
            return None
    return settled(bench, ended, out)


def drive_blocking(bench: Workbench, work: Coroutine[Any, Any, Any], *, turn: bool = True) -> Any:
    """Like `drive`, from blocking code: a `%agent` line among Python lines."""
    with _said(bench):
        job = bench.runtime.submit(work, known_as(bench, turn))
        bench.runtime.block_for(job)
        ended = job.done.result()
    return settled(bench, ended)


def known_as(bench: Workbench, turn: bool) -> Callable[[Submitted[Any]], None]:
    """Return what makes a job the turn that runs, until it is done, wherever it is waited for."""

    def known(job: Submitted[Any]) -> None:
        if turn:
            with bench.lock:
                idle(bench)
                bench.running = job
            job.done.add_done_callback(over)

    def over(_done: object) -> None:
        bench.running = None

    return known


def idle(bench: Workbench) -> None:
    """Raise UsageError while a turn runs."""
    if bench.running is not None:
        raise UsageError("a turn runs; %agent wait for its end, or %agent stop")


@contextmanager
def _said(bench: Workbench) -> Iterator[None]:
    """Turn what a job raises into one readable line, and say what the log has to say."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError, CancelledError):
        raise TurnInterrupted(STOPPED) from None
    except KNOWN as error:
        raise TurnFailed(bench.secrecy.text(str(error))) from None
    except (UsageError, TurnFailed):
        raise
    except Exception as error:
        bench.secrecy.error(error)
        raise
    finally:
        bench.say_notices()


def settled(bench: Workbench, ended: Any, out: str | None = None) -> Any:
    """Return `ended`; a turn's answer goes into `out`. Raises TurnFailed unless it completed."""
    if not isinstance(ended, TurnResult):
        return ended
    if out:
        bench.shell.user_ns[out] = ended.answer
    if ended.reason == "completed":
        return None
    detail = ended.detail
    said = detail.get("text") or detail.get("limit") if isinstance(detail, dict) else detail
    words = f"turn {ended.turn} ended: {ended.reason.replace('_', ' ')}"
    if ended.reason == "interrupted":
        raise TurnInterrupted(f"{words} ({said}); what was said so far is kept")
    raise TurnFailed(f"{words}{f' ({said})' if said else ''}; see %agent log")


def sidecar_of(session: Session) -> str | None:
    """Return the bare file name of the session's main log, None in memory."""
    path = session.log.path
    return places.main_log(path).name if path else None


def display_of(
    bench: Workbench, session: Session, first: int, publisher: Publisher, window: int | None = None
) -> TurnDisplay:
    """Return the display of the turn that begins at index `first`."""
    display = TurnDisplay(
        publisher,
        session,
        first,
        window=window,
        on_message=bench.heard,
        sidecar=sidecar_of(session),
        patience=bench.settings.get("front_wait"),
        secrecy=bench.secrecy,
        asks=bench.approver.cards,
        tails=bench.tails,
    )
    display.own, display.before_look = bench.approver.asker.own, bench.approver.look
    return display


def options_of(bench: Workbench, start: TurnStart) -> build.Options:
    """Return the options a turn was started with, by the log; functions come from the namespace.

    A function that is gone leaves its tool out: calls of it are answered with an error.
    """
    said = start.settings
    try:
        tools = filled.fill(start.text, bench.shell.user_ns).tools
    except UsageError:
        tools = ()
    return build.Options(
        model=said.get("model"),
        base_url=said.get("base_url"),
        mode=said.get("mode"),
        max_steps=said.get("max_steps"),
        budget=said.get("budget") or {},
        tools=tools,
    )


# ---- on the runtime -----------------------------------------------------------------------------


async def go_on(
    bench: Workbench, publisher: Publisher, until: Until | None = None
) -> TurnResult | Action:
    """Run the open turn on to its end, or until `until` says stop; return how it ended.

    After a cell that was replayed the turn is over already: said in a line, nothing is sent.
    Raises UsageError when no turn is open.
    """
    bench.ready()
    await bench.mcp.ready()
    session = bench.session
    if not session.state().turn_open and bench.replayed is not None:
        print(f"Turn {bench.replayed} was replayed whole from the log: no step is left in it.")
        return result(session)
    if not session.state().turn_open:
        raise UsageError("no turn is open; write one in a %%agent cell")
    turn = turns.recorded(session)[-1]
    built = bench.built(options_of(bench, turn.start))
    return await run_open(bench, built, publisher, until, passing=True)


async def run_open(
    bench: Workbench,
    built: build.Built,
    publisher: Publisher,
    until: Until | None = None,
    *,
    passing: bool = False,
) -> TurnResult | Action:
    """Run the open turn under a display of its own, to its end or a breakpoint.

    `passing` goes past the action it stands before, whatever breakpoint that has. Raises
    CancelledError after the turn was closed as interrupted, TurnFailed on a lost request.
    """
    session, agent = bench.session, built.agent
    first = turns.recorded(session)[-1].first
    display = display_of(bench, session, first, publisher, agent.profile.window)
    agent.early = agent.early and not breaks.set_in(session)  # each call begins where it may stop
    agent.on_stream = display.on_stream
    agent.on_progress = display.on_progress
    bench.display, bench.approver.guard = display, built.guard
    bench.stand_under(publisher)
    bench.mcp.serve(lambda: bench.tools_again(agent))
    _wake_later(bench, publisher)
    unhook = bench.on_session(display.on_event)
    show = asyncio.create_task(display.run())
    ended: TurnResult | Action | breaks.Stopped | None = None
    try:
        ended = await _loop(bench, session, agent, until, passing=passing)
    finally:
        show.cancel()
        unhook()
        display.finish()
        bench.display = None
        if bench.tasks is not None and bench.tasks.running():
            bench.show_panel()
    if not isinstance(ended, breaks.Stopped):
        return ended
    if until is None:
        panels.stop(bench, publisher, ended.action, stopped_by=f"break {ended.spec}")
    return ended.action


async def _loop(
    bench: Workbench, session: Session, agent: Agent, until: Until | None, *, passing: bool
) -> TurnResult | Action | breaks.Stopped:
    specs = breaks.set_in(session)
    agent.early = until is None and not specs  # who steps wants nothing to run before it is asked
    with driving(session, agent):
        try:
            while True:
                if specs and not passing and (stopped := await breaks.stop(session, agent, specs)):
                    return stopped
                passing = False
                action = await _once(bench, session, agent)
                if isinstance(action, End):
                    return result(session, agent.id)
                if until is not None and until(action):
                    await session.log.commit()
                    return action
        except asyncio.CancelledError:
            if session.state(agent.id).turn_open:
                interrupt(session, agent)
            raise


async def _once(bench: Workbench, session: Session, agent: Agent) -> Action:
    """Do the next action; a wait for agents is over when the person detaches from it."""
    if agent.wake != "cell" or not waits_for_tasks(session, agent.id):
        return await advance(session, agent)
    bench.leave.clear()
    doing = asyncio.ensure_future(advance(session, agent))
    left = asyncio.ensure_future(bench.leave.wait())
    try:
        await asyncio.wait({doing, left}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        agent.wake = "off"  # the turn ends with what was said; later ends join the next one
        return Wait(())
    finally:
        left.cancel()
        doing.cancel()
        await asyncio.wait({doing})


# ---- turns nobody typed --------------------------------------------------------------------------


def _wake_later(bench: Workbench, publisher: Publisher) -> None:
    """Watch the inbox of this session from now on, for the cell whose code runs now."""
    if bench.waker is not None and bench.waker is not asyncio.current_task():
        bench.waker.cancel()
    bench.waker = asyncio.ensure_future(_watch_inbox(bench, publisher))


async def _watch_inbox(bench: Workbench, publisher: Publisher) -> None:
    """Until cancelled, start a turn for what waits in the inbox where `wake` is auto (F6.8)."""
    session = bench.session

    async def wake_up() -> None:
        while (now := bench.running) is not None:
            await asyncio.gather(asyncio.wrap_future(now.done), return_exceptions=True)
            await asyncio.sleep(0)
        if bench.settings.get("wake") != "auto" or not bench.approver.reachable:
            return
        if bench.session is not session or not session.state().inbox:
            return
        with suppress(UsageError):  # a cell was quicker: what waits joins its turn
            job = bench.runtime.submit(woken(bench, publisher), known_as(bench, True))
            await asyncio.gather(asyncio.wrap_future(job.done), return_exceptions=True)

    await waking.watch(session, "main", wake_up, rest=REST)


async def woken(bench: Workbench, publisher: Publisher) -> TurnResult | None:
    """Run one turn for what waits, shown under the starting cell; None when that may not be."""
    built = bench.built(build.Options())
    session, most = bench.session, bench.settings.get("wakes_in_a_row")
    if not waking.may_wake(session, built.agent, most):
        return None
    wake_turn(session, built.agent)
    await session.log.commit()
    ended = await run_open(bench, built, publisher)
    return ended if isinstance(ended, TurnResult) else None


async def settle(bench: Workbench, publisher: Publisher) -> None:
    """Without a person and with `wake auto`: turns for what ends, until no agent runs."""
    tasks = bench.tasks
    while tasks is not None and bench.settings.get("wake") == "auto":
        if await woken(bench, publisher) is not None:
            continue
        works = [task.work for task in tasks.running("main", "agent") if task.work is not None]
        if not works:
            return
        await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
