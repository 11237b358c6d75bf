"""Tree: the branches of a session, or the agents of a turn, drawn with lines.

May not open a branch: what stands in the tree is handed in, or folded from task events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.units as units
from agent_kernel.core.events import AssistantMessage, Event, TaskCreated, TaskFinished, TaskLost
from agent_kernel.core.messages import Usage
from agent_kernel.widgets.doc import Block, Commands, Head, Pre, text


@dataclass(frozen=True, slots=True)
class Node:
    """One line of a tree: `label` then `note`, dim; `here` is where the person stands."""

    label: str
    note: str = ""
    here: bool = False
    children: tuple[Node, ...] = field(default=())


def view(
    roots: Sequence[Node], *, title: str = "Branches", note: str = "", commands: Sequence[str] = ()
) -> list[Block]:
    """Return the tree as blocks; `├─ └─ │` carry its shape in every mime."""
    lines = [line for root in roots for line in _lines(root, "", "")]
    drawn = Pre([["t", "\n".join(lines)]])
    typed = commands or ("%agent switch NAME", "%agent fork", "%agent request T.S --diff T.S")
    return [Head(text(title), note), drawn, Commands(typed)]


def _lines(node: Node, lead: str, below: str) -> Iterator[str]:
    here = "● " if node.here else ""
    note = f"  {hidden.one_line(node.note)}" if node.note else ""
    mine = " (you are here)" if node.here else ""
    yield f"{lead}{here}{hidden.one_line(node.label)}{mine}{note}"
    for at, child in enumerate(node.children):
        last = at == len(node.children) - 1
        yield from _lines(
            child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")
        )


def drawn(root: Node) -> list[str]:
    """Return the lines of one tree."""
    return list(_lines(root, "", ""))


def agents(events: Sequence[Event], root: str = "main") -> Node:
    """Return the tree of agents that `root` started: state, tokens and label of each."""
    made = [e for e in events if isinstance(e, TaskCreated) and e.kind == "agent"]
    ends: dict[str, str] = {}
    spent: dict[str, Usage] = {}
    for event in events:
        if isinstance(event, TaskFinished):
            ends[event.id] = event.status
        elif isinstance(event, TaskLost):
            ends[event.id] = "lost"
        elif isinstance(event, AssistantMessage):
            spent[event.agent] = spent.get(event.agent, Usage()) + event.usage
    return _agent(root, root, made, ends, spent, frozenset())


def _agent(
    name: str,
    label: str,
    made: Sequence[TaskCreated],
    ends: dict[str, str],
    spent: dict[str, Usage],
    above: frozenset[str],
) -> Node:
    seen = above | {name}
    children = tuple(
        _agent(task.id, f"{task.id} {task.label}", made, ends, spent, seen)
        for task in made
        if task.agent == name and task.id not in seen
    )
    used = spent.get(name)
    size = f"{units.short(used.total)} tokens" if used is not None else ""
    state = ends.get(name, "" if not above else "running")
    return Node(label, ", ".join(part for part in (state, size) if part), False, children)
