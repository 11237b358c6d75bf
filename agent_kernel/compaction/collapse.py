"""Collapse: an episode that is over becomes a short digest made by rules; undo expands it again.

May not call a model, and touches nothing that may still be open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.compaction.facts import said
from agent_kernel.compaction.ledger import ledger
from agent_kernel.compaction.nodes import (
    READ,
    SEARCH,
    SUBAGENT,
    Unit,
    all_originals,
    calls_by_id,
    errors_open,
    path_of,
    pointer,
    subject,
    units,
    untouchable,
)
from agent_kernel.core.compaction import Desk, Edit, View
from agent_kernel.core.events import Attachment, SurfaceEvent, ToolResultEvent
from agent_kernel.core.messages import ToolUse, blocks_of, text_of
from agent_kernel.core.usage import event_tokens

DIGEST_TOKENS = 100


@dataclass(frozen=True)
class Episode:
    """Neighbouring units that belong together and are over: `what` they were."""

    what: str
    units: tuple[Unit, ...]

    @property
    def tokens(self) -> int:
        """Return their estimated tokens."""
        return sum(unit.tokens for unit in self.units)


@dataclass(frozen=True)
class Collapse:
    """L4 of compaction.md §4: over mid, episodes of at least `min_unit` tokens."""

    name: str = "collapse"
    needs_model: bool = False
    min_unit: int = 2_000
    keep_units: int = 8

    def wants(self, view: View) -> bool:
        """Run over mid, after an overflow, or when a person asks."""
        return view.tokens > view.marks.mid or view.trigger in ("manual", "overflow")

    async def plan(self, view: View, _desk: Desk) -> list[Edit]:
        """Return one edit for each closed episode whose digest is shorter."""
        found = units(view)
        kept, standing = untouchable(view), errors_open(view.nodes)
        offsets = view.offsets()
        edits = []
        for episode in episodes(found, len(found) - self.keep_units):
            nodes = [node for unit in episode.units for node in unit.nodes]
            open_ = any(isinstance(n, ToolResultEvent) and n.id in standing for n in nodes)
            if open_ or any(n.seq in kept for n in nodes) or episode.tokens < self.min_unit:
                continue
            edits.append(_edit(view, episode, offsets[episode.units[0].start]))
        return [edit for edit in edits if edit.freed > 0]


def episodes(found: Sequence[Unit], until: int) -> list[Episode]:
    """Return the closed episodes among the units before `until`: none overlap, first rule wins.

    A finished sub-agent; from an error to the success that fixed it; a list of work from its first
    call to the one that says all is done; three or more looks that changed nothing.
    """
    out: list[Episode] = []
    at = 0
    while at < until:
        made = next((e for e in (rule(found, at, until) for rule in _RULES) if e), None)
        if made is None:
            at += 1
        else:
            out.append(made)
            at += len(made.units)
    return out


def _subagent(found: Sequence[Unit], at: int, _until: int) -> Episode | None:
    unit = found[at]
    names = {call.name for call in unit.calls}
    return Episode("sub-agent", (unit,)) if unit.plain and names and names <= SUBAGENT else None


def _fixed(found: Sequence[Unit], at: int, until: int) -> Episode | None:
    """From a failed call to the later good one of the same tool and subject, a few units on."""
    failed = _keys(found[at], failed=True)
    if not failed or not found[at].plain:
        return None
    for end in range(at + 1, min(at + 12, until)):
        if not found[end].plain:
            return None
        if failed <= _keys(found[end], failed=False):
            return Episode("error, then fixed", tuple(found[at : end + 1]))
    return None


def _keys(unit: Unit, *, failed: bool) -> set[tuple[str, str]]:
    of_result = {r.id: r.is_error for r in unit.results}
    return {
        (call.name, path_of(call) or str(call.input.get("command", ""))[:80])
        for call in unit.calls
        if of_result.get(call.id) is failed
    }


def _todo(found: Sequence[Unit], at: int, until: int) -> Episode | None:
    """From a list of work to the later one in which every item is done, no person between."""
    if not any(_states(call) - {"done", "completed"} for call in found[at].calls):
        return None
    for end in range(at + 1, until):
        if not found[end].plain:
            return None
        if any(s and s <= {"done", "completed"} for s in map(_states, found[end].calls)):
            return Episode("finished work", tuple(found[at : end + 1]))
    return None


def _states(call: ToolUse) -> set[str]:
    items = call.input.get("items") or call.input.get("todos") or []
    listed = items if isinstance(items, list) and call.name in ("todo", "TodoWrite") else []
    return {str(item.get("status")) for item in listed if isinstance(item, dict)}


def _looks(found: Sequence[Unit], at: int, until: int) -> Episode | None:
    end = at
    while end < until and _only_looks(found[end]):
        end += 1
    # the run is closed only when something else came after it
    done = end < len(found) and not _only_looks(found[end]) and end - at >= 3
    return Episode("search", tuple(found[at:end])) if done else None


def _only_looks(unit: Unit) -> bool:
    names = {call.name for call in unit.calls}
    good = not any(result.is_error for result in unit.results)
    return unit.plain and bool(names) and names <= (READ | SEARCH) and good


_RULES = (_subagent, _fixed, _todo, _looks)


def _edit(view: View, episode: Episode, offset: int) -> Edit:
    nodes = [node for unit in episode.units for node in unit.nodes]
    call = pointer(view, nodes)
    marker = f"[collapsed {len(nodes)} events: {episode.what}; {call}]"
    events = all_originals(view, nodes)
    lines = [marker, *_digest(events)]
    names = ledger(list(said(events)), tokens=DIGEST_TOKENS).names
    payload = Attachment(
        kind="summary", label=f"collapsed {episode.what}",
        content=blocks_of("\n".join([*lines, names] if names else lines)),
    )  # fmt: skip
    freed = sum(map(event_tokens, nodes)) - event_tokens(payload)
    return Edit(nodes[0].seq, nodes[-1].seq, payload, freed, offset, episode.what)


def _digest(events: Sequence[SurfaceEvent]) -> list[str]:
    """Return what was wanted and what came of it, in one line each."""
    calls = list(calls_by_id(events).values())
    results = [text_of(e.content) for e in events if isinstance(e, ToolResultEvent)]
    goal = f"{calls[0].name} {subject(calls[0])}" if calls else ""
    outcome = " ".join(results[-1][:400].split())[:160] if results else ""
    return [f"goal: {goal}", f"calls: {len(calls)}", f"outcome: {outcome}"]


STRATEGY = Collapse()
