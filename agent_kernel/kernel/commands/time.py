"""Time: sessions and branches: where the log is, a new one, forks, switching.

May not delete anything: a session that is left stays on disk.
"""

from __future__ import annotations

from pathlib import Path

from agent_kernel.core.log import LogError
from agent_kernel.core.session import Session
from agent_kernel.kernel import branches, pages, places, turns
from agent_kernel.kernel.command import Command
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.parse import Option, UsageError, parse
from agent_kernel.kernel.running import idle
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import tree as tree_view


def session(bench: Workbench, words: list[str]) -> None:
    """Print where the session is kept, or open another file."""
    _given, rest = parse(words, (), most=1)
    if rest:
        idle(bench)
        try:
            bench.open(Path(rest[0]).expanduser().absolute())
        except LogError as error:
            raise UsageError(str(error)) from error
    made = bench.session
    print(f"session {made.id or '(nothing written yet)'}")
    print(f"file    {made.log.path}")
    print(f"branch  {branches.branch_name(made)}, {len(made.log)} events")
    for notice in made.log.notices:
        print(notice)


def new(bench: Workbench, words: list[str]) -> None:
    """Close the session and begin a new one beside it."""
    parse(words, ())
    idle(bench)
    path = bench.session.log.path
    if path is not None and len(bench.session.log):
        bench.open(places.next_log(path))
    print(f"new session: {places.shown(bench.session.log.path, bench.settings.folder)}")


def fork(bench: Workbench, words: list[str]) -> None:
    """Fork the session at a seq, a turn's end (T) or a step's end (T.S), and go on there."""
    options = (
        Option(("--at",), str, "a seq like 120, or a turn.step like 3.2"),
        Option(("--name",), str, "the branch's name"),
    )
    given, _ = parse(words, options)
    idle(bench)
    before = bench.session
    if not len(before.log):
        raise UsageError("nothing is recorded yet; there is nothing to fork")
    at = _seq(before, given.get("at"))
    try:
        branch = before.fork(at, given.get("name"))
    except (KeyError, ValueError) as error:
        raise UsageError(str(error.args[0])) from error
    bench.use(branch, made_here=True)
    print(f"branch {branches.branch_name(branch)} begins after seq {at}; you are on it")


def _seq(session: Session, said: str | None) -> int:
    """Return the seq a fork begins after: of a seq, or of the end of `T.S`; None = now."""
    if said is None:
        return session.log.next_seq - 1
    if said.isdigit():
        return int(said)
    turn, _, step = said.partition(".")
    found = [
        event.seq
        for event in session.events
        if turn.isdigit() and event.turn == int(turn) and step.isdigit() and event.step == int(step)
    ]
    if not found:
        raise UsageError(f"there is no step {said!r}; %agent log lists turns and steps")
    return found[-1]


def switch(bench: Workbench, words: list[str]) -> None:
    """Go on with another branch of the session."""
    _given, rest = parse(words, (), most=1)
    idle(bench)
    if not rest:
        raise UsageError(f"say which: {', '.join(branches.files_of(bench.session))}")
    made = branches.switch(bench, rest[0])
    print(f"branch {rest[0]}: {len(made.log)} events, {made.state().turn} turns")


def list_branches(bench: Workbench, words: list[str]) -> None:
    """Show the session's branches as a tree."""
    parse(words, ())
    roots = branches.tree_of(bench.session)
    pages.show(Publisher(bench.shell), tree_view.view(roots))


def report(bench: Workbench, words: list[str]) -> None:
    """Print what a problem report needs, without text of the session."""
    import platform

    from agent_kernel import __version__

    parse(words, ())
    made = bench.session
    print(f"agent_kernel {__version__}, Python {platform.python_version()}, {platform.system()}")
    print(f"{len(made.log)} events, {len(turns.recorded(made))} turns")
    kinds: dict[str, int] = {}
    for event in made.events:
        kinds[event.type] = kinds.get(event.type, 0) + 1
    print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))


TIME = (
    Command("session", "time", "[PATH]", "where the session is kept", session),
    Command("new", "time", "", "a new session beside this one", new),
    Command("fork", "time", "[--at SEQ|T.S] [--name N]", "a branch, and go on there", fork),
    Command("switch", "time", "NAME", "go on with another branch", switch),
    Command("branches", "time", "", "the branches as a tree", list_branches),
    Command("report", "evidence", "", "what a problem report needs", report),
)
