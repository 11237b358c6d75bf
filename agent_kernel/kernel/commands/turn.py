"""Turn: going on with the open turn: step, continue, resume, stop; and asking about an error.

May not act without the log: what comes next is read from it.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from agent_kernel.core.actions import Action, Call, RunBatch
from agent_kernel.core.log import LogError
from agent_kernel.core.query import TurnResult, start_turn
from agent_kernel.kernel import build, places, variables
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.dry import show_stop
from agent_kernel.kernel.parse import UsageError, nearest, parse
from agent_kernel.kernel.running import Until, go_on, idle, options_of, run_open
from agent_kernel.kernel.turns import recorded
from agent_kernel.kernel.workbench import Workbench

UNTIL: dict[str, Until] = {
    "one": lambda _action: True,
    "model": lambda action: isinstance(action, Call),
    "tools": lambda action: isinstance(action, RunBatch),
    "turn": lambda _action: False,
}


def step(bench: Workbench, words: list[str]) -> Work:
    """Do the next action of the open turn, or go on to the next model answer, tools, or the end."""
    _given, rest = parse(words, (), most=1)
    wanted = rest[0] if rest else "one"
    if wanted not in UNTIL:
        raise UsageError(f"step {wanted!r}{nearest(wanted, list(UNTIL)[1:])}")
    publisher = Publisher(bench.shell)
    return Work(_step(bench, publisher, UNTIL[wanted]), turn=True)


async def _step(bench: Workbench, publisher: Publisher, until: Until) -> TurnResult | None:
    ended = await go_on(bench, publisher, until)
    if isinstance(ended, TurnResult):
        return ended
    turn = recorded(bench.session)[-1]
    await show_stop(bench, publisher, bench.built(options_of(bench, turn.start)), turn_too=False)
    return None


def go_on_with(bench: Workbench, words: list[str]) -> Work:
    """Run the open turn to its end."""
    parse(words, ())
    return Work(go_on(bench, Publisher(bench.shell)), turn=True)


def resume(bench: Workbench, words: list[str]) -> Work | None:
    """Open a session again, say what its last kernel left, and go on with its open turn."""
    _given, rest = parse(words, (), most=1)
    idle(bench)
    if rest:
        path = Path(rest[0]).expanduser().absolute()
        if not path.is_file():
            raise UsageError(f"there is no session file {rest[0]!r}")
        try:
            bench.open(path)
        except LogError as error:
            raise UsageError(str(error)) from error
    session = bench.session
    found = bench.ready()
    where = places.shown(session.log.path, bench.settings.folder)
    print(f"{where}: {len(session.log)} events, {session.state().turn} turns")
    if found is not None:
        _say_found(found.damaged_bytes, found.open_calls, len(found.findings))
    for notice in (*session.log.notices, *variables.lines(session, bench.shell.user_ns)):
        print(notice)
    if not session.state().turn_open:
        print("No turn is open.")
        return None
    return Work(go_on(bench, Publisher(bench.shell)), turn=True)


def _say_found(damaged: int, calls: tuple[str, ...], findings: int) -> None:
    if damaged:
        print(f"{damaged} bytes after the last whole line were put aside")
    if calls:
        names = ", ".join(calls)
        print(f"Calls that had started and have no result: {names}. They are not run again.")
    if findings:
        print(f"{findings} findings; see %agent replay --verify")


def stop(bench: Workbench, words: list[str]) -> None:
    """End the turn that runs, or close the open one as interrupted."""
    parse(words, ())
    if bench.running is not None:
        bench.running.cancel()
        return
    bench.ready()
    state = bench.session.state()
    if not state.turn_open:
        raise UsageError("no turn is open")
    bench.session.close_turn("interrupted", "stopped with %agent stop")
    print(f"Turn {state.turn} is closed; its calls without a result are answered 'not run'.")


def error(bench: Workbench, words: list[str]) -> Work:
    """Ask the model to explain the last traceback of a Python cell."""
    parse(words, ())
    found = getattr(sys, "last_value", None)
    if not isinstance(found, BaseException):
        raise UsageError("no cell of this kernel has failed yet")
    lines = traceback.format_exception(found)[-40:]
    prompt = f"Explain the last error of my notebook; change nothing.\n\n{''.join(lines)}"
    return Work(_ask(bench, Publisher(bench.shell), prompt), turn=True)


async def _ask(bench: Workbench, publisher: Publisher, prompt: str) -> TurnResult | Action:
    bench.ready()
    built = bench.built(build.Options())
    start_turn(bench.session, built.agent, prompt, text="Explain the last error of my notebook")
    await bench.session.log.commit()
    return await run_open(bench, built, publisher)


TURN = (
    Command("step", "turn", "[model|tools|turn]", "do the next action of the open turn", step),
    Command("continue", "turn", "", "run the open turn to its end", go_on_with),
    Command("resume", "time", "[PATH]", "open a session again and go on with its turn", resume),
    Command("stop", "turn", "", "end the turn that runs or is open", stop),
    Command("error", "turn", "", "explain the last traceback", error),
)
