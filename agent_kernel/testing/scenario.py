"""Scenario: replies in order, each with its condition; data that a JSON file can hold.

May not send anything; it says which reply is next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_kernel.testing.faults import ALL

Json = dict[str, Any]
Answer = Callable[[Json], Json]
Otherwise = Literal["repeat", "answer", "error"]
_WHENS = ("contains", "model", "attempt")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Named replies, used in order; `otherwise` says what follows the last one."""

    name: str
    replies: tuple[Json, ...] = field(hash=False)
    otherwise: Otherwise = "error"

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Scenario:
        """Return the scenario of a JSON object. Raises ValueError naming what it cannot read."""
        replies = tuple(data.get("replies", ()))
        name = str(data.get("scenario", "unnamed"))
        for at, reply in enumerate(replies):
            if reply.get("fault", ALL[0]) not in ALL:
                raise ValueError(
                    f"scenario {name!r}, reply {at}: unknown fault {reply['fault']!r}; one of {ALL}"
                )
            odd = [key for key in reply.get("when", ()) if key not in _WHENS]
            if odd:
                raise ValueError(
                    f"scenario {name!r}, reply {at}: unknown `when` {odd}; one of {_WHENS}"
                )
        otherwise = data.get("otherwise", "error")
        if otherwise not in ("repeat", "answer", "error"):
            raise ValueError(
                f"scenario {name!r}: `otherwise` is {otherwise!r}; one of repeat, answer, error"
            )
        return cls(name, replies, otherwise)

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Return the scenario of a JSON file. Raises OSError or ValueError."""
        return cls.of(json.loads(Path(path).read_text(encoding="utf-8")))


class Script:
    """A scenario being played: `next(body)` gives the reply, None when `answer` shall say it."""

    def __init__(self, scenario: Scenario | None) -> None:
        self.scenario = scenario
        self._left = list(scenario.replies) if scenario else []
        self._last: Json | None = None
        self._seen: dict[bytes, int] = {}

    def next(self, body: Json, raw: bytes) -> Json | None:
        """Return the first unused reply whose `when` fits; then what `otherwise` says."""
        key = hashlib.sha256(raw).digest()
        attempt = self._seen[key] = self._seen.get(key, 0) + 1
        for at, reply in enumerate(self._left):
            if _fits(reply.get("when", {}), body, attempt):
                self._last = reply
                del self._left[at]
                return reply
        if self.scenario is None or self.scenario.otherwise == "answer":
            return None
        if self.scenario.otherwise == "repeat" and self._last is not None:
            return self._last
        text = f"scenario {self.scenario.name!r} has no reply for this request"
        return {"fault": "server", "message": text}


def _fits(when: Mapping[str, Any], body: Json, attempt: int) -> bool:
    if "contains" in when and not any(when["contains"] in text for text in texts_of(body)):
        return False
    if "model" in when and when["model"] != body.get("model"):
        return False
    return "attempt" not in when or when["attempt"] == attempt


def texts_of(value: Any) -> Iterator[str]:
    """Yield every string inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)
