"""Budget: a very long result keeps its head and its tail; the rest is one recall away.

May not touch what the model has not read yet, unless nothing else makes room.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_kernel.compaction.markers import clipped
from agent_kernel.compaction.nodes import origin, untouchable
from agent_kernel.core.compaction import Desk, Edit, View
from agent_kernel.core.events import AssistantMessage, SurfaceEvent, ToolResultEvent
from agent_kernel.core.messages import Block, Text
from agent_kernel.core.usage import event_tokens


@dataclass(frozen=True)
class Budget:
    """L1 of compaction.md §4: texts of a result over `over` code points → `head` + `tail`."""

    name: str = "budget"
    needs_model: bool = False
    over: int = 8_192
    head: int = 4_096
    tail: int = 1_024

    def wants(self, view: View) -> bool:
        """Run over soft, or when a rewrite is no argument."""
        return view.exempt or view.tokens > view.marks.soft

    async def plan(self, view: View, _desk: Desk) -> list[Edit]:
        """Return one edit for each result that is too long."""
        offsets, kept = view.offsets(), untouchable(view)
        unread = -1 if view.trigger in ("hard", "overflow") else _first_unread(view)
        edits = [
            self._edit(node, offset)
            for at, (node, offset) in enumerate(zip(view.nodes, offsets, strict=True))
            if isinstance(node, ToolResultEvent)
            and node.seq not in kept
            and (unread < 0 or at < unread)
        ]
        return [edit for edit in edits if edit is not None and edit.freed > 0]

    def _edit(self, node: ToolResultEvent, offset: int) -> Edit | None:
        blocks = tuple(self._short(block, origin(node)) for block in node.content)
        if blocks == node.content:
            return None
        size = sum(len(b.text) for b in node.content if isinstance(b, Text))
        meta = {**node.meta, "origin": origin(node), "truncated": True}
        meta.setdefault("characters", size)
        payload = ToolResultEvent(id=node.id, content=blocks, is_error=node.is_error, meta=meta)
        freed = event_tokens(node) - event_tokens(payload)
        return Edit(node.seq, node.seq, payload, freed, offset, f"over {self.over:,} characters")

    def _short(self, block: Block, seq: int) -> Block:
        if not isinstance(block, Text) or len(block.text) <= self.over:
            return block
        return Text(clipped(block.text, self.head, self.tail, f"recall_history(seq={seq})"))


def _first_unread(view: View) -> int:
    """Return the position of the first result that came after the model last spoke."""
    nodes: tuple[SurfaceEvent, ...] = view.nodes
    said = [at for at, node in enumerate(nodes) if isinstance(node, AssistantMessage)]
    return said[-1] if said else 0


STRATEGY = Budget()
