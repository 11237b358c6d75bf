"""Choose: which model answers, why, and what was looked at on the way.

May not reach the network and may not show a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_kernel.core.messages import Json
from agent_kernel.providers.endpoints import ANTHROPIC_URL, endpoint_of, is_loopback
from agent_kernel.providers.keys import VARIABLES, find_key

DEFAULT_MODEL = "claude-sonnet-5-5"
SMALL_MODEL = "claude-haiku-5-5"  # small jobs such as titles
DEMO_MODEL = "demo"


@dataclass(frozen=True, slots=True)
class Wish:
    """A model and a base_url one source asks for; None = it does not say."""

    model: str | None = None
    base_url: str | None = None

    def __bool__(self) -> bool:
        """Whether the source asks for anything."""
        return bool(self.model or self.base_url)


NOTHING = Wish()


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that answers: `key_from` names a variable, never a value; `looked` is in order."""

    provider: str
    model: str
    endpoint: str
    base_url: str | None
    key_found: bool
    key_from: str | None
    why: str
    looked: tuple[str, ...]

    def wire(self) -> Json:
        """Return the choice as `agent-kernel model --json` prints it."""
        return {
            "provider": self.provider,
            "model": self.model,
            "endpoint": self.endpoint,
            "base_url": self.base_url,
            "key": {"found": self.key_found, "from": self.key_from},
            "why": self.why,
            "looked": list(self.looked),
        }


def choose(
    option: Wish = NOTHING,
    session: Wish = NOTHING,
    settings: Wish = NOTHING,
    env: Mapping[str, str] | None = None,
) -> Choice:
    """Return the first match: command line, session, user settings, environment, the demo.

    `settings` are the user's own, or a trusted project's. Pure in its arguments.
    """
    env = env or {}
    looked: list[str] = []
    for name, wish in (
        ("the command line", option),
        ("this session (%agent model)", session),
        ("the settings", settings),
    ):
        if wish:
            looked.append(f"{name}: {wish.model or wish.base_url}")
            return _chosen(wish, env, f"{name} asks for it", looked)
        looked.append(f"{name}: no model")
    return _of_env(env, looked)


def _of_env(env: Mapping[str, str], looked: list[str]) -> Choice:
    key = find_key(env)
    base_url = _said(env, "ANTHROPIC_BASE_URL")
    names = (*VARIABLES, "ANTHROPIC_BASE_URL")
    looked += [f"{name}: {'set' if _said(env, name) else 'not set'}" for name in names]
    if key is not None:
        return _chosen(Wish(base_url=base_url), env, f"{key.found_in} is set", looked)
    if base_url and is_loopback(base_url):
        return _chosen(
            Wish(base_url=base_url), env, "ANTHROPIC_BASE_URL is on this machine", looked
        )
    why = "no key was found" + (f" for {base_url}" if base_url else "")
    return _chosen(Wish(DEMO_MODEL), env, why, looked)


def _chosen(wish: Wish, env: Mapping[str, str], why: str, looked: list[str]) -> Choice:
    if wish.model == DEMO_MODEL and not wish.base_url:
        return Choice("demo", DEMO_MODEL, "demo", None, False, None, why, tuple(looked))
    base_url = wish.base_url or _said(env, "ANTHROPIC_BASE_URL") or ANTHROPIC_URL
    model = wish.model or _said(env, "ANTHROPIC_MODEL") or DEFAULT_MODEL
    key = find_key(env)
    return Choice(
        "anthropic",
        model,
        endpoint_of(base_url).name,
        base_url,
        key is not None,
        key.found_in if key else None,
        why,
        tuple(looked),
    )


def _said(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None
