"""The inbox of an agent: by priority, then as it came, and never another agent's (F6.5)."""

from __future__ import annotations

import random

import pytest

from agent_kernel.core.events import TaskCreated, TaskFinished
from agent_kernel.core.session import Session
from agent_kernel.core.state import inbox_order
from agent_kernel.core.turns import drop, queue

RANK = {"now": 0, "next": 1, "later": 2}
AGENTS = ("main", "a1", "a2")


@pytest.mark.parametrize("seed", range(4))
def test_random_interleavings_are_read_in_order_by_their_own_agent(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        session = Session()
        wanted: dict[str, list[tuple[int, int]]] = {agent: [] for agent in AGENTS}
        for number in range(chance.randrange(1, 14)):
            agent = chance.choice(AGENTS)
            if chance.random() < 0.4:
                made = TaskCreated(id=f"b{number}", kind="bash", label="x")
                session.append(made, agent=agent)
                done = TaskFinished(id=f"b{number}", status="completed", summary="x")
                (stored,) = session.append(done, agent=agent)
                wanted[agent].append((RANK["later"], stored.seq))
                continue
            priority = chance.choice(list(RANK))
            wanted[agent].append((RANK[priority], queue(session, {"text": "x"}, priority, agent)))
        gone = chance.choice(AGENTS)
        if wanted[gone] and chance.random() < 0.5:
            item = chance.choice(wanted[gone])
            drop(session, item[1], "not any more", gone)
            wanted[gone].remove(item)
        for agent in AGENTS:
            read = [event.seq for event in inbox_order(session.state(agent))]
            assert read == [seq for _rank, seq in sorted(wanted[agent])]
