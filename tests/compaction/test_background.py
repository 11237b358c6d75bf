"""Background candidates: B1-B8, with a model that answers late and with none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.compaction import Candidates
from agent_kernel.core.agent import Agent
from agent_kernel.core.calling import compact
from agent_kernel.core.events import CompactionCandidate, Event
from agent_kernel.core.messages import blocks_of
from agent_kernel.core.model import ProviderError
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from tests.compaction.kit import (
    LAYERS,
    SUMMARY,
    Talk,
    agent,
    bytes_of,
    copied,
    ends,
    long_talk,
    marks,
    model,
    now,
    starts,
    summaries,
    texts,
)

WATER = marks(soft=2_000, mid=60_000, hard=70_000, tail=1_200)


def candidates(session: Session) -> list[CompactionCandidate]:
    return [e for e in session.events if isinstance(e, CompactionCandidate)]


def told(session: Session) -> list[tuple[str, str | None]]:
    return [(e.status, e.reason) for e in candidates(session)]


def ready(talk: Talk, **more: Any) -> Agent:
    """An agent with a ready candidate."""
    made = agent(background=Candidates(), marks=WATER, **more)
    now(started(talk.session, made))
    return made


async def started(session: Session, made: Agent) -> None:
    background = made.background
    assert isinstance(background, Candidates)
    name = background.start(session, made)
    assert name is not None
    task = background.tasks.get(name)
    if task is not None:
        await task


def hard(talk: Talk, made: Agent) -> Any:
    return now(compact(talk.session, made, "hard", strategies=LAYERS[-1:]))


def over_hard(made: Agent) -> None:
    made.marks = marks(soft=2_000, mid=2_100, hard=2_200, tail=1_200)


def test_a_candidate_is_written_while_nothing_is_locked_and_committed_at_hard() -> None:
    talk = long_talk()
    made = ready(talk)
    assert told(talk.session) == [("started", None), ("ready", None)]
    assert starts(talk.session) == []
    talk.step("read", {"path": "late_one.py"}, "one more result")
    talk.step("read", {"path": "late_two.py"}, "and another")
    over_hard(made)
    assert hard(talk, made).committed
    assert told(talk.session)[-1] == ("committed", None)
    held = candidates(talk.session)[0]
    assert starts(talk.session)[0].candidate_id == held.candidate_id
    assert summaries(talk.session)[0].hidden == held.hidden
    text = texts(talk.session.surface().nodes)
    assert "one more result" in text
    assert "and another" in text
    assert verify(talk.session.events).ok


def test_what_a_candidate_cost_is_counted_once() -> None:
    talk = long_talk()
    made = ready(talk)
    spent = candidates(talk.session)[-1].usage
    assert spent is not None
    total = talk.session.state().session_usage
    over_hard(made)
    hard(talk, made)
    assert talk.session.state().session_usage == total


def test_committing_equals_a_compaction_of_that_span_with_that_summary() -> None:
    """B6."""
    one, two = long_talk(), long_talk()
    made = ready(one)
    over_hard(made)
    hard(one, made)
    direct = agent(model(), marks=made.marks)
    now(compact(two.session, direct, "hard", strategies=LAYERS[-1:]))
    ours, theirs = (
        [t.replace(starts(s)[0].compaction_id, "c") for t in map(str, bytes_of(s))]
        for s in (one.session, two.session)
    )
    assert ours == theirs


def test_at_most_one_is_at_work() -> None:
    """B1."""
    talk = long_talk()
    made = agent(background=Candidates(), marks=WATER)

    async def both() -> None:
        background = made.background
        assert isinstance(background, Candidates)
        first = background.start(talk.session, made)
        assert first is not None
        assert background.start(talk.session, made) is None
        await background.tasks[first]
        assert background.start(talk.session, made) is None

    now(both())
    assert len({e.candidate_id for e in candidates(talk.session)}) == 1


def test_under_soft_and_over_hard_none_is_started() -> None:
    talk = long_talk()
    for water in (marks(), marks(soft=10, mid=20, hard=30, tail=5)):
        made = agent(background=Candidates(), marks=water)
        assert made.background is not None
        assert made.background.start(talk.session, made) is None


def replaced_in_span_is_dropped() -> None:
    talk = long_talk()
    made = ready(talk)
    now(compact(talk.session, made, "manual", strategies=LAYERS[2:3]))
    over_hard(made)
    hard(talk, made)
    assert ("discarded", "overlap") in told(talk.session)


def test_a_candidate_whose_span_was_edited_is_never_committed() -> None:
    """B2."""
    replaced_in_span_is_dropped()


def edited_bytes_are_dropped() -> None:
    """The span has the same seqs, but a line of it holds other bytes than when it was read."""
    talk = long_talk()
    made = ready(talk)
    node = talk.session.surface().nodes[3]
    other = node.model_copy(update={"content": blocks_of("other bytes " * 50)})
    at = talk.session.surface().position(node.seq)
    talk.session.surface()._nodes[at] = other
    over_hard(made)
    hard(talk, made)
    assert ("discarded", "overlap") in told(talk.session)


def test_a_candidate_is_held_to_the_digest_of_what_it_read() -> None:
    edited_bytes_are_dropped()


def test_a_candidate_grows_old_by_time_and_by_steps() -> None:
    """B3."""
    for age in (
        lambda t: t.tick(700.0),
        lambda t: [t.step("bash", {"command": str(n)}, "x") for n in range(21)],
    ):
        talk = long_talk()
        made = ready(talk)
        age(talk)
        talk.attach("now")
        over_hard(made)
        hard(talk, made)
        assert ("discarded", "age") in told(talk.session)


def test_a_candidate_goes_when_the_tail_has_outgrown_it_or_the_model_changed() -> None:
    talk = long_talk()
    made = ready(talk)
    talk.step("read", {"path": "big.py"}, "x" * 60_000)
    over_hard(made)
    hard(talk, made)
    assert ("discarded", "tail_growth") in told(talk.session)
    talk = long_talk()
    made = ready(talk)
    made.model = "another"
    over_hard(made)
    hard(talk, made)
    assert ("discarded", "model") in told(talk.session)


def test_a_summariser_that_fails_ends_its_candidate_and_touches_nothing() -> None:
    talk = long_talk()
    before = bytes_of(talk.session)
    made = agent([ProviderError("server", "down")], background=Candidates(), marks=WATER)
    now(started(talk.session, made))
    assert told(talk.session) == [("started", None), ("failed", "provider")]
    assert bytes_of(talk.session) == before
    assert talk.session.surface().generation == 0


def test_a_soft_run_waits_while_a_candidate_is_there() -> None:
    from agent_kernel.core.compaction import due

    talk = long_talk()
    made = agent(background=Candidates(), marks=WATER)
    assert due(talk.session, "main", made.profile, LAYERS, WATER) == "soft"
    now(started(talk.session, made))
    assert due(talk.session, "main", made.profile, LAYERS, WATER) is None


def test_a_killed_candidate_leaves_no_lock_and_is_failed_on_reopening(tmp_path: Path) -> None:
    """B7."""
    talk = long_talk()
    made = agent(background=Candidates(), marks=WATER)
    made.provider.delay = 30.0  # type: ignore[attr-defined]

    async def killed() -> None:
        background = made.background
        assert isinstance(background, Candidates)
        name = background.start(talk.session, made)
        assert name is not None
        await asyncio.sleep(0.05)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(_cancelled(killed()))
    again = copied_until(talk.session, tmp_path, "started")
    again.resume()
    assert told(again)[-1] == ("failed", "cancelled")
    assert again.state().candidate is None
    assert now(compact(again, agent(), "manual", use_model=False)).committed
    again.close()


async def _cancelled(work: Any) -> None:
    await work
    raise asyncio.CancelledError


def copied_until(session: Session, folder: Path, status: str) -> Session:
    at = next(e.seq for e in candidates(session) if e.status == status)
    kept = Session()
    kept.log.append_all([e.model_copy(update={"seq": -1}) for e in session.events[: at + 1]])
    return copied(kept, folder / "a.agent.jsonl")


def test_a_ready_candidate_outlives_the_kernel(tmp_path: Path) -> None:
    talk = long_talk()
    made = ready(talk)
    again = copied(talk.session, tmp_path / "a.agent.jsonl")
    again.close()
    again = Session.open(tmp_path / "a.agent.jsonl")
    again.log.append_all([])
    held = again.state().candidate
    assert held is not None
    assert held.status == "ready"
    fresh = agent(
        background=Candidates(), marks=marks(soft=2_000, mid=2_100, hard=2_200, tail=1_200)
    )
    outcome = now(compact(again, fresh, "hard", strategies=LAYERS[-1:]))
    assert outcome.committed
    assert told(again)[-1] == ("committed", None)
    assert made.model == fresh.model
    again.close()


def test_without_a_model_the_ledger_is_ready_at_once() -> None:
    talk = long_talk()
    made = agent(background=Candidates(use_model=False), marks=WATER)
    assert made.background is not None
    made.background.start(talk.session, made)
    assert told(talk.session) == [("started", None), ("ready", None)]
    over_hard(made)
    assert hard(talk, made).committed
    assert told(talk.session)[-1] == ("committed", None)
    assert not summaries(talk.session)
    assert ends(talk.session)[-1].attempts == 0


def test_what_is_appended_meanwhile_is_all_there_in_order_with_its_signatures() -> None:
    """B5, B8."""
    talk = long_talk()
    made = agent(background=Candidates(), marks=WATER, thinking="adaptive")
    added: list[Event] = []

    async def meanwhile() -> None:
        background = made.background
        assert isinstance(background, Candidates)
        name = background.start(talk.session, made)
        assert name is not None
        talk.user("while you write")
        for number in range(3):
            talk.step("read", {"path": f"m{number}.py"}, f"text {number}", thought=f"hm {number}")
        added.extend(talk.session.surface().nodes[-7:])
        await background.tasks[name]

    now(meanwhile())
    over_hard(made)
    assert hard(talk, made).committed
    assert list(talk.session.surface().nodes[-7:]) == added
    assert SUMMARY.split("\n")[0] in texts(talk.session.surface().nodes)
