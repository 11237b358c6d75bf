"""Running: the open turn of a session run on the runtime, under a display, to its end or a stop.

May not start a turn: a cell, a command or an inbox does, by writing it to the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from agent_kernel.core.actions import Action, End
from agent_kernel.core.calling import ValidationError
from agent_kernel.core.events import TurnStart
from agent_kernel.core.log import LogError
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ProviderError
from agent_kernel.core.prompt import PromptError
from agent_kernel.core.query import TurnError, TurnResult, advance, interrupt, queue, result
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Ended, Task
from agent_kernel.kernel import breaks, build, filled, pages, places, turns
from agent_kernel.kernel.display import Publisher, TurnDisplay
from agent_kernel.kernel.parse import UsageError
from agent_kernel.kernel.runtime import Left, Submitted
from agent_kernel.kernel.settings import SettingsError
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import stepper

Until = Callable[[Action], bool]
# What is said in one line; any other error of ours keeps its traceback.
KNOWN = (ProviderError, TurnError, LogError, ValidationError, SettingsError, PromptError)
STOPPED = "stopped by you; what was said so far is kept"


class TurnFailed(Exception):
    """A turn that did not complete, in one readable line; the cell fails with it."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class TurnInterrupted(TurnFailed):
    """The person interrupted the turn; what was said so far is kept."""


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
        job = bench.runtime.submit(work, _known(bench, turn))
        try:
            ended = await bench.runtime.wait(job)
        except Left as left:
            print(f"The turn goes on as task {left}; %agent wait {left} waits for its end.")
            return None
    return settled(bench, ended, out)


def drive_blocking(bench: Workbench, work: Coroutine[Any, Any, Any], *, turn: bool = True) -> Any:
    """Like `drive`, from blocking code: a `%agent` line among Python lines."""
    with _said(bench):
        job = bench.runtime.submit(work, _known(bench, turn))
        bench.runtime.block_for(job)
        ended = job.done.result()
    return settled(bench, ended)


def _known(bench: Workbench, turn: bool) -> Callable[[Submitted[Any]], None]:
    """Return what makes a job the turn that runs, until it is done, wherever it is waited for."""

    def known(job: Submitted[Any]) -> None:
        if turn:
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


def to_background(bench: Workbench) -> None:
    """Let the cell of the turn that runs end, the turn go on as a task; on the runtime's loop."""
    job = bench.running
    if job is None or job.left.done() or bench.tasks is None:
        return
    start = bench.session.state().turn_start
    label = (start.text if start else "turn").strip().splitlines()[0][:80]

    async def follow(_task: Task) -> Ended:
        try:
            await asyncio.wrap_future(job.done)
        except (asyncio.CancelledError, TurnFailed, *KNOWN) as error:
            words = str(error) or "stopped"
            return Ended("stopped" if not str(error) else "failed", f"{label}: {words}")
        return Ended("completed", f"{label}: done")

    task = bench.tasks.start("cell", label, follow, awaited=True)
    job.left.set_result(task.id)


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
    return TurnDisplay(
        publisher,
        session,
        first,
        window=window,
        on_message=lambda message: _heard(bench, message),
        sidecar=sidecar_of(session),
        patience=bench.settings.get("front_wait"),
        secrecy=bench.secrecy,
    )


def _heard(bench: Workbench, message: Json) -> None:
    """Take a message of the turn's widget, on the runtime's loop."""
    if bench.approver.hear(message) or bench.running is None:
        return
    if message["type"] == "stop":
        bench.running.cancel()
    if message["type"] in ("background", "detach"):
        to_background(bench)
    if message["type"] == "steer" and str(message.get("text") or "").strip():
        queue(bench.session, {"text": str(message["text"])}, "next")


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

    Raises UsageError when no turn is open.
    """
    bench.ready()
    session = bench.session
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
    agent.on_stream = display.on_stream
    agent.on_progress = display.on_progress
    bench.display, bench.approver.guard = display, built.guard
    unhook = bench.on_session(display.on_event)
    show = asyncio.create_task(display.run())
    ended: TurnResult | Action | breaks.Stopped | None = None
    try:
        ended = await _loop(session, agent, until, passing=passing)
    finally:
        show.cancel()
        unhook()
        display.finish()
        bench.display = None
    if not isinstance(ended, breaks.Stopped):
        return ended
    if until is None:
        calls = {state.call.id: state.call for state in session.state(agent.id).open_calls}
        pages.show(publisher, stepper.view(ended.action, calls, stopped_by=f"break {ended.spec}"))
    return ended.action


async def _loop(
    session: Session, agent: Any, until: Until | None, *, passing: bool
) -> TurnResult | Action | breaks.Stopped:
    specs = breaks.set_in(session)
    try:
        while True:
            if specs and not passing and (stopped := await breaks.stop(session, agent, specs)):
                return stopped
            passing = False
            action = await advance(session, agent)
            if isinstance(action, End):
                return result(session, agent.id)
            if until is not None and until(action):
                await session.log.commit()
                return action
    except asyncio.CancelledError:
        if session.state(agent.id).turn_open:
            interrupt(session, agent)
        raise
