"""The layers: one case a rule, and Y1-Y9 for each layer and each pair, on random histories."""

from __future__ import annotations

import hashlib
import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.compaction import ALL, Budget, Collapse, Micro, Snip
from agent_kernel.compaction.markers import clipped, parse
from agent_kernel.compaction.nodes import all_originals
from agent_kernel.core.compaction import Desk, View, apply_edits, pays
from agent_kernel.core.events import AssistantMessage, ToolResultEvent, UserMessage
from agent_kernel.core.messages import Thinking, text_of
from agent_kernel.core.surface import merged
from agent_kernel.core.usage import event_tokens
from agent_kernel.core.validate import validate_messages
from tests.compaction.kit import (
    BY_NAME,
    LAYERS,
    Talk,
    marks,
    planned,
    profile,
    quick,
    texts,
    view_of,
)
from tests.compaction.walk import Walk

BOUND = settings(max_examples=60, deadline=None)
WATER = marks(soft=200, mid=300, hard=400, tail=250)


def random_view(seed: int, trigger: str = "hard") -> View:
    """The view of a random history of 30 steps or so."""
    walk = Walk(seed)
    for _ in range(walk.random.randint(5, 45)):
        walk.grow()
    walk.session.answer_open_calls("over")
    thinking = walk.thinking
    return view_of(walk.session, trigger, thinking=thinking, marks=WATER)


def test_the_room_has_the_five_layers_in_order() -> None:
    assert [layer.name for layer in ALL] == ["budget", "snip", "micro", "collapse", "auto"]


# ---- budget --------------------------------------------------------------------------------------


def test_budget_keeps_head_and_tail_and_says_what_is_missing() -> None:
    talk = Talk()
    talk.user("look")
    text = "".join(f"line {n}\n" for n in range(3_000))
    seq = talk.step("read", {"path": "a.py"}, text)
    talk.answer("seen")
    view = planned(Budget(), view_of(talk.session))
    short = text_of(view.nodes[2].blocks())
    assert short.startswith(text[:4_000])
    assert short.endswith(text[-1_000:])
    (marker,) = parse(short)
    assert (marker.kind, marker.first) == ("clipped", seq)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] in marker.what
    assert len(short) <= Budget().over


def test_budget_spares_what_the_model_has_not_read_unless_nothing_else_helps() -> None:
    talk = Talk()
    talk.user("look")
    talk.step("read", {"path": "a.py"}, "x" * 9_000)
    for trigger, clips in (("manual", False), ("overflow", True)):
        after = planned(Budget(), view_of(talk.session, trigger))
        assert ("[clipped" in texts(after.nodes)) is clips


@given(st.text(max_size=400), st.integers(0, 200), st.integers(0, 100))
@BOUND
def test_a_clip_parts_no_combining_sequence_and_no_marker(text: str, head: int, tail: int) -> None:
    body = (
        text
        + "e\u0301👩\u200d👧" * 60
        + "[cleared: read a.py, 9 characters; recall_history(seq=4)]" * 3
    )
    made = clipped(body, head, tail, "recall_history(seq=9)")
    before, _, after = made.partition("\n[clipped ")
    rest = after.partition("]\n")[2]
    assert body.startswith(before)
    assert body.endswith(rest)
    for piece in (rest[:1], body[len(before) : len(before) + 1]):
        assert not (piece and before and unicodedata.combining(piece)) or not before
    assert all(m.first == 4 for m in parse(before + rest))
    assert before.count("[cleared") == len(list(parse(before)))


# ---- snip: one case a rule -----------------------------------------------------------------------


def snipped(talk: Talk, **more: object) -> list[str]:
    for number in range(2):
        talk.step("bash", {"command": f"true {number}"}, f"fine {number}")
    view = planned(Snip(keep_units=2), view_of(talk.session, marks=WATER, **more))
    return [m.what for m in parse(texts(view.nodes)) if m.kind == "snipped"]


def talk_of(*steps: tuple[str, dict[str, object], str]) -> tuple[Talk, list[int]]:
    talk = Talk()
    talk.user("work")
    return talk, [talk.step(*step) for step in steps]


BODY = "text of the file that is long enough to matter\n" * 20


def test_snip_a_read_superseded_by_a_later_read() -> None:
    talk, seqs = talk_of(("read", {"path": "a"}, BODY), ("read", {"path": "a"}, BODY + "!"))
    assert snipped(talk) == [f"2 events: superseded by seq {seqs[1]}"]


def test_snip_a_read_superseded_by_a_later_edit() -> None:
    talk, seqs = talk_of(("read", {"path": "a"}, BODY), ("edit", {"path": "a", "new": "x"}, "ok"))
    assert snipped(talk) == [f"2 events: superseded by seq {seqs[1]}"]


def test_snip_keeps_a_read_of_another_part_of_the_file() -> None:
    talk, _ = talk_of(
        ("read", {"path": "a", "offset": 1, "limit": 50}, BODY),
        ("read", {"path": "a", "offset": 51, "limit": 50}, BODY + "!"),
    )
    assert snipped(talk) == []


def test_snip_an_identical_repeated_output() -> None:
    talk, seqs = talk_of(("bash", {"command": "ls"}, BODY), ("bash", {"command": "ls"}, BODY))
    assert snipped(talk) == [f"2 events: the same output as seq {seqs[1]}"]


def test_snip_todo_echoes_but_the_last() -> None:
    items = {"items": [{"id": "1", "text": "t " * 200, "status": "active"}]}
    talk, seqs = talk_of(("todo", items, "0 of 1 done"), ("todo", items, "0 of 1 done, still"))
    assert snipped(talk) == [f"2 events: superseded by seq {seqs[1]}"]


def test_snip_recalled_copies_first() -> None:
    talk, _ = talk_of(("recall_history", {"seq": 3}, BODY), ("bash", {"command": "x"}, "y"))
    assert snipped(talk) == ["2 events: a recalled copy"]


def test_snip_keeps_an_error_that_still_stands_and_drops_one_that_was_mended() -> None:
    talk = Talk()
    talk.user("work")
    talk.step("read", {"path": "a"}, BODY, error=True)
    talk.step("recall_history", {"seq": 1}, BODY, error=True)
    assert snipped(talk) == []


def test_snip_keeps_the_newest_units_and_what_is_pinned() -> None:
    talk, seqs = talk_of(("read", {"path": "a"}, BODY), ("read", {"path": "a"}, BODY))
    assert planned(Snip(keep_units=8), view_of(talk.session)).former == {}
    assert snipped(talk, pinned=frozenset({seqs[0]})) == []


def test_snip_never_hides_a_parallel_batch_of_which_one_is_alive() -> None:
    talk = Talk()
    talk.user("work")
    one, two = talk.ask(("read", {"path": "a"}), ("read", {"path": "b"}))
    talk.result(one, BODY)
    talk.result(two, BODY + "b")
    talk.step("read", {"path": "a"}, BODY + "new")
    assert snipped(talk) == []


def test_snip_cuts_inside_a_thinking_loop_only_where_the_model_adapts() -> None:
    talk = Talk()
    talk.user("work")
    for text in (BODY, BODY + "!"):
        talk.step("read", {"path": "a"}, text, thought="hm")
    assert snipped(talk, thinking="manual") == []
    assert len(snipped(talk, thinking="adaptive")) == 1


# ---- micro ---------------------------------------------------------------------------------------


def test_micro_names_tool_path_size_and_seq_and_keeps_errors_and_excluded_tools() -> None:
    talk = Talk()
    talk.user("work")
    seq = talk.step("read", {"path": "src/app.py"}, "z" * 9_310)
    talk.step("bash", {"command": "boom"}, "y" * 400, error=True)
    talk.step("todo", {"items": []}, "x" * 400)
    for number in range(5):
        talk.step("read", {"path": f"{number}.py"}, "new " * 100)
    view = planned(Micro(), view_of(talk.session))
    cleared = [m for m in parse(texts(view.nodes)) if m.kind == "cleared"]
    assert [(m.what, m.first) for m in cleared] == [("read src/app.py, 9,310 characters", seq)]


def test_micro_points_to_the_first_event_though_the_result_was_clipped_before() -> None:
    talk = Talk()
    talk.user("work")
    seq = talk.step("read", {"path": "a"}, "z" * 20_000)
    for number in range(6):
        talk.step("bash", {"command": str(number)}, "n")
    view = planned(Micro(), planned(Budget(), view_of(talk.session)))
    (marker,) = parse(text_of(view.nodes[2].blocks()))
    assert (marker.kind, marker.first) == ("cleared", seq)
    assert "20,000 characters" in marker.what


def test_micro_waits_for_enough_while_warm_and_runs_when_cold() -> None:
    talk = Talk()
    talk.user("work")
    for number in range(9):
        talk.step("read", {"path": f"{number}.py"}, "n" * 900)
    warm = view_of(talk.session, "soft", marks=WATER)
    assert quick(Micro().plan(warm, Desk())) == []
    cold = view_of(talk.session, "cold", marks=WATER, cold=True)
    assert not Micro().wants(view_of(talk.session, "cold", cold=True))
    assert len(quick(Micro(cold_floor=100).plan(cold, Desk()))) == 4


# ---- collapse: one case a rule -------------------------------------------------------------------


def collapsed(talk: Talk) -> list[str]:
    for number in range(2):
        talk.step("bash", {"command": f"true {number}"}, f"fine {number}")
    view = planned(Collapse(min_unit=200, keep_units=2), view_of(talk.session, marks=WATER))
    return [m.what for m in parse(texts(view.nodes)) if m.kind == "collapsed"]


def test_collapse_a_finished_subagent() -> None:
    talk, _ = talk_of(("agent", {"prompt": "find it", "label": "scout"}, BODY * 3))
    assert collapsed(talk) == ["2 events: sub-agent"]


def test_collapse_an_error_and_what_fixed_it() -> None:
    talk = Talk()
    talk.user("work")
    talk.step("bash", {"command": "pytest"}, BODY * 3, error=True)
    talk.step("edit", {"path": "a", "new": "b"}, "ok")
    talk.step("bash", {"command": "pytest"}, "1 passed")
    assert collapsed(talk) == ["6 events: error, then fixed"]


def test_collapse_leaves_an_error_nothing_fixed() -> None:
    talk = Talk()
    talk.user("work")
    talk.step("bash", {"command": "pytest"}, BODY * 3, error=True)
    talk.step("edit", {"path": "a", "new": "b"}, "ok")
    assert collapsed(talk) == []


def test_collapse_finished_work() -> None:
    def items(status: str) -> dict[str, object]:
        return {"items": [{"id": "1", "text": "do it", "status": status}]}

    talk, _ = talk_of(
        ("todo", items("active"), "0 of 1"),
        ("edit", {"path": "a", "new": "b"}, BODY * 3),
        ("todo", items("done"), "1 of 1 done"),
    )
    assert collapsed(talk) == ["6 events: finished work"]


def test_collapse_a_run_of_looks_once_something_else_came() -> None:
    looks = [("grep", {"pattern": f"p{n}"}, BODY) for n in range(3)]
    talk, _ = talk_of(*looks)
    assert collapsed(talk) == ["6 events: search"]
    talk, _ = talk_of(*looks[:2])
    assert collapsed(talk) == []


def test_collapse_says_goal_outcome_and_names() -> None:
    looks = [
        ("grep", {"pattern": f"find_me_{n}"}, f"src/deep/thing_{n}.py: match " * 40)
        for n in range(3)
    ]
    talk, _ = talk_of(*looks)
    talk.step("bash", {"command": "a"}, "b")
    talk.step("bash", {"command": "b"}, "b")
    view = planned(Collapse(min_unit=100, keep_units=2), view_of(talk.session, marks=WATER))
    text = next(t for n in view.nodes if "[collapsed" in (t := text_of(n.blocks())))
    assert "goal: grep find_me_0" in text
    assert "outcome: src/deep/thing_2.py: match" in text
    assert "thing_1.py" in text


# ---- Y1-Y9 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BY_NAME))
@given(st.integers(0, 10**6))
@BOUND
def test_y1_y2_y4_y5_y6_y7_of_each_layer(name: str, seed: int) -> None:
    view = random_view(seed)
    held = frozenset(
        random.Random(seed).sample([n.seq for n in view.nodes], min(2, len(view.nodes)))
    )
    view = View(**{**vars(view), "pinned": held})
    check_layer(name, view)


def check_layer(name: str, view: View) -> View:
    """Check one layer on one view; return the view it leaves."""
    layer = BY_NAME[name]
    edits = quick(layer.plan(view, Desk()))
    again = quick(layer.plan(view, Desk()))
    assert [vars(e) for e in edits] == [vars(e) for e in again], "Y5: it is deterministic"
    after = apply_edits(view, edits)
    if name != "auto" or view.strict:  # an adaptive loop, once cut, may be cut again
        assert planned(layer, after).nodes == after.nodes, "Y1: twice is once"
    assert all(e.freed > 0 for e in edits), "Y2: tokens never grow"
    assert sum(map(event_tokens, after.nodes)) <= sum(map(event_tokens, view.nodes)), "Y2"
    few = apply_edits(View(**{**vars(view), "tokens": 7}), edits)
    assert 0 <= few.tokens <= 7, "a provider that counts less than we estimate frees no more"
    before_bad, after_bad = (rules_broken(v) for v in (view, after))
    assert after_bad <= before_bad, f"Y4: {after_bad}"
    seqs = {n.seq for n in all_originals(view, view.nodes)}
    assert {n.seq for n in all_originals(after, after.nodes)} == seqs, "Y6: nothing is orphaned"
    text = texts(after.nodes)
    ours = [m for m in parse(text) if m.what != "read a, 9 characters"]  # one stands in the input
    assert all(m.first in seqs and m.last in seqs for m in ours), "Y6: pointers resolve"
    if name != "auto":
        for node in view.nodes:
            assert node.seq not in view.pinned or node in after.nodes, "Y7: pinned stays"
    unsigned(view, after)
    return after


def unsigned(view: View, after: View) -> None:
    """B8, V6: what is kept of the model's words keeps its bytes."""
    before = {n.seq: n for n in view.nodes}
    for node in after.nodes:
        if isinstance(node, AssistantMessage) and node.seq in before:
            assert node == before[node.seq]
            assert all(b == c for b, c in zip(node.content, before[node.seq].blocks(), strict=True))
            assert all(b.signature == "sig" for b in node.content if isinstance(b, Thinking))


def rules_broken(view: View) -> set[str]:
    found = validate_messages(merged(view.nodes), view.profile, sendable=False)
    return {v.rule for v in found if v.severity == "api"}


@given(st.integers(0, 10**6))
@BOUND
def test_y3_y4_hold_after_every_prefix_of_the_ladder(seed: int) -> None:
    view = random_view(seed)
    for layer in LAYERS:
        if layer.wants(view):
            view = check_layer(layer.name, view)


@given(st.integers(0, 10**6), st.sampled_from(sorted(BY_NAME)), st.sampled_from(sorted(BY_NAME)))
@BOUND
def test_each_pair_of_layers_leaves_a_valid_surface(seed: int, one: str, two: str) -> None:
    check_layer(two, check_layer(one, random_view(seed)))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_y3_no_layer_runs_under_its_mark(layer: object) -> None:
    talk, _ = talk_of(("read", {"path": "a"}, BODY))
    low = view_of(talk.session, "soft")
    assert low.tokens < low.marks.soft
    assert not layer.wants(low)  # type: ignore[attr-defined]


@given(st.integers(0, 10**6))
@BOUND
def test_y9_a_warm_edit_pays_for_its_rewrite_and_exempt_ones_all_stay(seed: int) -> None:
    view = random_view(seed, "soft")
    edits = [e for layer in LAYERS[:3] for e in quick(layer.plan(view, Desk()))][:20]
    edits = list({e.first: e for e in edits}.values())
    kept = pays(edits, view)
    whole = sum(map(event_tokens, view.nodes))
    if kept:
        freed, first = sum(e.freed for e in kept), min(e.offset for e in kept)
        assert freed * 0.1 * 10 > (whole - freed - first) * (1.25 - 0.1)
    hard = View(**{**vars(view), "trigger": "hard"})
    assert len(pays(edits, hard)) == len(edits)
    assert all(e in edits for e in kept)


def test_a_view_knows_what_its_nodes_once_were_through_two_layers() -> None:
    talk, seqs = talk_of(("read", {"path": "a"}, BODY * 20), ("read", {"path": "a"}, BODY))
    view = planned(Budget(over=600, head=200, tail=80), view_of(talk.session))
    view = planned(Snip(keep_units=0), view)
    assert [n.seq for n in all_originals(view, view.nodes)] == [
        n.seq for n in talk.session.surface().nodes
    ]
    assert all(
        isinstance(n, (UserMessage, ToolResultEvent, AssistantMessage)) or n.seq for n in view.nodes
    )
    assert seqs[0] in {n.seq for n in all_originals(view, view.nodes)}
    assert profile().thinking == "none"
