"""Secrecy: what is a secret in this kernel, and its mask for all that is written, sent or shown.

May not change what a tool is run with: only what is kept of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from agent_kernel.core.messages import Json
from agent_kernel.guard.redact import SECRET_NAME, Running, Secrets, redact, redact_json

T = TypeVar("T")
_SET_ENV = re.compile(r"^[ \t]*%(?:set_)?env[ \t]+(\w+)[ \t]*[= \t][ \t]*\S", re.MULTILINE)
MASK = "[redacted:"


class Secrecy:
    """The secrets of an environment, and of this process' own as it is now (`%set_env`)."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._given = {name: value for name, value in env.items() if _named(name)}
        self._seen: dict[str, str] | None = None
        self._secrets = Secrets()

    @property
    def secrets(self) -> Secrets:
        """The values known to be secret now."""
        now = {**self._given, **{name: os.environ[name] for name in os.environ if _named(name)}}
        if now != self._seen:
            # A value that was changed stays a secret: it stands in what was said before.
            before = {f"{name} (before)": value for name, value in (self._seen or {}).items()}
            older = self._secrets.forms
            self._secrets = Secrets({**older, **Secrets.from_env({**before, **now}).forms})
            self._seen = now
        return self._secrets

    def wire(self, event: Json) -> Json:
        """Return an event's line with its secrets masked: the log's hook.

        Signed thinking that holds one is dropped whole: changed, the API refuses it.
        """
        clean = redact_json(event, self.secrets)
        if clean is event or event.get("type") != "assistant/message":
            return clean
        pairs = zip(event["content"], clean["content"], strict=True)
        kept = [new for old, new in pairs if old == new or "thinking" not in str(old.get("type"))]
        gone = len(clean["content"]) - len(kept)
        meta = {**clean.get("meta", {}), **({"thinking_withheld": gone} if gone else {})}
        return {**clean, "content": kept, "meta": meta}

    def text(self, text: str) -> str:
        """Return a text with its secrets masked."""
        return redact(text, self.secrets)[0]

    def json(self, value: T) -> T:
        """Return a JSON value with its secrets masked; the same object when it holds none."""
        return redact_json(value, self.secrets)

    def error(self, error: BaseException) -> None:
        """Mask the secrets in what an exception will say of itself."""
        error.args = tuple(self.text(a) if isinstance(a, str) else a for a in error.args)

    def running(self) -> Running:
        """Return the mask of a text that is shown while it comes."""
        return Running(self.secrets)


def _named(name: str) -> bool:
    return SECRET_NAME.search(name) is not None or name == "ANTHROPIC_CUSTOM_HEADERS"


def masked(value: Any) -> bool:
    """Tell whether a value holds a mask, so that it is not what was meant."""
    return MASK in str(value)


def history_warning(cell: str) -> str:
    """Return what to say of a cell that sets a secret in plain words, "" when it sets none."""
    names = sorted({name for name in _SET_ENV.findall(cell) if _named(name)})
    if not names:
        return ""
    return (
        f"{', '.join(names)}: the value stands in this cell, in the notebook when that is saved "
        "and in IPython's history; set it before the kernel starts, or use getpass()"
    )
