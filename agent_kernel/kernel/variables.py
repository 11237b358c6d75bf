"""Variables: what the log says of the namespace beside what this kernel has: gone, changed.

May not hold or show a value: names, kinds and fingerprints are all it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_kernel.core.events import NamespaceChanged, ToolResultEvent
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.kernel import namespace

NAMED = 12


def logged(session: Session) -> dict[str, tuple[Json | str, int]]:
    """Return each name as the log last saw it: its facts, or its kind in words, and the turn."""
    found: dict[str, tuple[Json | str, int]] = {}
    for event in session.events:
        made: Mapping[str, Any] = {}
        if isinstance(event, NamespaceChanged):
            made = {"added": event.added, "changed": event.changed, "removed": event.removed}
        elif isinstance(event, ToolResultEvent):
            made = event.meta.get("namespace") or {}
        for key in ("added", "changed"):
            for name, facts in (made.get(key) or {}).items():
                found[name] = (facts, event.turn or 0)
        for name in made.get("removed") or ():
            found.pop(name, None)
    return found


def missing(session: Session, space: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return (gone, changed): names of the log this kernel lacks, or has as something else."""
    now = namespace.snapshot(space)
    gone, changed = list[str](), list[str]()
    for name, (facts, turn) in logged(session).items():
        words = facts if isinstance(facts, str) else namespace.kind_words(facts)
        said = f"{name} ({words}, turn {turn})" if turn else f"{name} ({words})"
        if name not in now:
            gone.append(said)
        elif isinstance(facts, str):
            same = facts == namespace.kind_words(now[name])
            changed += [] if same else [said]
        elif facts.get("print") != now[name]["print"]:
            changed.append(said)
    return gone, changed


def lines(session: Session, space: Mapping[str, Any]) -> list[str]:
    """Return what a resumed session is told of its variables, [] when all are as they were."""
    gone, changed = missing(session, space)
    out: list[str] = []
    if gone:
        out.append(f"Variables this kernel lacks: {_some(gone)}; %agent cells offers their code.")
    if changed:
        out.append(f"Variables that are not what they were: {_some(changed)}.")
    return out


def _some(names: list[str]) -> str:
    more = f", {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
