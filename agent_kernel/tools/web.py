"""Web: which provider answers a search or a fetch, and the bounds every one of them is held to.

May not let load order choose: a named provider, or the only usable one, or an error naming all.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from agent_kernel.core.events import ToolResultEvent
from agent_kernel.core.session import Session
from agent_kernel.core.tool import ToolContext, ToolError

GROUP = "agent_kernel.web"
CALLS = 200  # searches and fetches of one session
SOURCES = 8  # of one query
EXCERPT = 1500  # characters of one source
SECONDS = 30.0


@dataclass(frozen=True)
class Source:
    """One answer of a search: a stranger's title and text, and where they are from."""

    url: str
    title: str
    text: str
    date: str = ""


@dataclass(frozen=True)
class WebConfig:
    """What a person set: provider ids, the folder to search, other base URLs, local grants.

    `search` and `fetch` None = the only usable one; keys come from the environment alone.
    """

    search: str | None = None
    fetch: str | None = None
    folder: Path | None = None
    base_urls: Mapping[str, str] = field(default_factory=dict)
    allow_local: Collection[tuple[str, int]] = frozenset()


class SearchProvider(Protocol):
    """What finds sources; it never changes the tool's schema."""

    @property
    def id(self) -> str:
        """Its name in settings, errors and results."""
        ...

    def usable(self, config: WebConfig) -> str:
        """Return "" when it can be used, else what is missing, in words."""
        ...

    async def search(
        self, query: str, allow: Collection[str], block: Collection[str], config: WebConfig
    ) -> list[Source]:
        """Return at most 8 sources. Raises ToolError naming itself and what the service said."""
        ...


def config_of(ctx: ToolContext) -> WebConfig:
    """Return the roof's `web` service, or the defaults."""
    found = ctx.services.get("web", WebConfig())
    assert isinstance(found, WebConfig)
    return found


@functools.cache
def others() -> tuple[SearchProvider, ...]:
    """Return the providers of other packages, by the entry points' names; looked for once."""
    entries = importlib.metadata.entry_points(group=GROUP)
    return tuple(entry.load()() for entry in sorted(entries, key=lambda entry: entry.name))


def any_usable(shipped: Iterable[SearchProvider], config: WebConfig) -> bool:
    """Tell whether a search could be answered: a chosen provider counts, it says what it lacks."""
    return config.search is not None or any(
        not each.usable(config) for each in (*shipped, *others())
    )


def joined(shipped: Iterable[SearchProvider]) -> list[SearchProvider]:
    """Return the shipped providers and other packages' by id. Raises ToolError on a clash."""
    found = [*shipped, *others()]
    ids = [each.id for each in found]
    if twice := sorted({i for i in ids if ids.count(i) > 1}):
        raise ToolError(f"WEB_PROVIDER_AMBIGUOUS: two providers call themselves {twice[0]!r}")
    return sorted(found, key=lambda each: each.id)


def choose(
    providers: Iterable[SearchProvider], wanted: str | None, config: WebConfig
) -> SearchProvider:
    """Return the configured provider, or the only usable one. Raises ToolError naming all."""
    by_id = {each.id: each for each in providers}
    names = ", ".join(sorted(by_id))
    if wanted is not None:
        if wanted not in by_id:
            raise ToolError(f"WEB_PROVIDER_UNKNOWN: no provider {wanted!r}; there are: {names}")
        if missing := by_id[wanted].usable(config):
            raise ToolError(f"WEB_PROVIDER_MISSING: {wanted!r} is chosen but {missing}")
        return by_id[wanted]
    usable = [by_id[i] for i in sorted(by_id) if not by_id[i].usable(config)]
    if len(usable) == 1:
        return usable[0]
    if usable:
        ids = ", ".join(each.id for each in usable)
        raise ToolError(f"WEB_PROVIDER_AMBIGUOUS: usable are {ids}; the person has to choose one")
    needs = "; ".join(f"{i}: {by_id[i].usable(config)}" for i in sorted(by_id))
    raise ToolError(f"WEB_PROVIDER_MISSING: none is usable ({needs})")


def key_of(name: str) -> str | None:
    """Return a key of the environment, None when it is not set."""
    return os.environ.get(name) or None


def host_of(url: str) -> str:
    """Return a URL's host in lower case, "" when it has none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def permitted(url: str, allow: Collection[str], block: Collection[str]) -> bool:
    """Tell whether a source's host is in `allow` (if given), not in `block`; subdomains too."""
    host = host_of(url)

    def inside(domains: Collection[str]) -> bool:
        return any(host == d or host.endswith("." + d) for d in map(str.lower, domains))

    return (not allow or inside(allow)) and not inside(block)


def count_call(session: Session) -> None:
    """Raise ToolError when this session has used its 200 calls, by the log."""
    used = sum(
        isinstance(event, ToolResultEvent) and "web_provider" in event.meta
        for event in session.events
    )
    if used >= CALLS:
        raise ToolError(f"this session has made {CALLS} web calls, the limit; go on without")
