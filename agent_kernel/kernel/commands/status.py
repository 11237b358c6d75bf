"""Status: what is going on, where it is kept, which settings count, and the help.

May not change anything but a setting of this session.
"""

from __future__ import annotations

from agent_kernel.core.compaction import context_tokens
from agent_kernel.kernel import build, places
from agent_kernel.kernel.branches import branch_name
from agent_kernel.kernel.command import Command
from agent_kernel.kernel.parse import Option, UsageError, nearest, parse
from agent_kernel.kernel.settings import KEYS, SettingsError
from agent_kernel.kernel.workbench import Workbench

NINE = ("status", "step", "stop", "show", "usage", "fork", "compact", "undo", "report")


def status(bench: Workbench, words: list[str]) -> None:
    """Print model, key, session, mode, context, tasks, and three things to try next."""
    parse(words, ())
    session, settings = bench.session, bench.settings
    choice = build.choice_of(session, settings, build.Options())
    state = session.state()
    running = session.running_tasks("main", "agent")
    where = places.shown(session.log.path, settings.folder)
    full = context_tokens(session, "main")
    rows = [
        ("model", f"{choice.model}: {choice.why}"),
        ("key", build.key_words(choice)),
        ("session", f"{where}, {len(session.log)} events, branch {branch_name(session)}"),
        ("mode", build.mode_of(session, settings, build.Options())),
        ("turns", f"{state.turn}{', the last one is open' if state.turn_open else ''}"),
        ("context", f"{full:,} of {build.profile_for(choice).window:,} tokens"),
        ("tasks", f"{len(running)} running" if running else "none running"),
        ("next", _next(bench)),
    ]
    print("\n".join(f"{name:8} {value}" for name, value in rows))


def _next(bench: Workbench) -> str:
    session = bench.session
    if session.state().turn_open:
        return "%agent continue · %agent step · %agent stop"
    if not session.state().turn:
        return "a cell that begins with %%agent · %agent help · %agent config"
    return "a cell that begins with %%agent · %agent show request · %agent usage"


def config(bench: Workbench, words: list[str]) -> None:
    """Print settings, one setting with where it comes from, or set one for this session."""
    given, rest = parse(words, (Option(("--explain",), None, "every source"),), most=2)
    settings = bench.settings
    try:
        if len(rest) == 2:
            settings.set(rest[0], rest[1])
        names = rest[:1] or list(KEYS)
        for name in names:
            found = settings.explain(name)
            shown = found if given.get("explain") else [next(f for f in found if not f.why)]
            for each in shown:
                why = f"  ({each.why})" if each.why else ""
                print(f"{name:16} {each.value!s:20} {each.source}{why}")
    except SettingsError as error:
        raise UsageError(str(error)) from error


def order(bench: Workbench, words: list[str]) -> None:
    """Print or set what a changed earlier cell does: notebook (fork) or append."""
    _given, rest = parse(words, (), most=1)
    config(bench, ["order", *rest])


def model(bench: Workbench, words: list[str]) -> None:
    """Print which model answers and why, or choose one for this session."""
    from agent_kernel.core.events import ModelSelected

    given, rest = parse(words, (Option(("--base-url",), str, "the API's address"),), most=1)
    if rest:
        event = ModelSelected(
            model=rest[0],
            provider="anthropic",
            base_url=given.get("base_url"),
            why="chosen with %agent model",
        )
        bench.ready()
        bench.session.append(event)
    choice = build.choice_of(bench.session, bench.settings, build.Options())
    print(f"{choice.model}: {choice.why}\nkey: {build.key_words(choice)}")
    for looked in choice.looked:
        print(f"looked at {looked}")


def usage_help(_bench: Workbench, words: list[str]) -> None:
    """Print the nine commands a person needs first, or all of them."""
    from agent_kernel.kernel.commands import ALL

    _given, rest = parse(words, (), most=1)
    if rest and rest[0] not in ("all", *ALL):
        raise UsageError(f"no help on {rest[0]!r}{nearest(rest[0], ('all', *ALL))}")
    chosen = [ALL[name] for name in NINE if name in ALL]
    if rest:
        chosen = [ALL[rest[0]]] if rest[0] in ALL else list(ALL.values())
    for command in chosen:
        print(f"%agent {f'{command.name} {command.usage}'.strip():48} {command.doc}")
    if not rest:
        print("%agent help all lists the rest; %%agent --help the options of a cell")


STATUS = (
    Command("status", "see", "", "model, key, session, mode, context, tasks", status),
    Command("config", "settings", "[KEY [VALUE]] [--explain]", "settings and their source", config),
    Command("order", "settings", "[notebook|append]", "what a changed earlier cell does", order),
    Command("model", "settings", "[ID] [--base-url URL]", "which model answers, and why", model),
    Command("help", "settings", "[all|COMMAND]", "this list", usage_help),
)
