"""Surface: the events one agent's model sees now, folded from the log, and the messages they make.

May not append to the log; `place` only says whether an event may join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionEnd,
    CompactionUndo,
    Event,
    SurfaceEvent,
    TaskCreated,
    ToolResultEvent,
)
from agent_kernel.core.messages import (
    Block,
    Message,
    Role,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    text_of,
)
from agent_kernel.core.model import ModelProfile


class SurfaceError(ValueError):
    """An event that may not join the surface: names its type, the span and what to do."""


class Surface:
    """The ordered events of one agent's surface.

    `generation` counts committed replacements and restored ones; between two generations the
    surface only grows at its end, and so do the messages' bytes.
    """

    def __init__(self, agent: str = "main") -> None:
        self.agent = agent
        self.generation = 0
        self._nodes: list[SurfaceEvent] = []
        self._pending: dict[str, list[SurfaceEvent]] = {}
        self._hidden_by: dict[int, list[SurfaceEvent]] = {}
        self._answered: set[str] = set()
        self._open: dict[str, int] = {}
        self._cache: list[Message] = []
        self._built = 0  # nodes that went into finished messages of _cache
        self.sections: dict[str, str] = {}  # text of each context section's last attachment
        self.checked: tuple[object, int, set[str]] = (None, 0, set())  # kept for calling.py
        self._cuts: dict[bool, tuple[int, int, frozenset[int]]] = {}

    # ---- reading ---------------------------------------------------------------------------------

    @property
    def nodes(self) -> Sequence[SurfaceEvent]:
        """The surface's events in order."""
        return self._nodes

    @property
    def seqs(self) -> list[int]:
        """The seqs of `nodes`."""
        return [node.seq for node in self._nodes]

    @property
    def open_calls(self) -> list[str]:
        """Ids of calls on the surface that have no result yet, in model order."""
        return list(self._open)

    def position(self, seq: int) -> int:
        """Return where an event stands. Raises SurfaceError when it is not on the surface."""
        for at in range(len(self._nodes) - 1, -1, -1):
            if self._nodes[at].seq == seq:
                return at
        raise SurfaceError(f"seq {seq} is not on the surface of {self.agent!r}; see %agent surface")

    def hidden_by(self, seq: int) -> list[int]:
        """Return the seqs whose place the surface event `seq` took, [] when it replaced nothing."""
        return [node.seq for node in self._hidden_by.get(seq, [])]

    # ---- folding ---------------------------------------------------------------------------------

    def place(self, event: SurfaceEvent, next_seq: int) -> None:
        """Raise SurfaceError when `event`, about to get `next_seq`, may not join; change
        nothing."""
        bad = [s for s in event.sources if not 0 <= s < next_seq]
        if bad or len(set(event.sources)) != len(event.sources):
            raise SurfaceError(
                f"sources of {event.type} must be unique and earlier; got {event.sources!r}"
            )
        if event.replaces is None:
            self._place_append(event)
            return
        span = self._span(event)
        missing = {node.seq for node in span} - set(event.sources)
        if missing:
            raise SurfaceError(
                f"{event.type} hides seqs {sorted(missing)} without citing them in sources"
            )
        if isinstance(event, ToolResultEvent):
            only = span[0]
            if len(span) != 1 or not isinstance(only, ToolResultEvent) or only.id != event.id:
                raise SurfaceError(
                    f"a tool/result replaces exactly one tool/result of its own call {event.id!r}"
                )

    def _place_append(self, event: SurfaceEvent) -> None:
        if isinstance(event, AssistantMessage) and self._open:
            raise SurfaceError(f"calls {sorted(self._open)} have no result; answer them first")
        if isinstance(event, ToolResultEvent):
            if event.id in self._answered:
                raise SurfaceError(f"call {event.id!r} has a result already; the first one holds")
            if event.id not in self._open:
                raise SurfaceError(f"no open call has the id {event.id!r}; a result needs its call")

    def _span(self, event: SurfaceEvent) -> list[SurfaceEvent]:
        assert event.replaces is not None
        first, last = self.position(event.replaces.first), self.position(event.replaces.last)
        if first > last:
            raise SurfaceError(f"span {event.replaces!r} ends before it begins on the surface")
        return self._nodes[first : last + 1]

    def apply(self, event: Event) -> None:
        """Fold one event of the log; events of other agents change nothing."""
        if event.agent != self.agent:
            return
        if isinstance(event, SurfaceEvent):
            self._join(event)
        elif isinstance(event, CompactionEnd):
            waiting = self._pending.pop(event.compaction_id, [])
            if event.status == "committed":
                for each in waiting:
                    self._splice(each)
        elif isinstance(event, CompactionUndo):
            self._undo(event)

    def inherit(self, node: SurfaceEvent) -> None:
        """Put a node of the parent's surface at the end of a fork's."""
        self._nodes.append(node)
        self._track(node)

    def _join(self, event: SurfaceEvent) -> None:
        if event.compaction_id is not None and event.replaces is not None:
            self._pending.setdefault(event.compaction_id, []).append(event)
        elif event.replaces is not None:
            self._splice(event)
        else:
            if isinstance(event, ToolResultEvent) and event.id not in self._open:
                return  # a stray or second result stays in the log and out of the messages
            self._nodes.append(event)
            self._track(event)

    def _track(self, event: SurfaceEvent) -> None:
        if isinstance(event, Attachment) and event.meta.get("section"):
            self.sections[event.meta["section"]] = text_of(event.content)
        if isinstance(event, AssistantMessage):
            self._open = {b.id: event.seq for b in event.content if isinstance(b, ToolUse)}
        elif isinstance(event, ToolResultEvent):
            self._open.pop(event.id, None)
            self._answered.add(event.id)

    def _splice(self, event: SurfaceEvent) -> None:
        assert event.replaces is not None
        first, last = self.position(event.replaces.first), self.position(event.replaces.last)
        self._hidden_by[event.seq] = self._nodes[first : last + 1]
        self._nodes[first : last + 1] = [event]
        self._changed()

    def _undo(self, event: CompactionUndo) -> None:
        for restore in event.restores:
            at = self.position(restore["node"])
            self._nodes[at : at + 1] = self._hidden_by.pop(restore["node"])
            self._changed()

    def _changed(self) -> None:
        self.generation += 1
        self._cache, self._built = [], 0
        self._open, self._answered, self.sections = {}, set(), {}
        for node in self._nodes:
            self._track(node)

    # ---- messages --------------------------------------------------------------------------------

    def messages(self) -> tuple[Message, ...]:
        """Return what the model is sent: neighbours of one role merged, a batch's results first.

        Finished messages are kept between calls, so their bytes are made once.
        """
        groups = _groups(self._nodes[self._built :])
        before = self._cache[-1] if self._cache else None
        for nodes in groups[:-1]:
            before = self._finish(nodes, before)
        if not groups:
            return tuple(self._cache)
        last = _merge(groups[-1], before)
        if last is None:
            return tuple(self._cache)
        if before is not None and before.role == last.role:
            return (*self._cache[:-1], Message(last.role, (*before.content, *last.content)))
        return (*self._cache, last)

    def _finish(self, nodes: list[SurfaceEvent], before: Message | None) -> Message | None:
        self._built += len(nodes)
        made = _merge(nodes, before)
        if made is None:
            return before
        if before is not None and before.role == made.role:  # an empty message stood between
            made = Message(made.role, (*before.content, *made.content))
            self._cache[-1] = made
        else:
            self._cache.append(made)
        return made

    # ---- where history may be cut ----------------------------------------------------------------

    def cuts(self, profile: ModelProfile, strict: bool = True) -> frozenset[int]:
        """Return the positions p (before node p, 0…n) where the surface may be cut (compaction.md
        §3.2).

        `strict=False` drops the thinking-loop rule; raises ValueError unless the profile is
        adaptive.
        """
        if not strict and profile.thinking != "adaptive":
            raise ValueError(f"model {profile.name!r} keeps thinking loops whole; use strict=True")
        key = (self.generation, len(self._nodes))
        known = self._cuts.get(strict)
        if known is None or known[:2] != key:
            self._cuts[strict] = (*key, cut_positions(self._nodes, strict))
        return self._cuts[strict][2]

    def region(
        self, first: int, last: int, profile: ModelProfile, strict: bool = True
    ) -> list[SurfaceEvent]:
        """Return the nodes from seq `first` to seq `last`. Raises ValueError naming the nearest
        legal cuts."""
        low, high = self.position(first), self.position(last) + 1
        legal = self.cuts(profile, strict)
        bad = [p for p in (low, high) if p not in legal]
        if bad:
            near = sorted(legal, key=lambda p: abs(p - bad[0]))[:2]
            names = [self._nodes[p].seq if p < len(self._nodes) else "end" for p in near]
            raise ValueError(
                f"no legal cut at region {first}:{last}; the nearest are before seq {names}"
            )
        return self._nodes[low:high]


def _groups(nodes: Iterable[SurfaceEvent]) -> list[list[SurfaceEvent]]:
    groups: list[list[SurfaceEvent]] = []
    role: Role | None = None
    for node in nodes:
        if not groups or node.role != role:
            groups.append([])
        groups[-1].append(node)
        role = node.role
    return groups


def _merge(nodes: list[SurfaceEvent], before: Message | None) -> Message | None:
    blocks = _sendable(block for node in nodes for block in node.blocks())
    role = nodes[0].role
    if role == "user" and any(isinstance(b, ToolResult) for b in blocks):
        calls = _calls(before)
        results = [b for b in blocks if isinstance(b, ToolResult) and b.tool_use_id in calls]
        results.sort(key=lambda b: calls[b.tool_use_id])
        blocks = [*results, *(b for b in blocks if not isinstance(b, ToolResult))]
    return Message(role, blocks) if blocks else None


def _sendable(blocks: Iterable[Block]) -> list[Block]:
    """Leave out blank text, which the API refuses (V10), also inside results."""
    out: list[Block] = []
    for block in blocks:
        if isinstance(block, ToolResult):
            inner = tuple(_sendable(block.content))
            same = len(inner) == len(block.content)
            out.append(block if same else ToolResult(block.tool_use_id, inner, block.is_error))
        elif not isinstance(block, Text) or block.text.strip():
            out.append(block)
    return out


def _calls(before: Message | None) -> dict[str, int]:
    if before is None or before.role != "assistant":
        return {}
    uses = [b for b in before.content if isinstance(b, ToolUse)]
    return {use.id: at for at, use in enumerate(uses)}


def merged(nodes: Iterable[SurfaceEvent]) -> tuple[Message, ...]:
    """Return the messages a list of surface events makes."""
    surface = Surface()
    for node in nodes:
        surface.inherit(node)
    return surface.messages()


def cut_positions(nodes: Sequence[SurfaceEvent], strict: bool = True) -> frozenset[int]:
    """Return the positions p (before node p, 0…n) where `nodes` may be cut (compaction.md §3.2)."""
    open_ids: set[str] = set()
    in_loop = False  # inside a tool loop whose first answer holds thinking
    legal: set[int] = set()
    for at, node in enumerate(nodes):
        if not open_ids and not (strict and in_loop) and not _splits(nodes, at):
            legal.add(at)
        if isinstance(node, AssistantMessage):
            calls = {b.id for b in node.content if isinstance(b, ToolUse)}
            open_ids |= calls
            thinks = any(isinstance(b, Thinking) for b in node.content)
            in_loop = bool(calls) and (in_loop or thinks)
        elif isinstance(node, ToolResultEvent):
            open_ids.discard(node.id)
        elif node.type == "user/message":
            in_loop = False
    if not open_ids:
        legal.add(len(nodes))
    return frozenset(legal)


def _splits(nodes: Sequence[SurfaceEvent], at: int) -> bool:
    """Tell whether a cut before node `at` would part results from what follows them in one
    message."""
    return at > 0 and isinstance(nodes[at], ToolResultEvent)


class Surfaces(dict[str, Surface]):
    """The surfaces of all agents of one log; a fork's begins as its parent's up to `fork_at`."""

    def __missing__(self, agent: str) -> Surface:
        self[agent] = made = Surface(agent)
        return made

    def apply(self, event: Event) -> None:
        """Fold one event of any agent."""
        self[event.agent].apply(event)
        if isinstance(event, TaskCreated) and event.fork and event.fork_at is not None:
            parent = self[event.agent]
            for node in parent.nodes[: parent.position(event.fork_at) + 1]:
                self[event.id].inherit(node)


def fold(events: Iterable[Event], agent: str = "main") -> Surface:
    """Return the surface of `agent` after `events`."""
    surfaces = Surfaces()
    for event in events:
        surfaces.apply(event)
    return surfaces[agent]
