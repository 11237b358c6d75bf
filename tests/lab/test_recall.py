"""What was needed and what was kept: counted by hand on small histories."""

from __future__ import annotations

from agent_kernel.core.events import SurfaceEvent
from agent_kernel.lab.behaviour import ops_of, window
from agent_kernel.lab.bootstrap import pooled, quantile
from agent_kernel.lab.given import Given
from agent_kernel.lab.histories import Boundary, History
from agent_kernel.lab.learn import drawn, folds, learn
from agent_kernel.lab.probes import answerable, ask, probes
from agent_kernel.lab.recall import case_of, ledger_of, measure, used_after
from tests.compaction.kit import Talk


def nodes(talk: Talk) -> list[SurfaceEvent]:
    return list(talk.session.surface().nodes)


def cut(talk: Talk, later: Talk) -> tuple[History, list[SurfaceEvent], list[SurfaceEvent]]:
    hidden, after = nodes(talk), nodes(later)
    return History("s", "agent_kernel", hidden), hidden, after


def worked() -> tuple[Talk, Talk]:
    talk, later = Talk(), Talk()
    talk.user("Never rename computeTotal in src/bill_total.py, please.")
    talk.step("read", {"path": "src/bill_total.py"}, "def computeTotal(): uses oldHelperName")
    talk.step("read", {"path": "src/other_file.py"}, "def neverUsedAgain()")
    talk.step("bash", {"command": "pytest -q"}, "2 failed: computeTotal", error=True)
    later.user("go on with other_file please, see src/other_file.py")
    later.step("edit", {"path": "src/bill_total.py", "old_string": "oldHelperName", "new": "x"}, "")
    later.step("read", {"path": "src/other_file.py"}, "neverUsedAgain")
    later.step("grep", {"pattern": "neverUsedAgain"}, "")
    return talk, later


def test_needed_is_what_an_input_says_before_anything_says_it_again(rooms: Given) -> None:
    talk, later = worked()
    _, hidden, after = cut(talk, later)
    known = {(f.kind, f.norm) for f in rooms.facts_of(rooms.said(hidden))}
    used = used_after(after, known, rooms)
    # other_file: the person said it again; neverUsedAgain: a result did, before the grep
    assert used == {("path", "src/bill_total.py"): 1, ("identifier", "oldHelperName"): 1}
    assert used_after(after, known, rooms, ops=0) == {}


def test_keys_of_inputs_are_not_needed_facts(rooms: Given) -> None:
    later = Talk()
    later.user("go")
    later.step("odd", {"someCamelKey": "x", "deep": {"innerCamelKey": ["y"]}}, "")
    known = {("identifier", "someCamelKey"), ("identifier", "innerCamelKey")}
    assert used_after(nodes(later), known, rooms) == {}


def test_an_artefact_is_measured_by_hand(rooms: Given) -> None:
    talk, later = worked()
    history, hidden, after = cut(talk, later)
    boundary = Boundary(len(hidden), 0, 1, "auto", "It changed bill/src/bill_total.py.")
    one = case_of(history, boundary, hidden, after, rooms)
    found = measure(one, boundary.summary, rooms, set())
    assert dict(found.wanted) == {"path": 1, "identifier": 1, "hash": 0}
    assert dict(found.hits) == {"path": 1, "identifier": 0, "hash": 0}
    assert found.sentences == (0, 1)
    kept = measure(one, ledger_of(rooms, 500, rooms.ranks)(one), rooms, set())
    assert sum(kept.hits.values()) == 2
    assert kept.sentences == (1, 1)
    assert kept.chars <= 500 * 2.75


def test_a_read_again_and_a_read_after_an_edit_are_kept_apart() -> None:
    talk = Talk()
    talk.user("go")
    for path in ("a_one.py", "b_two.py"):
        talk.step("read", {"path": path}, "text of it")
    talk.step("edit", {"path": "b_two.py"}, "ok")
    talk.step("bash", {"command": "x"}, "boom at line 12", error=True)
    for path in ("a_one.py", "a_one.py", "b_two.py", "c_new.py"):
        talk.step("read", {"path": path}, "text of it")
    talk.step("bash", {"command": "x"}, "boom at line 77", error=True)
    history = History("s", "agent_kernel", nodes(talk))
    seen = window(history, ops_of(history), 0, 4)
    assert (seen.ops, seen.rereads, seen.reread_after_edit, seen.repeated_errors) == (5, 1, 1, 1)
    assert seen.regret_tokens > 0


# ---- resampling and learning --------------------------------------------------------------------


def test_an_interval_is_of_sessions_not_of_rows() -> None:
    rows = [("a", 1.0, 1.0)] * 50 + [("b", 0.0, 1.0)] * 50
    rate = pooled(rows)
    assert (rate.value, rate.n, rate.sessions) == (0.5, 100.0, 2)
    assert (rate.low, rate.high) == (0.0, 1.0)
    assert pooled(rows) == rate
    assert pooled([("a", 1.0, 2.0)]).low is None
    assert pooled([]).value is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0


def test_a_session_and_its_copies_are_in_one_fold() -> None:
    history = History("abc.copy2", "claude_code")
    assert history.group == "abc"
    names = [f"s{n}" for n in range(11)]
    made = folds(names)
    assert made == folds(list(reversed(names)))
    assert sorted(set(made.values())) == [0, 1, 2, 3, 4]


def test_weights_are_measured_on_sessions_they_were_not_chosen_on(rooms: Given) -> None:
    talk, later = worked()
    cases = []
    for name in ("a", "b", "b.copy1", "c", "d", "e"):
        history, hidden, after = cut(talk, later)
        history.session = name
        boundary = Boundary(len(hidden), 0, 1, "auto", "")
        cases.append(case_of(history, boundary, hidden, after, rooms))
    seen: dict[str, set[int]] = {}

    def text(one: object, rank: object) -> str:
        seen.setdefault(getattr(one, "session", ""), set()).add(id(rank))
        return "oldHelperName"

    found = learn(cases, text, rooms.ranking, rooms.weights, rooms, set(), trials=12)
    assert len(found.held_out) == len(cases)
    assert found.inside == 0.5
    assert set(found.weights) == set(rooms.weights)
    assert drawn(rooms.weights, 3) == drawn(rooms.weights, 3)
    assert drawn(rooms.weights, 3)[0] == dict(rooms.weights)


# ---- probes -------------------------------------------------------------------------------------


async def test_probes_have_answers_in_the_log_and_right_is_told_from_wrong() -> None:
    talk = Talk()
    talk.user("go")
    talk.step("edit", {"path": "src/deep/bill_total.py"}, "ok")
    talk.step("bash", {"command": "pytest -q"}, "FAILED test_it", error=True)
    talk.user("No, do not touch the table; change the view instead.")
    talk.step("edit", {"path": "src/deep/view_file.py"}, "ok")
    talk.step("bash", {"command": "pytest -q"}, "1 passed")
    talk.step("todo", {"items": [{"text": "write the docs", "status": "open"}]}, "ok")
    found = probes("s", nodes(talk))
    assert {p.kind for p in found} == {"file", "failing test", "fix", "rejected", "open task"}
    full = "\n".join(str(n) for n in nodes(talk))
    assert all(answerable(p, full) for p in found)
    assert not any(answerable(p, "nothing") for p in found)
    assert all(p.seqs for p in found)

    async def knows(context: str, _question: str) -> str:
        return context

    rates = await ask(found, {"full": lambda _: full, "none": lambda _: "unknown"}, knows)
    assert rates == {"full": (len(found), 0, len(found)), "none": (0, len(found), len(found))}
