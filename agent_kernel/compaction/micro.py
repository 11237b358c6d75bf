"""Micro: old tool results become one-line placeholders; calls, ids and errors stay.

May not call a model, and may not touch the newest results or those of tools whose text is state.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_kernel.compaction.nodes import calls_by_id, origin, subject, untouchable
from agent_kernel.core.compaction import COLD_FLOOR, Desk, Edit, View
from agent_kernel.core.events import SurfaceEvent, ToolResultEvent
from agent_kernel.core.messages import ToolUse, blocks_of, text_of
from agent_kernel.core.usage import event_tokens

KEEP = 5
EXCLUDE = ("skill", "recall_history", "todo", "ask")


@dataclass(frozen=True)
class Micro:
    """L3 of compaction.md §4: content of results older than the newest `keep` → a placeholder.

    `least` tokens must be freed while the cache is warm; None = the water marks' own.
    """

    name: str = "micro"
    needs_model: bool = False
    keep: int = KEEP
    exclude: tuple[str, ...] = EXCLUDE
    cold_floor: int = COLD_FLOOR
    least: int | None = None

    def wants(self, view: View) -> bool:
        """Run over soft, when asked for, or when the cache is cold and the context not small."""
        floor = min(self.cold_floor, view.marks.soft)
        cold = view.cold and view.tokens >= floor
        return cold or (view.exempt and not view.cold) or view.tokens > view.marks.soft

    async def plan(self, view: View, _desk: Desk) -> list[Edit]:
        """Return one edit for each old result whose placeholder is shorter."""
        calls = calls_by_id(view.nodes)
        at = [i for i, node in enumerate(view.nodes) if isinstance(node, ToolResultEvent)]
        old = at[: -self.keep] if self.keep else at
        offsets, kept = view.offsets(), untouchable(view)
        made = [self._edit(view.nodes[i], calls, offsets[i]) for i in old]
        edits = [e for e in made if e is not None and e.freed > 0 and e.first not in kept]
        least = view.marks.least(view.tokens) if self.least is None else self.least
        if view.exempt:
            least = 1
        return edits if sum(e.freed for e in edits) >= least else []

    def _edit(self, node: SurfaceEvent, calls: dict[str, ToolUse], offset: int) -> Edit | None:
        if not isinstance(node, ToolResultEvent) or node.is_error or node.meta.get("cleared"):
            return None
        call = calls.get(node.id)
        if call is None or call.name in self.exclude:
            return None
        length = node.meta.get("characters") or len(text_of(node.content))
        marker = (
            f"[cleared: {call.name} {subject(call)}, {length:,} characters; "
            f"recall_history(seq={origin(node)})]"
        )
        meta = {**node.meta, "cleared": True, "truncated": True, "origin": origin(node)}
        payload = ToolResultEvent(id=node.id, content=blocks_of(marker), meta=meta)
        freed = event_tokens(node) - event_tokens(payload)
        return Edit(node.seq, node.seq, payload, freed, offset, "older than the newest results")


STRATEGY = Micro()
