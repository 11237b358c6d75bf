"""Killed: after every event, and with kill -9 at random points, each end is told exactly once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.events import SurfaceEvent, TaskFinished, TaskLost, ToolStart
from agent_kernel.core.messages import ToolUse, text_of
from agent_kernel.core.model import Request
from agent_kernel.core.query import query
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from agent_kernel.tools import background
from tests.long import tasks as long
from tests.tools.flow import done, flow, said, start


@pytest.mark.timeout(400)
def test_twenty_kills_lose_no_notice_double_none_and_repeat_no_effect() -> None:
    assert long.run(seed=7, start=0, steps=20) == {"steps": 20, "violations": 0}


def model(request: Request) -> Any:
    """One command and one agent behind the first answer; the agent's word is its whole work."""
    if re.search(r"\bpart 1", text_of(request.messages[0].content)):
        return said("found 1")
    if not any(message.role == "assistant" for message in request.messages):
        command = {"command": "echo once >> effects", "background": True}
        return done(ToolUse("b", "bash", command), start("a", "part 1"))
    return said("noted")


async def to_the_end(path: Path, workspace: Path) -> Session:
    session, agent = flow(model, workspace, path)
    assert agent.tasks is not None
    if len(session.log):
        session.resume()
        await background.reopen(session, agent.tasks)
    prompt = None if session.state().turn_open else "go" if not session.state().turn else "more"
    await query(session, agent, prompt)
    while agent.tasks.running() or session.state().inbox:
        await asyncio.sleep(0.005)
        if session.state().inbox:
            await query(session, agent, "more")
    return session


async def test_cut_after_every_event_one_notice_stands_in_the_end(
    workspace: Path, tmp_path: Path
) -> None:
    whole = await to_the_end(tmp_path / "whole.agent.jsonl", workspace)
    whole.close()
    lines = (tmp_path / "whole.agent.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > 40
    for count in range(1, len(lines)):
        path = tmp_path / f"cut{count}.agent.jsonl"
        path.write_bytes(b"".join(lines[:count]))
        session = await to_the_end(path, workspace)
        events = list(session.events)
        cited = [seq for e in events if isinstance(e, SurfaceEvent) for seq in e.sources]
        ends = [e for e in events if isinstance(e, (TaskFinished, TaskLost))]
        assert [cited.count(e.seq) for e in ends] == [1] * len(ends), count
        starts = [e.id for e in events if isinstance(e, ToolStart)]
        assert len(starts) == len(set(starts)), count
        assert verify(events).ok
        session.close()
