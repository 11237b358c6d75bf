"""Cuts and pointers: any legal cut of a session may be shortened, and all of it comes back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_kernel.core.events import SurfaceEvent
from agent_kernel.core.messages import text_of
from agent_kernel.core.session import Session
from agent_kernel.core.tool import ToolContext
from agent_kernel.tools.recall_history import RECALL_HISTORY
from tests.compaction.walk import Walk
from tests.long import compaction_cuts

POINTER = re.compile(r'recall_history\(seq="?(\d+)(?:-(\d+))?"?\)')


def test_cuts_of_synthetic_sessions_are_shortened_validly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_KERNEL_CORPUS", raising=False)
    counts = compaction_cuts.run(seed=1, start=0, steps=12, until=float("inf"))
    assert counts["violations"] == 0
    assert counts["steps"] == 12
    assert counts["plans"] > 12


async def recalled(session: Session, first: int, last: int) -> list[int]:
    """The seqs that all pages of a recall give, in order."""
    context = ToolContext(session, "main", "x", Path.cwd())
    seqs: list[int] = []
    cursor: str | None = None
    while True:
        value = {"seq": f"{first}-{last}", "limit": 7, "max_tokens": 500, "cursor": cursor}
        answer = await RECALL_HISTORY.run(RECALL_HISTORY.parse(value), context)
        seqs += answer.meta["recalled"]
        cursor = answer.meta["next_cursor"]
        if cursor is None:
            return list(dict.fromkeys(seqs))


@pytest.mark.parametrize("seed", range(6))
async def test_every_pointer_on_a_surface_recalls_what_a_node_hides(seed: int) -> None:
    walk = Walk(f"pointers {seed}")
    for _ in range(150):
        walk.step()
    session, found = walk.session, 0
    for node in session.surface().nodes:
        if node.replaces is None:
            continue
        said = "\n".join(text_of(e.blocks()) for e in originals(session, node))
        planted = set(POINTER.findall(said))  # the walk forges markers; they are not ours
        for one, other in set(POINTER.findall(text_of(node.blocks()))) - planted:
            got = await recalled(session, int(one), int(other or one))
            inside = range(int(one), int(other or one) + 1)
            hidden = {e.seq for e in originals(session, node)} & set(inside)
            assert hidden
            assert hidden <= set(got)
            found += 1
    assert found or not any(n.replaces for n in session.surface().nodes)


def originals(session: Session, node: SurfaceEvent) -> list[SurfaceEvent]:
    """What a node stands for, to the bottom."""
    if node.replaces is None:
        return [node]
    hidden = [session.events[seq] for seq in node.sources]
    return [
        one
        for event in hidden
        if isinstance(event, SurfaceEvent) and event.agent == node.agent
        for one in originals(session, event)
    ]
