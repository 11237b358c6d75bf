"""The transaction: C1-C12, its error codes, undo, dry run, overflow, breaker, thrash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import compaction
from agent_kernel.core.calling import compact
from agent_kernel.core.compaction import (
    Desk,
    Edit,
    View,
    WaterMarks,
    breaker_open,
    due,
    thrashing,
)
from agent_kernel.core.events import (
    Attachment,
    CompactionStart,
    PinSet,
    RequestContext,
    SurfaceEvent,
    UserMessage,
)
from agent_kernel.core.files import DISK
from agent_kernel.core.messages import Message, Text, ToolUse, Usage, blocks_of
from agent_kernel.core.model import Done, ProviderError
from agent_kernel.core.query import query
from agent_kernel.core.replay import verify
from agent_kernel.core.session import Session
from agent_kernel.core.transaction import UndoError, undo
from tests.compaction.kit import (
    LAYERS,
    SUMMARY,
    agent,
    bytes_of,
    copied,
    ends,
    lines,
    long_talk,
    marks,
    model,
    now,
    profile,
    starts,
    summaries,
    texts,
)

SMALL = {"soft": 1_500.0, "mid": 2_000.0, "hard": 2_500.0, "tail": 800.0}


def manual(session: Session, *answers: Any, **more: Any) -> Any:
    made = agent(answers, marks=marks(**SMALL))
    return now(compact(session, made, "manual", use_model=bool(answers), **more))


def test_a_committed_run_is_start_summary_prunes_replacement_end_in_this_order() -> None:
    talk = long_talk()
    outcome = manual(talk.session, SUMMARY)
    assert outcome.committed
    run = [e for e in talk.session.events if e.seq >= starts(talk.session)[0].seq]
    kinds = [e.type for e in run]
    assert kinds[0] == "compaction/start"
    assert kinds[-1] == "compaction/end"
    order = [kinds.index(k) for k in ("compaction/summary", "compaction/prune", "attachment")]
    assert order == sorted(order)
    assert kinds.count("compaction/summary") == kinds.count("attachment") == 1
    assert {getattr(e, "compaction_id", None) for e in run} <= {
        starts(talk.session)[0].compaction_id,
        None,
    }


def test_the_attachment_cites_start_summary_and_all_it_hides() -> None:
    talk = long_talk()
    manual(talk.session, SUMMARY)
    made = next(e for e in talk.session.events if isinstance(e, Attachment))
    start, summary = starts(talk.session)[0].seq, summaries(talk.session)[0]
    assert set(made.sources) == {start, summary.seq, *summary.hidden}
    assert made.meta["parts"] == ["carried", "constraints", "summary", "ledger", "footer"]
    assert set(talk.session.surface().hidden_by(made.seq)) == set(summary.hidden)


def test_without_a_model_the_ledger_stands_for_the_span() -> None:
    talk = long_talk()
    assert manual(talk.session).committed
    end = ends(talk.session)[-1]
    assert end.tokens["post"] < end.tokens["pre"]
    assert end.error is None
    assert not summaries(talk.session)
    assert "never touch config0.yaml" in texts(talk.session.surface().nodes)


def test_tokens_and_cost_of_a_run_are_in_its_end() -> None:
    talk = long_talk()
    manual(talk.session, SUMMARY)
    end = ends(talk.session)[-1]
    assert end.tokens["freed"] == end.tokens["pre"] - end.tokens["post"] > 0
    assert sum(end.tokens["by_source"].values()) == end.tokens["post"]
    assert {"rewrite_tokens", "warm_rewrite_tokens", "rewrite_usd", "call_usd"} <= set(end.cost)
    assert set(end.dropped) == {"facts", "constraints"}
    assert end.generation == talk.session.surface().generation


class Waits:
    """A layer that waits until it is told to go on, then plans what `inner` plans."""

    name, needs_model = "auto", False

    def __init__(self, inner: Any = LAYERS[-1]) -> None:
        self.inner, self.reached, self.go = inner, asyncio.Event(), asyncio.Event()

    def wants(self, _view: View) -> bool:
        return True

    async def plan(self, view: View, desk: Desk) -> list[Edit]:
        self.reached.set()
        await self.go.wait()
        return list(await self.inner.plan(view, desk))


def test_a_second_caller_is_told_busy_and_logs_nothing() -> None:
    talk = long_talk()

    async def both() -> None:
        waits = Waits()
        first = asyncio.ensure_future(compact(talk.session, agent(), "manual", strategies=(waits,)))
        await waits.reached.wait()
        before = len(talk.session.events)
        second = await compact(talk.session, agent(), "manual")
        assert second.error is not None
        assert second.error["code"] == "busy"
        assert len(talk.session.events) == before
        waits.go.set()
        assert (await first).committed

    asyncio.run(both())


def test_a_run_cancelled_leaves_everything_as_it_was() -> None:
    talk = long_talk()
    before = bytes_of(talk.session)

    async def cut() -> None:
        waits = Waits()
        work = asyncio.ensure_future(compact(talk.session, agent(), "manual", strategies=(waits,)))
        await waits.reached.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cut())
    assert ends(talk.session)[-1].error == {"code": "cancelled", "text": "it was interrupted"}
    assert bytes_of(talk.session) == before
    assert manual(talk.session).committed


@pytest.mark.parametrize("trigger,code", [("hard", "changed"), ("manual", None)])
def test_what_is_appended_meanwhile_stops_an_automatic_run_only(trigger: Any, code: Any) -> None:
    talk = long_talk()

    async def both() -> Any:
        waits = Waits()
        work = asyncio.ensure_future(compact(talk.session, agent(), trigger, strategies=(waits,)))
        await waits.reached.wait()
        talk.attach("meanwhile")
        waits.go.set()
        return await work

    outcome = asyncio.run(both())
    assert (outcome.error or {}).get("code") == code
    assert texts(talk.session.surface().nodes).endswith("meanwhile")


def _done(content: Any, stop: str = "end_turn") -> Done:
    message = Message("assistant", content if isinstance(content, tuple) else (Text(content),))
    return Done(message, Usage(10, 5), stop, model="m")


BAD = {
    "empty": _done("  "),
    "headings": _done("## Next Step\nNone"),
    "tool_call": _done((Text(SUMMARY), ToolUse("toolu_x", "read", {}))),
    "inflated": _done(SUMMARY + "x " * 20_000),
}


@pytest.mark.parametrize("code", sorted(BAD))
def test_a_bad_summary_is_asked_for_once_more_then_the_ledger_stands(code: str) -> None:
    talk = long_talk()
    outcome = manual(talk.session, BAD[code], BAD[code])
    assert outcome.committed
    end = ends(talk.session)[-1]
    assert end.error is not None
    assert end.error["code"] == code
    assert end.attempts == 2
    assert end.usage == Usage(20, 10).wire()
    assert not summaries(talk.session)


def test_a_second_answer_that_is_good_is_used_and_both_are_paid() -> None:
    talk = long_talk()
    assert manual(talk.session, BAD["headings"], SUMMARY).committed
    end, made = ends(talk.session)[-1], summaries(talk.session)[-1]
    assert (made.attempt, end.attempts, end.error) == (2, 2, None)
    assert end.usage == Usage(10, 5).wire()


def test_a_failing_summariser_leaves_the_surface_as_it_was() -> None:
    talk = long_talk()
    before, generation = bytes_of(talk.session), talk.session.surface().generation
    outcome = manual(talk.session, ProviderError("server", "it fell over"))
    assert (outcome.status, outcome.error["code"]) == ("failed", "provider")
    assert bytes_of(talk.session) == before
    assert talk.session.surface().generation == generation


def test_at_the_hard_mark_a_failing_summariser_gives_way_to_the_ledger() -> None:
    talk = long_talk()
    made = agent([ProviderError("server", "it fell over")], marks=marks(**SMALL))
    outcome = now(compact(talk.session, made, "hard"))
    assert outcome.committed
    assert ends(talk.session)[-1].error["code"] == "provider"  # type: ignore[index]


def test_a_summary_that_takes_too_long_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_kernel.core.calling.SUMMARY_SECONDS", 0.05)
    talk = long_talk()
    made = agent([SUMMARY], marks=marks(**SMALL))
    made.provider.delay = 10.0  # type: ignore[attr-defined]
    outcome = now(compact(talk.session, made, "manual"))
    assert outcome.error["code"] == "timeout"


def test_a_summary_call_that_overflows_is_named() -> None:
    talk = long_talk()
    outcome = manual(talk.session, ProviderError("invalid", "prompt too long", overflow=True))
    assert outcome.error["code"] == "overflow"


def test_what_frees_less_than_a_tenth_is_no_progress() -> None:
    talk = long_talk(turns=1, steps=2)
    before = bytes_of(talk.session)
    made = agent(marks=marks(soft=1, mid=1, hard=1, tail=150_000))
    outcome = now(compact(talk.session, made, "hard", strategies=LAYERS[-1:]))
    assert outcome.error["code"] == "no_progress"
    assert bytes_of(talk.session) == before
    skipped = now(compact(talk.session, made, "manual", strategies=()))
    assert skipped.status == "skipped"


class Plans:
    """A layer that plans given edits."""

    def __init__(self, *edits: Edit) -> None:
        self.name, self.needs_model, self.edits = "snip", False, edits

    def wants(self, _view: View) -> bool:
        return True

    async def plan(self, _view: View, _desk: Desk) -> list[Edit]:
        return list(self.edits)


def _stub(text: str) -> Attachment:
    return Attachment(kind="summary", label="x", content=blocks_of(text))


def test_a_result_that_breaks_the_rules_is_never_committed() -> None:
    talk = long_talk()
    result = next(n for n in talk.session.surface().nodes if n.type == "tool/result")
    bad = Edit(result.seq, result.seq, _stub("gone"), 300, 0, "a call loses its result")
    before = bytes_of(talk.session)
    outcome = now(compact(talk.session, agent(), "manual", strategies=(Plans(bad),)))
    assert outcome.error["code"] == "invalid"
    assert bytes_of(talk.session) == before


def test_a_replacement_larger_than_what_it_hides_is_never_committed() -> None:
    talk = long_talk()
    first = talk.session.surface().nodes[0]
    bad = Edit(first.seq, first.seq, _stub("y" * 9_000), 50, 0, "it grew")
    outcome = now(compact(talk.session, agent(), "manual", strategies=(Plans(bad),)))
    assert outcome.error["code"] == "inflated"


def test_a_disk_that_fails_at_the_commit_leaves_the_old_surface(tmp_path: Path) -> None:
    class Full(type(DISK)):  # type: ignore[misc]
        full = False

        def write(self, fd: int, data: bytes) -> int:
            return 0 if self.full and b"compaction/end" in data else super().write(fd, data)

    files = Full()
    talk = long_talk()
    session = copied(talk.session, tmp_path / "a.agent.jsonl", files=files)
    before = bytes_of(session)
    files.full = True
    outcome = now(compact(session, agent(), "manual", use_model=False))
    assert outcome.error["code"] == "persistence"
    assert bytes_of(session) == before
    assert not [e for e in session.events if getattr(e, "replaces", None)]
    files.full = False
    session.resume()
    assert session.state().compacting is None
    assert now(compact(session, agent(), "manual", use_model=False)).committed
    session.close()


def test_a_region_without_legal_ends_is_refused_before_anything_is_logged() -> None:
    talk = long_talk()
    result = next(n for n in talk.session.surface().nodes if n.type == "tool/result")
    before = lines(talk.session)
    with pytest.raises(ValueError, match="no legal cut at region"):
        now(compact(talk.session, agent(), "manual", span=(result.seq, result.seq)))
    assert lines(talk.session) == before


def test_a_chosen_region_is_all_that_is_hidden() -> None:
    talk = long_talk()
    users = [n.seq for n in talk.session.surface().nodes if isinstance(n, UserMessage)]
    seqs = talk.session.surface().seqs
    last = seqs[seqs.index(users[1]) - 1]
    layers = (LAYERS[-1],)
    outcome = now(
        compact(
            talk.session,
            agent(),
            "manual",
            span=(users[0], last),
            strategies=layers,
            use_model=False,
        )
    )
    assert outcome.committed
    made = next(e for e in talk.session.events if isinstance(e, Attachment))
    assert talk.session.surface().hidden_by(made.seq) == seqs[: seqs.index(users[1])]


def test_first_and_present_words_and_pins_are_carried_word_for_word() -> None:
    talk = long_talk()
    pinned = next(n.seq for n in talk.session.surface().nodes if n.type == "assistant/message")
    talk.add(PinSet(target=pinned, on=True))
    nodes = talk.session.surface().nodes
    layers = (LAYERS[-1],)
    span = (nodes[0].seq, nodes[-1].seq)
    now(compact(talk.session, agent(), "manual", span=span, strategies=layers, use_model=False))
    text = texts(talk.session.surface().nodes)
    assert "task 0: please fix src/mod0.py and never touch config0.yaml at all" in text
    assert "task 2: please fix src/mod2.py and never touch config2.yaml at all" in text
    assert f"[kept, seq {pinned}]" in text


def test_untrusted_text_stays_untrusted_through_two_compactions() -> None:
    talk = long_talk()
    talk.user("look at the web")
    talk.step("web_fetch", {"url": "https://x.test"}, "page " * 300, taint="web")
    talk.step("read", {"path": "a.py"}, "x " * 300, taint="repo")
    talk.answer("seen")
    for number in range(6):
        talk.user(f"go on {number}")
        talk.answer("yes " * 200)
    manual(talk.session)
    assert [n.meta["taint"] for n in talk.session.surface().nodes if isinstance(n, Attachment)] == [
        "web"
    ]
    for number in range(6):
        talk.user(f"and on {number}")
        talk.answer("yes " * 200)
    manual(talk.session)
    last = [n for n in talk.session.surface().nodes if isinstance(n, Attachment)]
    assert [n.meta["taint"] for n in last] == ["web"]
    assert last[0].meta["depth"] == 2


# ---- undo ----------------------------------------------------------------------------------------


def test_undo_gives_back_the_messages_of_before_and_keeps_what_came_after() -> None:
    talk = long_talk()
    before = bytes_of(talk.session)
    manual(talk.session, SUMMARY)
    talk.user("one more thing")
    assert undo(talk.session) >= 1
    assert bytes_of(talk.session)[: len(before)] == before
    assert "one more thing" in texts(talk.session.surface().nodes)
    assert verify(talk.session.events).ok


def test_one_node_can_be_given_back_alone() -> None:
    talk = long_talk()
    now(compact(talk.session, agent(), "manual", strategies=(LAYERS[2],)))
    name = starts(talk.session)[-1].compaction_id
    cleared = [n.seq for n in talk.session.surface().nodes if n.compaction_id == name]
    assert len(cleared) > 2
    assert undo(talk.session, name, node=cleared[0]) == 1
    left = [n.seq for n in talk.session.surface().nodes if n.compaction_id == name]
    assert left == cleared[1:]


def test_undo_names_the_later_compaction_that_stands_in_the_way() -> None:
    talk = long_talk()
    now(compact(talk.session, agent(), "manual", strategies=(LAYERS[2],)))
    first = starts(talk.session)[-1].compaction_id
    manual(talk.session)
    second = starts(talk.session)[-1].compaction_id
    before = lines(talk.session)
    with pytest.raises(UndoError, match=f"undo '{second}' first"):
        undo(talk.session, first)
    assert lines(talk.session) == before
    undo(talk.session, second)
    undo(talk.session, first)
    with pytest.raises(UndoError, match="was undone"):
        undo(talk.session, first)


def test_undo_is_refused_when_the_messages_would_not_fit_and_says_both_sizes() -> None:
    talk = long_talk()
    manual(talk.session)
    with pytest.raises(UndoError, match=r"would hold [\d,]+ tokens .* window of 2,000"):
        undo(talk.session, window=2_000)


def test_undo_of_an_unknown_compaction_names_it() -> None:
    with pytest.raises(UndoError, match="'c9' replaced nothing"):
        undo(long_talk().session, "c9")
    with pytest.raises(UndoError, match="none hides anything"):
        undo(long_talk().session)


# ---- dry run -------------------------------------------------------------------------------------


def test_a_dry_run_appends_nothing_and_says_what_a_run_then_does() -> None:
    talk = long_talk()
    before = lines(talk.session)
    shown = compaction.plan(talk.session, LAYERS, profile=profile())
    assert lines(talk.session) == before
    now(compact(talk.session, agent(), "manual", use_model=False))
    assert ends(talk.session)[-1].tokens["post"] == shown.after
    assert {row.layer for row in shown.rows} >= {"auto"}
    assert shown.wire()["tokens"]["pre"] == shown.before
    assert "nothing was changed" in str(shown)


def test_a_dry_run_of_one_layer_and_of_an_unknown_one() -> None:
    talk = long_talk()
    shown = compaction.plan(talk.session, LAYERS, "micro")
    assert [row.layer for row in shown.rows] == ["micro"]
    with pytest.raises(ValueError, match="no layer 'macro'; there are ladder, budget"):
        compaction.plan(talk.session, LAYERS, "macro")


# ---- overflow, breaker, thrash -------------------------------------------------------------------


def test_an_overflow_compacts_and_sends_the_request_once_more() -> None:
    talk = long_talk()
    talk.end()
    too_long = ProviderError("invalid", "prompt is too long", overflow=True, status=400)
    made = agent(model(too_long, "fine"))
    outcome = now(query(talk.session, made, "and now?"))
    assert outcome.answer == "fine"
    turns = [
        e for e in talk.session.events if isinstance(e, RequestContext) and e.purpose == "turn"
    ]
    assert len(turns) == 2
    assert [s.trigger for s in starts(talk.session)] == ["overflow"]
    assert verify(talk.session.events).ok


def test_an_overflow_nothing_can_shorten_is_the_original_error() -> None:
    talk = long_talk(turns=1, steps=1, size=40)
    talk.end()
    too_long = ProviderError("invalid", "prompt is too long", overflow=True, status=400)
    with pytest.raises(ProviderError, match="prompt is too long"):
        now(query(talk.session, agent([too_long, too_long]), "hm"))
    assert talk.session.state().turn_end.reason == "prompt_too_long"  # type: ignore[union-attr]


def test_three_bad_summaries_open_the_breaker_and_the_turn_still_completes() -> None:
    talk = long_talk(turns=1)
    for number in range(3):
        made = agent([BAD["empty"], BAD["empty"]], marks=marks(**SMALL))
        for more in range(3):
            talk.user(f"more {number} {more}")
            talk.answer("y " * 900)
        now(compact(talk.session, made, "hard"))
    assert breaker_open(talk.session, "main")
    talk.end()
    made = agent(["the answer"], marks=marks(soft=1, mid=1, hard=100, tail=200))
    assert now(query(talk.session, made, "z " * 900)).answer == "the answer"
    assert not any(s.trigger == "x" for s in starts(talk.session))
    for number in range(5):
        talk.user(f"later {number}")
    assert not breaker_open(talk.session, "main")


def test_a_manual_run_or_another_model_closes_the_breaker() -> None:
    talk = long_talk()
    state = talk.session.state()
    state.bad_summaries = (3, 3, 3)
    assert breaker_open(talk.session, "main")
    manual(talk.session)
    assert not breaker_open(talk.session, "main")


def test_a_context_that_fills_at_once_again_ends_the_turn_as_thrash_and_names_what_fills_it() -> (
    None
):
    talk = long_talk(turns=1)
    for number in range(3):
        talk.step("read", {"path": f"big{number}.log"}, "line\n" * 3_000, path=f"big{number}.log")
        now(compact(talk.session, agent(marks=marks(**SMALL)), "hard", use_model=False))
    assert not thrashing(talk.session, "main")
    talk.step("read", {"path": "big3.log"}, "line\n" * 3_000, path="big3.log")
    now(compact(talk.session, agent(marks=marks(**SMALL)), "hard", use_model=False))
    assert thrashing(talk.session, "main")
    talk.user("go on")
    talk.step("read", {"path": "big4.log"}, "line\n" * 3_000, path="big4.log")
    made = agent(["never sent"], marks=marks(**SMALL))
    end = now(query(talk.session, made))
    assert end.reason == "prompt_too_long"
    assert end.detail["thrash"] == "hard"
    assert end.detail["refill"]["largest"][0][0] == "read big3.log"


def test_a_run_that_was_no_use_is_not_tried_again_at_every_step() -> None:
    talk = long_talk(turns=1, steps=3)
    water = WaterMarks(200_000, soft=300, mid=400, hard=100_000, tail=90_000)
    made = agent(marks=water)
    assert due(talk.session, "main", made.profile, LAYERS, water) == "soft"
    outcome = now(compact(talk.session, made, "soft", strategies=(LAYERS[3],)))
    assert outcome.error["code"] == "no_progress"
    talk.step("read", {"path": "small.py"}, "small")
    assert due(talk.session, "main", made.profile, LAYERS, water) is None


def test_a_turn_after_a_pause_is_cold_though_no_step_has_begun() -> None:
    talk = long_talk()
    context = RequestContext(digest="", header=0, max_tokens=1, surface_generation=0, messages=1)
    talk.add(context)
    water = WaterMarks(200_000, soft=100_000, mid=110_000, hard=150_000, tail=30_000)
    made = agent(marks=WaterMarks(200_000, soft=1_000, mid=9_000, hard=9_500, tail=500))
    assert due(talk.session, "main", made.profile, LAYERS, made.marks) == "soft"
    talk.tick(400.0)
    talk.user("back again")
    assert due(talk.session, "main", made.profile, LAYERS, made.marks) == "cold"
    assert due(talk.session, "main", made.profile, LAYERS, water) is None


# ---- crash ---------------------------------------------------------------------------------------


def test_a_log_cut_at_any_byte_of_a_commit_is_the_old_surface_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "a.agent.jsonl"
    talk = long_talk(turns=2, steps=3)
    session = copied(talk.session, path)
    old = bytes_of(session)
    size = path.stat().st_size
    now(compact(session, agent([SUMMARY], marks=marks(**SMALL)), "manual"))
    new = bytes_of(session)
    session.close()
    assert new != old
    whole = path.read_bytes()
    for cut in [*range(size, len(whole), 97), *range(len(whole) - 60, len(whole) + 1)]:
        copy = tmp_path / f"{cut}.agent.jsonl"
        copy.write_bytes(whole[:cut])
        again = Session.open(copy)
        assert bytes_of(again) in (old, new)
        again.resume()
        assert again.state().compacting is None
        again.close()
        copy.unlink()


def test_every_event_of_a_run_as_the_last_one_is_one_of_the_two_states() -> None:
    talk = long_talk()
    old = bytes_of(talk.session)
    at = len(talk.session.events)
    manual(talk.session, SUMMARY)
    new = bytes_of(talk.session)
    for end in range(at, len(talk.session.events) + 1):
        again = Session()
        again.log.append_all(list(talk.session.events[:end]))
        made = again.surface()
        state = [m.bytes for m in made.messages()]
        assert state == (new if end == len(talk.session.events) else old)


def test_the_summary_call_is_the_last_request_and_one_instruction_more() -> None:
    talk = long_talk()
    talk.end()
    made = agent(model("first"))
    now(query(talk.session, made, "what now?"))
    now(compact(talk.session, made, "manual", strategies=LAYERS[-1:]))
    sent = made.provider.requests  # type: ignore[attr-defined]
    first, apart = sent[0], sent[-1]
    assert apart.head.replace(b'"max_tokens":256', b"") == first.head.replace(
        b'"max_tokens":256', b""
    )
    assert apart.prefix.startswith(first.prefix.removesuffix(b"]}]}"))
    assert len(apart.messages) == len(first.messages) + 2
    assert summaries(talk.session)[-1].prefix_shared
    assert verify(talk.session.events).ok


def test_a_summary_call_without_room_leaves_the_oldest_out_and_can_be_rebuilt() -> None:
    talk = long_talk(turns=6)
    talk.end()
    water = marks(14_000, soft=900, mid=1_000, hard=1_200, tail=700)
    made = agent(model(), window=14_000, marks=water)
    now(compact(talk.session, made, "manual", strategies=LAYERS[-1:]))
    context = [e for e in talk.session.events if isinstance(e, RequestContext)][-1]
    assert context.left_out > 0
    assert verify(talk.session.events).ok
    assert not any(s.prefix_shared for s in summaries(talk.session))


def test_the_kinds_of_trigger_are_those_of_the_log() -> None:
    assert set(CompactionStart.model_fields["trigger"].annotation.__args__) == {  # type: ignore[union-attr]
        "soft", "hard", "overflow", "cold", "manual",
    }  # fmt: skip


def test_layers_see_what_former_layers_left_and_only_the_widest_edit_is_logged() -> None:
    talk = long_talk()
    manual(talk.session)
    made = [e for e in talk.session.events if isinstance(e, SurfaceEvent) and e.replaces]
    spans = [(e.replaces.first, e.replaces.last) for e in made if e.replaces]
    assert len(spans) == len(set(spans))
