"""Usage: what a request holds in tokens and what it costs, anchored on what was last recorded.

May not guess a price: an unknown model or bucket gives None.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from agent_kernel.core.events import AssistantMessage, SurfaceEvent
from agent_kernel.core.messages import Usage, dumps
from agent_kernel.core.prices import rates

CHARS_PER_TOKEN = 2.75  # median of real sessions (analysis.md §3, estimator fallback)
METER = "chars/2.75"


def estimate(characters: int) -> int:
    """Return the estimated tokens of that many characters."""
    return round(characters / CHARS_PER_TOKEN)


def event_tokens(event: SurfaceEvent) -> int:
    """Return the estimated tokens of one surface event's blocks."""
    return estimate(sum(len(dumps(block.wire())) for block in event.blocks()))


def cost(model: str, usage: Usage, time: float | None = None) -> float | None:
    """Return the dollars of one request at list price; None when the model or a bucket has no
    price."""
    day = datetime.fromtimestamp(time, UTC).date() if time else None
    found = rates(model, day, usage.context)
    if found is None:
        return None
    total = 0.0
    buckets = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    for bucket in buckets:
        tokens, rate = getattr(usage, bucket), getattr(found, bucket)
        if tokens and rate is None:
            return None
        total += (tokens or 0) * (rate or 0.0) / 1e6
    return total


class Meter:
    """How many tokens an agent's next request holds: the last recorded usage and an estimate after
    it.

    Nothing is estimated that a provider has counted: only surface events after the last answer, and
    the whole surface after a replacement changed what was counted. Estimates are kept by event.
    """

    id = METER

    def __init__(self) -> None:
        self._known: dict[int, tuple[SurfaceEvent, int]] = {}

    def tokens(self, nodes: Sequence[SurfaceEvent], generation: int, anchored: int | None) -> int:
        """Return the tokens of `nodes`; `anchored` is the generation of the last recorded usage."""
        total = 0
        for node in reversed(nodes):
            if anchored == generation and isinstance(node, AssistantMessage) and _counted(node):
                return total + node.usage.context + (node.usage.output or 0)
            total += self.of(node)
        return total

    def of(self, node: SurfaceEvent) -> int:
        """Return the estimated tokens of one node."""
        kept = self._known.get(node.seq)
        if kept is None or kept[0] is not node:
            kept = self._known[node.seq] = (node, event_tokens(node))
        return kept[1]


def _counted(node: AssistantMessage) -> bool:
    return node.usage.input is not None and not node.interrupted
