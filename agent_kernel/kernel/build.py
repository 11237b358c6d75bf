"""Build: the roof's wiring: settings and environment make an Agent of provider, tools and guard.

May not run anything and may not open a connection: clients are made at the first request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from agent_kernel import compaction, sections
from agent_kernel import tools as rooms_tools
from agent_kernel.core.agent import NO_LIMITS, Agent, Background, Limits
from agent_kernel.core.hooks import Hook
from agent_kernel.core.limits import over_limits
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ModelProfile, Provider
from agent_kernel.core.prompt import Section
from agent_kernel.core.session import Session
from agent_kernel.core.tasks import Tasks
from agent_kernel.core.tool import Tool
from agent_kernel.guard.calls import Mode
from agent_kernel.guard.hook_files import hooks_of
from agent_kernel.guard.rules import Rules, parse_rules
from agent_kernel.kernel.permit import Grants, Guard
from agent_kernel.kernel.secrecy import Secrecy
from agent_kernel.kernel.settings import Settings, SettingsError
from agent_kernel.providers import BY_NAME, Cassette, Choice, Wish, choose, profile_of
from agent_kernel.providers import build as provider_of
from agent_kernel.providers.endpoints import is_loopback
from agent_kernel.providers.keys import Key, find_key
from agent_kernel.tools import checkpoints
from agent_kernel.tools.mcp import Servers
from agent_kernel.tools.web import WebConfig

# The providers of a kernel, made at first use.
Kept = dict[tuple[Choice, Key | None, Cassette | None], Provider]
LIMIT_NAMES = ("steps", "tool_calls", "tokens", "dollars", "seconds")


@dataclass(frozen=True)
class Options:
    """What one cell or command line asks for beside the settings; None = as set."""

    model: str | None = None
    base_url: str | None = None
    mode: str | None = None
    max_steps: int | None = None
    budget: Json = field(default_factory=dict)  # {"dollars": 0.5} or {"tokens": 40000}
    tools: tuple[Tool, ...] = ()  # functions handed over in the prompt
    rules: Rules | None = None

    def settings(self) -> Json:
        """Return what of it makes a turn another turn (its key)."""
        given = {"mode": self.mode, "max_steps": self.max_steps, "base_url": self.base_url}
        out: Json = {name: value for name, value in given.items() if value is not None}
        if self.budget:
            out["budget"] = self.budget
        if self.tools:
            out["tools"] = [tool.schema.wire() for tool in self.tools]
        return out


@dataclass
class Built:
    """An agent with what the roof keeps beside it: its guard and why this model was chosen."""

    agent: Agent
    guard: Guard
    choice: Choice


def choice_of(session: Session | None, settings: Settings, options: Options) -> Choice:
    """Return which model answers and why (models.md §7): no network, nothing probed."""
    chosen = session.model if session is not None else None
    return choose(
        option=Wish(options.model, options.base_url),
        session=Wish(chosen.model, chosen.base_url) if chosen else Wish(),
        settings=Wish(settings.get("model"), settings.get("base_url")),
        env=settings.env,
    )


def key_words(choice: Choice) -> str:
    """Return where the key was found, or the places looked at; never a key."""
    if choice.key_found:
        return f"found in {choice.key_from}"
    if choice.provider == "demo" or is_loopback(choice.base_url):
        return "none needed: " + "; ".join(choice.looked)
    return "none found: " + "; ".join(choice.looked)


def redactor(settings: Settings) -> Callable[[Json], Json]:
    """Return the hook that masks secrets before a line is written."""
    return Secrecy(settings.env).wire


def built(
    session: Session,
    settings: Settings,
    options: Options,
    *,
    services: Mapping[str, Any],
    notebook: Callable[[], str] = lambda: "",
    ask: Any = None,
    grants: Grants | None = None,
    tasks: Tasks | None = None,
    providers: Kept | None = None,
    background: Background | None = None,
    wake: Literal["cell", "auto", "off"] = "cell",
    servers: Servers | None = None,
    cassette: Cassette | None = None,
) -> Built:
    """Return the agent that runs this session's turns. Raises SettingsError or ValueError."""
    choice = choice_of(session, settings, options)
    guard = _guard(session, settings, options, notebook, grants, servers)
    profile = profile_for(choice)
    agent = Agent(
        provider=_provider(choice, settings, providers, cassette),
        model=choice.model,
        profile=profile,
        tools=tools_of(settings, profile, (*_served(servers), *options.tools)),
        sections=_sections(settings),
        strategies=compaction.ALL,
        limits=_turn_limits(session, settings, options),
        session_limits=_limits(NO_LIMITS, session.limits.get("notebook")),
        permit=guard.judge,
        ask=ask,
        hooks=hooks_for(session, settings),
        max_tokens=settings.get("max_tokens"),
        workspace=settings.folder,
        services={**_services(settings, guard, servers), **services},
        background=background,
        tasks=tasks,
        wake=wake,
        fallback_model=settings.get("fallback_model"),
    )
    guard.over_budget = lambda: _over(session, agent)
    checkpoints.watch(session, agent, settings.get("snapshots"))
    return Built(agent, guard, choice)


def _guard(
    session: Session,
    settings: Settings,
    options: Options,
    notebook: Callable[[], str],
    grants: Grants | None,
    servers: Servers | None,
) -> Guard:
    return Guard(
        session,
        settings,
        mode=lambda: mode_of(session, settings, options),
        notebook=notebook,
        extra=_started_with(settings, options),
        grants=grants,
        changed=servers.changed if servers is not None else frozenset,
    )


def _services(settings: Settings, guard: Guard, servers: Servers | None) -> Json:
    """Return what tools and sections are handed whatever the kernel adds."""
    found: Json = {
        "facts": compaction.FACT_KINDS,
        "data": settings.get("data.sources"),
        "lent": rooms_tools.LENT,
        "may_read": guard.may_read,
        "web": _web(settings),
    }
    return found if servers is None else {**found, "mcp": servers}


_packages_tools = functools.cache(rooms_tools.found)  # looked for once: packages do not come later
_packages_sections = functools.cache(sections.found)


def tools_of(
    settings: Settings, profile: ModelProfile, more: Sequence[Tool] = ()
) -> tuple[Tool, ...]:
    """Return the tools in the order of requests, `more` among them, deferred as settings say."""
    whole = rooms_tools.ordered([*_packages_tools(), *more])
    return rooms_tools.deferral(whole, settings.get("defer"), profile.window)


def hooks_for(session: Session, settings: Settings) -> list[Hook]:
    """Return the commands of the person's own settings file and of project files they trust.

    Raises SettingsError naming a bad one.
    """
    about = {"session_id": session.id or "", "transcript_path": str(session.log.path or "")}
    found: list[Hook] = []
    for path, block in settings.hooks():
        hooks, problems = hooks_of(block, settings.folder, about)
        if problems:
            raise SettingsError(f"hooks in {path!r}: {problems[0]}")
        found += hooks
    return found


def with_servers(
    settings: Settings, profile: ModelProfile, own: Sequence[Tool], servers: Servers
) -> tuple[Tool, ...]:
    """Return an agent's own tools with those of the servers as they are now, in their order."""
    whole = rooms_tools.ordered([*own, *servers.tools()])
    return rooms_tools.deferral(whole, settings.get("defer"), profile.window)


def _served(servers: Servers | None) -> list[Tool]:
    return servers.tools() if servers is not None else []


def _web(settings: Settings) -> WebConfig:
    """Return what the person set of web search and fetch: `web` of their own file."""
    given: Json = {}
    for source in settings.counting("web"):
        if not source.project and isinstance(source.data["web"], dict):
            given = dict(source.data["web"])
    wrong = sorted(set(given) - {"search", "fetch", "folder"})
    if wrong:
        raise SettingsError(f"web holds {wrong[0]!r}; its keys are search, fetch, folder")
    folder = settings.folder / str(given["folder"]) if given.get("folder") else None
    local = settings.allow_local()
    return WebConfig(given.get("search"), given.get("fetch"), folder, allow_local=local)


def _over(session: Session, agent: Agent) -> str:
    """Return the sentence of a spent budget, "" while there is some left."""
    stop = over_limits(session, agent)
    if stop is None or stop.reason != "budget" or not isinstance(stop.detail, dict):
        return ""
    detail = stop.detail
    return f"the budget of {detail['allowed']:,} {detail['limit']} ({detail['scope']}) is spent"


def profile_for(choice: Choice) -> ModelProfile:
    """Return the limits of the chosen model at its host."""
    return profile_of(choice.model, BY_NAME[choice.endpoint])


def _provider(
    choice: Choice, settings: Settings, kept: Kept | None, cassette: Cassette | None
) -> Provider:
    """Return the provider of a choice: one client and its connections for all turns of a kernel."""
    held = (choice, find_key(settings.env), cassette)  # a key that was mended is used at once
    if kept is not None and held in kept:
        return kept[held]
    made = provider_of(choice, settings.env, cassette=cassette)
    if kept is not None:
        kept[held] = made
    return made


def _started_with(settings: Settings, options: Options) -> Rules:
    """Return the rules of the command line and of the environment that started this process."""
    found = options.rules or Rules()
    allowed = settings.allowed()
    return found.plus(parse_rules({"allow": allowed})) if allowed else found


def mode_of(session: Session, settings: Settings, options: Options) -> Mode:
    """Return the permission mode that counts: option, session, settings.

    A plan that was approved ended the plan mode of an option, too.
    """
    if options.mode == "plan" and session.mode not in (None, "plan"):
        return cast(Mode, session.mode)
    if options.mode or session.mode:
        return cast(Mode, options.mode or session.mode)
    found = next(each for each in settings.explain("mode") if not each.why)
    return settings.guarded().mode if found.source == "default" else cast(Mode, found.value)


def _turn_limits(session: Session, settings: Settings, options: Options) -> Limits:
    base = Limits(
        steps=settings.get("max_steps"),
        tool_calls=settings.get("max_tool_calls"),
        tokens=settings.get("turn_tokens"),
        seconds=settings.get("turn_seconds"),
    )
    found = _limits(_limits(base, settings.get("budget")), session.limits.get("turn"))
    given = {**options.budget}
    if options.max_steps is not None:
        given["steps"] = options.max_steps
    return _limits(found, given)


def _limits(base: Limits, given: Any) -> Limits:
    values = {name: getattr(base, name) for name in LIMIT_NAMES}
    values.update({k: v for k, v in (given or {}).items() if k in values})
    return Limits(**values)


def _sections(settings: Settings) -> Sequence[Section]:
    """Return the room's and packages' sections, and the person's own text as the last static
    one."""
    text = settings.get("instructions")
    found = _packages_sections()
    if not text:
        return found
    path = settings.folder / text
    if len(text) < 256 and "\n" not in text and path.is_file():
        text = path.read_text(encoding="utf-8")
    own = Section("instructions", True, lambda _context: text, owner="your settings")
    return (*found, own)
