"""Nodes: what a layer asks of surface events: their call, path, units, and what they once were.

May not plan an edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent_kernel.core.compaction import View
from agent_kernel.core.events import AssistantMessage, Attachment, SurfaceEvent, ToolResultEvent
from agent_kernel.core.messages import ToolUse
from agent_kernel.core.usage import event_tokens

PATH_KEYS = ("path", "file_path", "notebook_path")
READ = frozenset({"read", "Read", "NotebookRead"})
WRITE = frozenset({"edit", "write", "notebook", "Edit", "Write", "MultiEdit", "NotebookEdit"})
SEARCH = frozenset({"grep", "glob", "Grep", "Glob", "LS", "concept_search", "lsp", "tool_search"})
ECHO = frozenset({"todo", "TodoWrite", "TodoRead", "BashOutput", "TaskOutput", "task_output"})
RECALL = "recall_history"
SUBAGENT = frozenset({"agent", "Task", "Agent"})


def calls_by_id(nodes: Iterable[SurfaceEvent]) -> dict[str, ToolUse]:
    """Return the tool calls of the nodes by id."""
    found: dict[str, ToolUse] = {}
    for node in nodes:
        if isinstance(node, AssistantMessage):
            found.update({b.id: b for b in node.content if isinstance(b, ToolUse)})
    return found


def path_of(call: ToolUse) -> str | None:
    """Return the file a call is about, None when it names none."""
    found = (call.input.get(key) for key in PATH_KEYS)
    return next((value for value in found if isinstance(value, str) and value), None)


def subject(call: ToolUse) -> str:
    """Return one short line that says what a call is about: its path, or its first text."""
    texts = (value for value in call.input.values() if isinstance(value, str))
    line = " ".join((path_of(call) or next(texts, "")).split())
    line = line.replace("[", "(").replace("]", ")").replace(";", ",")
    return line if len(line) <= 80 else line[:79] + "…"


def origin(node: SurfaceEvent) -> int:
    """Return the seq under which a result was first logged, through replacements of its content."""
    found = getattr(node, "meta", {}).get("origin")
    return found if isinstance(found, int) else node.seq


def originals(view: View, node: SurfaceEvent) -> list[SurfaceEvent]:
    """Return the events a node stands for: itself, or all that it hides, opened to the bottom."""
    logged = view.former.get(node.seq, (node,))
    return [one for hidden in logged for one in _opened(view, hidden)]


def _opened(view: View, event: SurfaceEvent) -> list[SurfaceEvent]:
    if event.replaces is None:
        return [event]
    found = (view.log[seq] for seq in event.sources)
    hidden = [e for e in found if isinstance(e, SurfaceEvent) and e.agent == event.agent]
    return [one for each in hidden for one in _opened(view, each)]


def all_originals(view: View, nodes: Iterable[SurfaceEvent]) -> list[SurfaceEvent]:
    """Return the events some nodes stand for, each once, in the order of the log."""
    found = {one.seq: one for node in nodes for one in originals(view, node)}
    return [found[seq] for seq in sorted(found)]


def pointer(view: View, nodes: Sequence[SurfaceEvent]) -> str:
    """Return the call that recalls what some nodes stand for: of one seq, or a range."""
    seqs = [one.seq for node in nodes for one in originals(view, node)]
    first, last = min(seqs), max(seqs)
    return (
        f"recall_history(seq={first})" if first == last else f'recall_history(seq="{first}-{last}")'
    )


@dataclass(frozen=True)
class Unit:
    """A balanced piece of the surface: nodes between two neighbouring legal cuts."""

    start: int
    nodes: tuple[SurfaceEvent, ...]

    @property
    def end(self) -> int:
        """Return the position after the unit."""
        return self.start + len(self.nodes)

    @property
    def tokens(self) -> int:
        """Return its estimated tokens."""
        return sum(map(event_tokens, self.nodes))

    @property
    def calls(self) -> list[ToolUse]:
        """Return the tool calls made in it."""
        return list(calls_by_id(self.nodes).values())

    @property
    def results(self) -> list[ToolResultEvent]:
        """Return the results in it."""
        return [node for node in self.nodes if isinstance(node, ToolResultEvent)]

    @property
    def plain(self) -> bool:
        """True when nobody but the model and its tools speaks in it."""
        return all(isinstance(n, (AssistantMessage, ToolResultEvent)) for n in self.nodes)


def units(view: View) -> list[Unit]:
    """Return the surface as balanced units; what stands before the first cut or after the last is
    none."""
    cuts = sorted(view.cuts(view.strict))
    return [Unit(a, view.nodes[a:b]) for a, b in pairwise(cuts)]


def untouchable(view: View) -> frozenset[int]:
    """Return the seqs no layer hides: pinned ones (Y7), and what they once were."""
    pinned = view.pinned
    return frozenset(n.seq for n in view.nodes if n.seq in pinned or origin(n) in pinned)


def errors_open(nodes: Sequence[SurfaceEvent]) -> dict[str, ToolResultEvent]:
    """Return, by call id, the errors without a later success of the same tool and subject."""
    calls: Mapping[str, ToolUse] = calls_by_id(nodes)
    open_: dict[tuple[str, str], dict[str, ToolResultEvent]] = {}
    for node in nodes:
        call = calls.get(node.id) if isinstance(node, ToolResultEvent) else None
        if call is None or not isinstance(node, ToolResultEvent):
            continue
        key = (call.name, path_of(call) or str(call.input.get("command", ""))[:80])
        if node.is_error:
            open_.setdefault(key, {})[node.id] = node
        else:
            open_.pop(key, None)
    return {call_id: node for found in open_.values() for call_id, node in found.items()}


def is_stub(node: SurfaceEvent) -> bool:
    """Return whether a node is what a layer left in the place of others."""
    return isinstance(node, Attachment) and node.kind == "summary"
