"""Auto: everything between head and tail becomes one attachment of up to five parts.

May not lose the person's first and present words, nor re-write a constraint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_kernel.compaction.constraints import constraints
from agent_kernel.compaction.facts import facts_of, said
from agent_kernel.compaction.ledger import CONSTRAINT_TOKENS, LEDGER_TOKENS, holds, ledger
from agent_kernel.compaction.nodes import (
    all_originals,
    calls_by_id,
    errors_open,
    pointer,
    subject,
)
from agent_kernel.compaction.region import Region, carried, choose, of_seqs
from agent_kernel.compaction.summary import depth_of, summarise
from agent_kernel.core.compaction import CompactionFailed, Desk, Edit, View
from agent_kernel.core.events import (
    Attachment,
    CompactionSummary,
    SurfaceEvent,
    ToolResultEvent,
)
from agent_kernel.core.messages import Text, text_of
from agent_kernel.core.usage import event_tokens

COMMANDS = ("bash", "Bash", "python")
LEAST_ROOM = 400  # tokens a summary must have, or no model is asked
LAST_COMMANDS, OPEN_ERRORS, LINE = 1, 1, 60  # three commands of 80 cost 12 points of recall


@dataclass(frozen=True)
class Auto:
    """L5 of compaction.md §4: the summary, where a model is given, and always the ledger."""

    name: str = "auto"
    needs_model: bool = True
    ledger_tokens: int = LEDGER_TOKENS
    constraint_tokens: int = CONSTRAINT_TOKENS

    def wants(self, view: View) -> bool:
        """Run while the pressure is still over hard, after an overflow, or when asked for."""
        return view.trigger in ("overflow", "manual") or view.tokens > view.marks.hard

    async def plan(self, view: View, desk: Desk) -> list[Edit]:
        """Return the one edit that hides the region, [] when no region would make progress."""
        region = choose(view)
        if desk.prepared is not None:
            region = of_seqs(view, desk.prepared.hidden)
            if region is None:
                raise CompactionFailed("changed", "what was prepared hides no longer what it did")
        if region is None or _is_one_summary(region):
            return []
        parts = self.parts(view, region)
        summary = await self._summary(view, region, parts, desk)
        if summary is not None or (kept := former_summary(region)):
            parts["summary"] = summary.text if summary is not None else kept
        payload = payload_of(view, region, parts)
        freed = region.tokens - event_tokens(payload)
        if freed <= 0:
            if summary is not None:
                desk.lost = summary.usage if desk.lost is None else desk.lost + summary.usage
            return []
        if summary is not None:
            desk.summaries.append(summary)
        offset = view.offsets()[region.start]
        first, last = region.nodes[0].seq, region.nodes[-1].seq
        reason = {"manual": "asked for", "overflow": "overflow"}.get(view.trigger, "over hard")
        return [Edit(first, last, payload, freed, offset, reason, dropped(view, region, parts))]

    def parts(self, view: View, region: Region) -> dict[str, str]:
        """Return the texts that need no model, by part, the empty ones left out."""
        events = all_originals(view, region.nodes)
        keep = "\n\n".join(carried(view, region))
        made = ledger(
            list(said(events)),
            constraints(events),
            tokens=self.ledger_tokens,
            constraint_tokens=self.constraint_tokens,
            lines=standing(events),
        )
        texts = {"carried": keep, "constraints": made.constraints, "ledger": made.names}
        return {name: text for name, text in texts.items() if text.strip()}

    async def _summary(
        self, view: View, region: Region, parts: Mapping[str, str], desk: Desk
    ) -> CompactionSummary | None:
        hidden = [one for n in region.nodes for one in view.former.get(n.seq, (n,))]
        if desk.prepared is not None:
            made = desk.prepared.summary
            update = {"compaction_id": view.compaction_id, "depth": depth_of(region)}
            return made.model_copy(update=update) if made is not None else None
        if desk.ask is None:
            return None
        room = region.tokens - event_tokens(payload_of(view, region, parts))
        if room < LEAST_ROOM:
            return None
        return await summarise(view, region, hidden, desk, room)


def _is_one_summary(region: Region) -> bool:
    return len(region.nodes) == 1 and bool(former_parts(region.nodes[0]))


def former_parts(node: SurfaceEvent) -> dict[str, str]:
    """Return the parts of a former run's attachment by name, {} for any other node."""
    meta = getattr(node, "meta", {})
    if not isinstance(node, Attachment) or meta.get("layer") != "auto":
        return {}
    texts = [block.text for block in node.content if isinstance(block, Text)]
    return dict(zip(meta.get("parts", ()), texts, strict=False))


def former_summary(region: Region) -> str:
    """Return the last summary a region hides: without a model it is kept as it was written."""
    texts = [former_parts(node).get("summary", "") for node in region.nodes]
    last = next((text for text in reversed(texts) if text), "")
    return last.removeprefix(FRAMES["summary"] + "\n")


def standing(events: list[SurfaceEvent]) -> list[str]:
    """Return one line for each error that still stands and for the last commands."""
    calls = calls_by_id(events)
    lines = []
    for call_id, node in list(errors_open(events).items())[-OPEN_ERRORS:]:
        what = " ".join(text_of(node.content).split())[:LINE]
        lines.append(f"open error ({calls[call_id].name}, seq {node.seq}): {what}")
    done = {n.id for n in events if isinstance(n, ToolResultEvent)}
    last = [c for c in calls.values() if c.name in COMMANDS and c.id in done][-LAST_COMMANDS:]
    return [*lines, *(f"ran: {subject(call)}" for call in last)]


FRAMES = {
    "carried": "Kept word for word from the hidden part:",
    "summary": "Summary of the hidden part, written by a model:",
    "ledger": "Names in the hidden part (! = changed):",
}
ORDER = ("carried", "constraints", "summary", "ledger", "footer")


def payload_of(view: View, region: Region, parts: Mapping[str, str]) -> Attachment:
    """Return the attachment that stands for a region: a text block a part, stable first (R5)."""
    call, depth = pointer(view, region.nodes), depth_of(region)
    count = len(all_originals(view, region.nodes))
    footer = (
        f"[{view.compaction_id}, depth {depth}: {count} earlier events are hidden here, "
        f'none is lost; {call} or recall_history(contains="…") gives their exact text.]'
    )
    texts = {**parts, "footer": footer}
    named = [name for name in ORDER if name in texts]
    blocks = [f"{FRAMES[n]}\n{texts[n]}" if n in FRAMES else texts[n] for n in named]
    return Attachment(
        kind="summary",
        label=f"summary {view.compaction_id}",
        content=tuple(Text(block) for block in blocks),
        meta={"layer": "auto", "parts": named, "depth": depth},
    )


def dropped(view: View, region: Region, parts: Mapping[str, str]) -> dict[str, int]:
    """Return how many facts and constraints of a region stand nowhere on the new surface."""
    events = all_originals(view, region.nodes)
    rest = [*view.nodes[: region.start], *view.nodes[region.end :]]
    text = "\n".join([*parts.values(), *(s.text for s in said(rest))])
    there = holds(text)
    lost = sum(f.kind != "number" and not there(f) for f in facts_of(said(events)))
    return {"facts": lost, "constraints": sum(c.text not in text for c in constraints(events))}


STRATEGY = Auto()
