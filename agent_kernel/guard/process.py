"""Processes: the environment of commands, and running one to its end with its whole tree.

It decides nothing: rules and sandbox are chosen before.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import agent_kernel.guard.launch as launch
from agent_kernel.guard.child import GRACE, TASK_NAME, Child, marked, stop_all
from agent_kernel.guard.endings import Finished, Limits, explain
from agent_kernel.guard.output import Live
from agent_kernel.guard.redact import SECRET_NAME
from agent_kernel.guard.sandbox import Sandbox

__all__ = [
    "Child",
    "Finished",
    "Limits",
    "alive",
    "child_env",
    "explain",
    "marked",
    "run",
    "stop_all",
    "stop_orphan",
]
CANCEL_GRACE = 0.3  # seconds between TERM and KILL when a person waits for the cell to come back

_UNWANTED = re.compile(
    r"(?:ANTHROPIC_|LD_|BASH_FUNC_|GIT_).*|BASH_ENV|ENV|SHELLOPTS|PROMPT_COMMAND"
    r"|PYTHONSTARTUP|NODE_OPTIONS|RUBYOPT|PERL5OPT"
    # These change how bash reads a text, so that the text run is not the text judged.
    r"|BASHOPTS|CDPATH|GLOBIGNORE|POSIXLY_CORRECT|IFS|PS4"
)
_QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # An empty diff.external would make `git diff` fail (git 2.39), so it is left alone.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.pager",
    "GIT_CONFIG_VALUE_1": "cat",
    "TERM": "dumb",
}


def child_env(extra: Mapping[str, str] = {}, pass_env: Collection[str] = ()) -> dict[str, str]:
    """Return the environment of a child: ours without secrets and names that make tools run code.

    Names in `pass_env` are given back; `extra` is laid over at the end. Relative and empty PATH
    entries are dropped, so no name is looked up in the working directory.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in pass_env or not (SECRET_NAME.search(name) or _UNWANTED.fullmatch(name))
    }
    path = env.get("PATH", os.defpath).split(os.pathsep)
    env["PATH"] = os.pathsep.join(part for part in path if Path(part).is_absolute())
    env.update({name: value for name, value in _QUIET.items() if name not in pass_env})
    if _odd_letters(env):
        env["LC_ALL"] = "C.UTF-8"
    env.setdefault(TASK_NAME, "none")
    return {**env, **extra}


def _odd_letters(env: Mapping[str, str]) -> bool:
    """Tell whether the locale reads bytes as bash does not when a text is judged as UTF-8."""
    name = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"
    return name not in ("C", "POSIX") and re.search(r"utf-?8", name, re.IGNORECASE) is None


def alive(pid: int, started: int | None) -> bool:
    """Tell whether PID is still the process that started at `started` (clock ticks since boot)."""
    return started is not None and launch.start_time(pid) == started


def stop_orphan(pid: int, started: int, task: str, grace: float = GRACE) -> bool:
    """Stop the tree of a task that another process of ours started; tell whether it is gone.

    Blocks for at most `grace` + 1 seconds. Nothing is signalled that is not that very process, a
    descendant of it, or marked with the id of the task.
    """
    until = time.monotonic() + grace
    number = signal.SIGTERM
    while True:
        tree = marked(task)
        if alive(pid, started):
            tree |= {pid: started, **launch.descendants(pid)}
        if not tree or time.monotonic() > until + 1:
            return not tree
        if number is signal.SIGTERM or time.monotonic() >= until:
            launch.send_all(tree, number)
            number = signal.SIGKILL
        time.sleep(0.02)


async def run(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    timeout: float,
    env: Mapping[str, str],
    spill: Path | None = None,
    on_output: Callable[[bytes], None] | None = None,
    sandbox: Sandbox | None = None,
    limits: Limits | None = None,
) -> Finished:
    """Run `argv` to its end, at most `timeout` seconds, and return how it ended.

    `on_output` is called in the loop's thread with what came since its last call, the newest
    128 KiB at most. `spill` is made only when the output is more than memory keeps. A cancelled
    call stops the tree within a second and raises CancelledError again. Raises as `Child.start`.
    """
    view = Live(asyncio.get_running_loop(), on_output) if on_output is not None else None
    child = Child.start(
        argv,
        cwd=cwd,
        env=env,
        spill=spill,
        on_output=view.add if view is not None else None,
        sandbox=sandbox,
        limits=limits,
        eager=False,
    )
    try:
        finished = await child.wait(timeout)
        if finished is None:
            finished = replace(await child.stop(), timed_out=True)
    except asyncio.CancelledError:
        await child.stop(CANCEL_GRACE)
        raise
    finally:
        child.stop_soon(0.0)
    if view is not None:
        view.flush()
    return finished
