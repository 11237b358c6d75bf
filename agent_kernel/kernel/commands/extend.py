"""Extend: what is added to an agent: memory, skills, tools, servers, files, hooks, and the trust
that lets a project's own files say so.

May not trust by itself: a person says yes, and to these very bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

import agent_kernel.guard.settings as guard
from agent_kernel.core.events import ToolEnabled
from agent_kernel.core.pins import PinError
from agent_kernel.core.pins import drop as drop_event
from agent_kernel.core.tool import ToolError
from agent_kernel.kernel import build
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.parse import Option, UsageError, nearest, parse
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.sections import memories, memory
from agent_kernel.tools import references, skills
from agent_kernel.widgets import tasks as view


def trust(bench: Workbench, words: list[str]) -> Work | None:
    """Say what the project's own files ask for, and let them have it after a yes."""
    given, _ = parse(words, (Option(("--yes",), None, "without being asked"),))
    settings = bench.settings
    files = [source.path for source in settings.sources() if source.project]
    if not files:
        print("The project has no settings file of its own: nothing waits for trust.")
        return None
    if settings.trusts:
        print(f"Trusted as they are: {', '.join(map(os.path.basename, files))}")
        return None
    lines = [f"Trust {settings.folder} with these files as they are now?"]
    lines += [f"  {path}" for path in files]
    lines += [f"  waits: {each}" for each in settings.guarded().inert]
    lines += [f"  hook: {each}" for each in _waiting_hooks(bench)]
    lines += [f"  server: {name}" for name in bench.mcp.waiting()]
    lines.append("A file that changes later waits again.")
    return Work(_trust(bench, "\n".join(lines), bool(given.get("yes"))), print)


async def _trust(bench: Workbench, text: str, yes: bool) -> str:
    if not yes:
        if not bench.approver.reachable:
            raise UsageError(f"{text}\nnobody is there to ask; say it with --yes")
        said = await bench.approver.asker.question(text, ["yes", "no"], False, "question")
        if said not in ("yes", "y"):
            raise UsageError("nothing was trusted")
    settings = bench.settings
    digests = guard.trust(str(settings.folder), str(settings.user_file))
    return f"{text if yes else ''}\ntrusted: {', '.join(digests)}".strip()


def _waiting_hooks(bench: Workbench) -> list[str]:
    trusted = bench.settings.trusted()
    return [
        line
        for source in bench.settings.sources()
        if source.project and source.path not in trusted
        for line in _hook_lines(source.data.get("hooks"))
    ]


def _hook_lines(block: object) -> list[str]:
    out: list[str] = []
    for moment, groups in block.items() if isinstance(block, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            inner = group.get("hooks") if isinstance(group, dict) else None
            for hook in inner if isinstance(inner, list) else ():
                matcher = group.get("matcher") or "*"
                command = hook.get("command") if isinstance(hook, dict) else hook
                out.append(view.shown(f"{moment} {matcher}: {command}"))
    return out


def hooks(bench: Workbench, words: list[str]) -> None:
    """List the hooks: which run, and which wait for trust."""
    parse(words, ())
    lines = [
        f"runs     {line}" for _path, block in bench.settings.hooks() for line in _hook_lines(block)
    ]
    lines += [f"inert    {line}" for line in _waiting_hooks(bench)]
    print("\n".join(lines) or "No hooks; they are `hooks` in a settings file.")


def mcp(bench: Workbench, words: list[str]) -> Work:
    """List the MCP servers, connect those that may be, or accept a tool that changed."""
    _given, rest = parse(words, (), most=2)
    if rest and (rest[0] != "accept" or len(rest) != 2):
        raise UsageError("%agent mcp, or %agent mcp accept TOOL")
    return Work(_mcp(bench, rest[1] if rest else None), print)


async def _mcp(bench: Workbench, accepted: str | None) -> str:
    bench.ready()
    await bench.mcp.ready()
    servers = bench.mcp.servers
    if accepted is not None:
        if servers is None or accepted not in servers.changed():
            raise UsageError(f"no tool that changed is called {accepted!r}; see %agent mcp")
        for server in servers.servers.values():
            server.accept(accepted)
        return f"{accepted} is accepted as it is now"
    lines = [f"{name}: waits for %agent trust" for name in bench.mcp.waiting()]
    lines += [f"wrong: {problem}" for problem in bench.mcp.problems]
    for state in servers.states() if servers is not None else ():
        detail = f" ({view.shown(state.detail)})" if state.detail else ""
        lines.append(f"{state.name}: {state.status}{detail}, {len(state.tools)} tools")
        lines += [f"  {name}" for name in state.tools]
    if servers is not None:
        lines += [
            f"changed: {name}; %agent mcp accept {name}" for name in sorted(servers.changed())
        ]
    return (
        "\n".join(lines) or "No servers; they are in .mcp.json, or `mcpServers` of your settings."
    )


def tools(bench: Workbench, words: list[str]) -> None:
    """List the tools and how each is sent, or switch one on or off."""
    _given, rest = parse(words, (), most=2)
    agent = bench.built(build.Options()).agent
    names = [tool.name for tool in agent.tools]
    if rest:
        if len(rest) != 2 or rest[1] not in ("on", "off"):
            raise UsageError("%agent tools NAME on, or off")
        if rest[0] not in names:
            raise UsageError(f"no tool is called {rest[0]!r}{nearest(rest[0], names)}")
        bench.ready()
        bench.session.append(ToolEnabled(name=rest[0], on=rest[1] == "on"))
        print(f"{rest[0]} is {rest[1]} from the next request on")
        return
    switched = bench.session.enabled
    for tool in agent.tools:
        how = "found by tool_search" if tool.deferred else "sent with every request"
        if tool.name in switched:
            how = "switched on" if switched[tool.name] else "switched off"
        print(f"{tool.name:24} {how}")


def show_skills(bench: Workbench, words: list[str]) -> None:
    """List the skills in force, where each comes from, and what could not be read."""
    parse(words, ())
    found = skills.find(bench.settings.folder)
    lines = [
        view.shown(f"{name:24} {skill.origin:8} {skills.first_line(skill.description)[:80]}")
        for name, skill in sorted(found.found.items())
    ]
    lines += [view.shown(f"hidden by a nearer one: {each.path}") for each in found.hidden]
    lines += [view.shown(f"not read: {problem}") for problem in found.problems]
    print("\n".join(lines) or "No skills; they are folders of .agent_kernel/skills.")


def show_memory(bench: Workbench, words: list[str]) -> None:
    """List memory files, add a memory, show one, or forget one."""
    _given, rest = parse(words, (), most=2)
    folder = bench.settings.folder
    act, *name = rest or ["list"]
    if act not in ("list", "add", "show", "forget") or (act != "list" and not name):
        raise UsageError('%agent memory, or memory add "TEXT", show NAME, forget NAME')
    if act == "list":
        home = Path(bench.settings.env.get("HOME") or Path.home())
        fixed = [f"{path:48} always" for path in memory.read(folder, home)]
        fit = [
            f"{path:48} when it fits the prompt"
            for path in memories.found(folder / memories.FOLDER)
        ]
        print("\n".join([*fixed, *fit]) or 'No memory; %agent memory add "TEXT" writes one.')
        return
    try:
        if act == "add":
            print(f"written: {memories.add(folder, name[0], bench.session).relative_to(folder)}")
        elif act == "forget":
            print(f"forgotten: {memories.forget(folder, name[0]).name}")
        else:
            files = memories.found(folder / memories.FOLDER)
            path = f"{memories.FOLDER}/{name[0].removesuffix('.md')}.md"
            print(view.shown(files[path]))
    except (KeyError, ValueError) as error:
        raise UsageError(str(error.args[0] if error.args else error)) from error


def add(bench: Workbench, words: list[str]) -> Work:
    """Attach a file, a picture or an MCP resource, as read by you, to the next request."""
    _given, rest = parse(words, (), most=1)
    if not rest:
        raise UsageError("say which file: %agent add PATH, PATH:10-40, or @server:uri")
    named = references.references(f'@"{rest[0]}"' if " " in rest[0] else f"@{rest[0].lstrip('@')}")
    if len(named) != 1:
        raise UsageError(f"{rest[0]!r} names no file")
    return Work(_add(bench, named[0]), print)


async def _add(bench: Workbench, wanted: references.Reference) -> str:
    bench.ready()
    agent = bench.built(build.Options()).agent
    try:
        made = await references.attach(bench.session, agent, wanted, by_person=True)
    except ToolError as error:
        raise UsageError(str(error)) from error
    await bench.session.log.commit()
    return (
        f"{made.label} is attached as event {made.seq}; %agent drop {made.seq} takes it out again"
    )


def drop(bench: Workbench, words: list[str]) -> None:
    """Put one line in the place of an event that the model sees."""
    _given, rest = parse(words, (), most=1)
    if not rest or not rest[0].isdigit():
        raise UsageError("say a seq: %agent drop 12; %agent surface lists them")
    bench.ready()
    try:
        made = drop_event(bench.session, int(rest[0]))
    except PinError as error:
        raise UsageError(str(error)) from error
    print(f"seq {rest[0]} is out of the next request; event {made.seq} stands in its place")


EXTEND = (
    Command("trust", "approve", "[--yes]", "let the project's own files count", trust),
    Command("hooks", "approve", "", "commands that run beside the agent's acts", hooks),
    Command("add", "context", "FILE", "attach a file to the next request", add),
    Command("drop", "context", "SEQ", "take an event out of what the model sees", drop),
    Command(
        "memory", "context", '[add "TEXT"|show NAME|forget NAME]', "what is remembered", show_memory
    ),
    Command("skills", "context", "", "skills in force and where they come from", show_skills),
    Command("tools", "context", "[NAME on|off]", "tools, and how each is sent", tools),
    Command("mcp", "context", "[accept TOOL]", "MCP servers and their tools", mcp),
)
