"""Touched: which files the tools of an agent have looked at or changed, by the log.

May not read a file: nested memory and skills that belong to a folder join when it was touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from agent_kernel.core.events import FileChanged, FileObserved


@dataclass
class _Seen:
    count: int = 0
    paths: dict[str, dict[str, None]] = field(default_factory=dict)


_seen: WeakKeyDictionary[Any, _Seen] = WeakKeyDictionary()


def touched(session: Any, agent: str) -> tuple[str, ...]:
    """Return the paths an agent's tools touched, as the log names them, in order; each once."""
    if session is None:
        return ()
    seen = _seen.setdefault(session, _Seen())
    events = session.events
    for at in range(seen.count, len(events)):  # only what came since the last look
        event = events[at]
        if isinstance(event, (FileObserved, FileChanged)):
            seen.paths.setdefault(event.agent, {})[event.path] = None
    seen.count = len(events)
    return tuple(seen.paths.get(agent, ()))
