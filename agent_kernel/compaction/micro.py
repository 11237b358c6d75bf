"""Micro: old tool results become one-line placeholders; calls, ids and errors stay.

May not call a model, and may not touch the newest results or those of tools whose text is state.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_kernel.core.compaction import Edit, View
from agent_kernel.core.events import AssistantMessage, Replace, SurfaceEvent, ToolResultEvent
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

    def plan(self, view: View) -> list[Edit]:
        """Return one edit for each old result whose placeholder is shorter."""
        calls = _calls(view.surface.nodes)
        results = [n for n in view.surface.nodes if isinstance(n, ToolResultEvent)]
        old = results[: -self.keep] if self.keep else results
        edits = [self._edit(node, calls.get(node.id)) for node in old if not node.is_error]
        return [e for e in edits if e is not None and e.first not in view.pinned and e.freed > 0]

    def _edit(self, node: ToolResultEvent, call: ToolUse | None) -> Edit | None:
        if call is None or call.name in self.exclude or node.meta.get("cleared"):
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
            sources=(node.seq,),
            replaces=Replace(first=node.seq, last=node.seq),
            meta={**node.meta, "cleared": True, "truncated": True},
        )
        freed = event_tokens(node) - event_tokens(payload)
        return Edit(node.seq, node.seq, payload, freed, "older than the newest results")


def _calls(nodes: object) -> dict[str, ToolUse]:
    found: dict[str, ToolUse] = {}
    for node in nodes if isinstance(nodes, list) else []:
        assert isinstance(node, SurfaceEvent)
        if isinstance(node, AssistantMessage):
            found.update({b.id: b for b in node.content if isinstance(b, ToolUse)})
    return found


STRATEGY = Micro()
