"""Micro: old tool results become one-line placeholders; calls, ids and errors stay.

May not call a model, and may not touch the newest results or those of tools whose text is state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent_kernel.core.compaction import Desk, Edit, View
from agent_kernel.core.events import AssistantMessage, SurfaceEvent, ToolResultEvent
from agent_kernel.core.messages import ToolUse, blocks_of, text_of
from agent_kernel.core.usage import event_tokens

KEEP = 5
EXCLUDE = ("skill", "recall_history", "todo", "ask")


@dataclass(frozen=True)
class Micro:
    """L3 of compaction.md §4: content of results older than the newest `keep` → a placeholder."""

    name: str = "micro"
    keep: int = KEEP
    exclude: tuple[str, ...] = EXCLUDE

    def wants(self, view: View) -> bool:
        """Run over soft, or when the cache is cold anyway."""
        return view.exempt or view.tokens > view.marks.soft

    async def plan(self, view: View, _desk: Desk) -> list[Edit]:
        """Return one edit for each old result whose placeholder is shorter."""
        calls = calls_by_id(view.nodes)
        at = [i for i, node in enumerate(view.nodes) if isinstance(node, ToolResultEvent)]
        old = at[: -self.keep] if self.keep else at
        offsets = view.offsets()
        made = [self._edit(view.nodes[i], calls, offsets[i]) for i in old]
        edits = [e for e in made if e is not None and e.freed > 0 and e.first not in view.pinned]
        least = 1 if view.exempt else view.marks.clear_at_least
        return edits if sum(e.freed for e in edits) >= least else []

    def _edit(self, node: SurfaceEvent, calls: dict[str, ToolUse], offset: int) -> Edit | None:
        if not isinstance(node, ToolResultEvent) or node.is_error or node.meta.get("cleared"):
            return None
        call = calls.get(node.id)
        if call is None or call.name in self.exclude:
            return None
        length = len(text_of(node.content))
        what = next((str(v) for v in call.input.values() if isinstance(v, str)), "")
        marker = (
            f"[cleared: {call.name} {what:.80}, {length:,} characters; "
            f"recall_history(seq={node.seq})]"
        )
        payload = ToolResultEvent(
            id=node.id,
            content=blocks_of(marker),
            meta={**node.meta, "cleared": True, "truncated": True},
        )
        freed = event_tokens(node) - event_tokens(payload)
        return Edit(node.seq, node.seq, payload, freed, offset, "older than the newest results")


def calls_by_id(nodes: Iterable[SurfaceEvent]) -> dict[str, ToolUse]:
    """Return the tool calls of the nodes by id."""
    found: dict[str, ToolUse] = {}
    for node in nodes:
        if isinstance(node, AssistantMessage):
            found.update({b.id: b for b in node.content if isinstance(b, ToolUse)})
    return found


STRATEGY = Micro()
