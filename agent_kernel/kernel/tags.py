"""Tags: cells tagged agent-pin are kept out of compactions, agent-skip out of the model's sight.

May not read a cell's text: the tag and the cell's id are all it takes from the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent_kernel.core.events import UserMessage
from agent_kernel.core.messages import Json
from agent_kernel.core.pins import PinError, drop, pin
from agent_kernel.core.session import Session
from agent_kernel.kernel.turns import recorded

PIN, SKIP = "agent-pin", "agent-skip"


def tagged(cells: Iterable[Json], tag: str) -> set[str]:
    """Return the ids of cells with a tag; a cell without an id is known by no turn."""
    out: set[str] = set()
    for cell in cells:
        meta: Mapping[str, Any] = cell.get("metadata") or {}
        if cell.get("id") and tag in (meta.get("tags") or ()):
            out.add(str(cell["id"]))
    return out


def apply(session: Session, cells: Iterable[Json]) -> list[str]:
    """Pin and drop the turns of tagged cells as they stand now; return what was done, in words.

    Both stay until they are taken back by hand: a tag that goes changes nothing.
    """
    known = [*cells]
    pinned, skipped = tagged(known, PIN), tagged(known, SKIP)
    if not (pinned or skipped or session.pins):
        return []
    said: list[str] = []
    for turn in recorded(session):
        nodes = [n for n in session.surface().nodes if n.turn == turn.number]
        prompts = [n.seq for n in nodes if isinstance(n, UserMessage)]
        if turn.end is not None and turn.start.cell in skipped:
            done = [node.seq for node in nodes if _dropped(session, node.seq)]
            said += [f"turn {turn.number} is left out ({SKIP})"] if done else []
        elif turn.start.cell in pinned:
            fresh = [seq for seq in prompts if seq not in session.pins]
            for seq in fresh:
                pin(session, seq)
            said += [f"turn {turn.number}'s prompt is pinned ({PIN})"] if fresh else []
    return said


def _dropped(session: Session, seq: int) -> bool:
    node = next((n for n in session.surface().nodes if n.seq == seq), None)
    if node is None or "dropped" in getattr(node, "meta", {}):
        return False
    try:
        drop(session, seq)
    except PinError:
        return False  # pinned, open, or a context that would come back
    return True
