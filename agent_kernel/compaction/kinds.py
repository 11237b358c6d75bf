"""Kinds: which events hold a fact of each kind, for whoever recalls by kind.

May not rank or shorten: it names seqs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from agent_kernel.compaction.constraints import constraints
from agent_kernel.compaction.facts import KINDS, Kind, facts
from agent_kernel.compaction.nodes import calls_by_id, errors_open
from agent_kernel.core.events import SurfaceEvent, ToolResultEvent
from agent_kernel.core.session import Session

COMMANDS = ("bash", "Bash", "python")
FactKinds = Mapping[str, Callable[[Session, str], Collection[int]]]


def _events(session: Session, agent: str) -> list[SurfaceEvent]:
    """Return what the agent saw: the events as they were first logged, replacements left out."""
    return [
        e
        for e in session.events
        if isinstance(e, SurfaceEvent) and e.agent == agent and e.replaces is None
    ]


def _of_kind(session: Session, agent: str, *, kind: Kind) -> set[int]:
    found = facts(_events(session, agent))
    return {mention.seq for fact in found if fact.kind == kind for mention in fact.places}


def _constraints(session: Session, agent: str) -> set[int]:
    return {one.seq for one in constraints(_events(session, agent))}


def _errors(session: Session, agent: str) -> set[int]:
    return {node.seq for node in errors_open(_events(session, agent)).values()}


def _commands(session: Session, agent: str) -> set[int]:
    events = _events(session, agent)
    calls = calls_by_id(events)
    return {
        e.seq
        for e in events
        if isinstance(e, ToolResultEvent) and e.id in calls and calls[e.id].name in COMMANDS
    }


FACT_KINDS: FactKinds = {
    **{kind: partial(_of_kind, kind=kind) for kind in KINDS},
    "error": _errors,
    "command": _commands,
    "constraint": _constraints,
}
