"""A turn killed after each of its events goes on, and a call it had started tells of its file."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path

from agent_kernel.core.messages import text_of
from agent_kernel.core.query import query
from agent_kernel.core.replay import requests
from agent_kernel.core.session import Session
from agent_kernel.core.validate import validate_messages
from tests.core.killed import NAME, NEW, made

ROOT = Path(__file__).parents[2]
OLD_HASH, NEW_HASH = (hashlib.sha256(t.encode()).hexdigest() for t in ("one\n", NEW))


def resumed(folder: Path) -> tuple[int, str]:
    """Go on after a kill; return the events there were, and the result of the write."""
    session = Session.open(folder / NAME)
    count = len(session.log)
    session.resume(folder)
    agent = made(folder, sum(e.type == "assistant/message" for e in session.events))
    if session.state().turn_open:
        asyncio.run(query(session, agent))
    for _context, request in requests(session.events):
        assert not validate_messages(request.messages, agent.profile)
    effects = folder / "effects"
    assert not effects.exists() or effects.read_text().count("once") <= 1
    results = [e for e in session.events if e.type == "tool/result" and e.id == "w"]
    session.close()
    return count, text_of(results[0].content) if results else ""


def test_a_turn_killed_after_each_event_goes_on_and_names_the_hashes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.core.killed", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=120)
    kills = len(list(tmp_path.iterdir())) - 1  # the last one got to its end
    assert kills > 12
    told = []
    for last in range(1, kills + 1):
        count, said = resumed(tmp_path / str(last))
        assert count >= last
        told += [said] if "outcome unknown" in said else []
    before = f"'a.txt' before the call: sha256 {OLD_HASH}; now: sha256 "
    assert f"{before}{OLD_HASH}, the same." in told[0]  # killed before it wrote
    assert f"{before}{NEW_HASH}." in told[-1]  # killed when it had written
