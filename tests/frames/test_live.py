"""Live: the frames of a session in memory are those of its file, table by table."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings

from agent_kernel import frames, transcripts
from agent_kernel.core.session import Session
from tests.runs import Turn, agent, random_turns, run

PLACES = {"path", "offset", "bytes", "files", "file_id"}


def same(live: frames.Frames, loaded: frames.Frames, places: set[str] = PLACES) -> None:
    for table in frames.ALL:
        a, b = live.columns(table), loaded.columns(table)
        for name in a:
            if name not in places:
                assert a[name] == b[name], f"{table}.{name}"


@settings(max_examples=25, deadline=None)
@given(random_turns())
def test_frames_of_a_session_equal_frames_of_its_file(turns: list[Turn]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.agent.jsonl"
        session = Session.open(path)
        asyncio.run(run(session, agent(turns, window=2_500), len(turns)))
        live = frames.of(session)
        session.close()
        loaded = frames.load(path, readers=transcripts.ALL, cache=False)
        same(live, loaded)
        assert set(loaded.columns("records")["parse_status"]) == {"ok"}
        assert set(loaded.columns("issues")["code"]) == {"unknown_model"}
        on = [rec.seq for rec in loaded.walk(session.id).ours]
        assert on == sorted(session.surface().seqs)


def test_a_fork_reads_its_prefix_from_the_parent_once(tmp_path: Path) -> None:
    session = Session.open(tmp_path / "a.agent.jsonl")
    made = agent([[[("look", 5)], []], [[("look", 7)], []]])
    asyncio.run(run(session, made, 1))
    branch = session.fork(session.events[-1].seq, "other")
    asyncio.run(run(branch, made, 1))
    live = frames.of(branch)
    branch.close()
    session.close()
    alone = frames.load(tmp_path / "a.agent" / "branches" / "other.jsonl", readers={}, cache=False)
    ids = {"record_id", "text_record", "duplicate_of"}  # they name the file
    same(live, alone, PLACES | ids)
    both = frames.load(tmp_path, readers={}, cache=False)
    assert both.totals()["total"] == alone.totals()["total"]
    assert both.columns("sessions")["forked_from"] == [None, session.id]
    assert both.columns("issues")["code"] == ["unknown_model"]
