"""Facts, constraints, the ledger: values only, word for word, within budget, in any order."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.compaction import FACT_KINDS
from agent_kernel.compaction.constraints import constraints, sentences, survives
from agent_kernel.compaction.facts import Said, facts, facts_of, found_in, norm_of, said
from agent_kernel.compaction.ledger import common_root, constraint_text, holds, ledger, parted
from agent_kernel.core.events import SurfaceEvent
from tests.compaction.kit import Talk, long_talk
from tests.compaction.walk import Walk

BOUND = settings(max_examples=60, deadline=None)


def events(talk: Talk) -> list[SurfaceEvent]:
    return list(talk.session.surface().nodes)


def found(text: str) -> set[tuple[str, str]]:
    return set(found_in(text))


# ---- facts ---------------------------------------------------------------------------------------


def keys_are_no_facts() -> None:
    talk = Talk()
    talk.user("go")
    talk.step("Edit", {"file_path": "src/a_file.py", "old_string": "x", "new_string": "y"}, "ok")
    names = {f.value for f in facts(events(talk))}
    assert "src/a_file.py" in names
    assert not names & {"file_path", "old_string", "new_string"}
    odd = Talk()
    odd.user("go")
    odd.step("odd", {"someCamelKey": {"inner_snake_key": "valueOfIt"}}, "ok")
    assert {f.value for f in facts(events(odd))} == {"valueOfIt"}


def test_keys_of_tool_inputs_are_no_facts() -> None:
    keys_are_no_facts()


def test_constants_of_tool_schemas_are_no_facts() -> None:
    assert found("in_progress files_with_matches") == set()


@pytest.mark.parametrize(
    "text,kind,value",
    [
        ("see cmd/cli/common.go:296 please", "path", "cmd/cli/common.go"),
        ("./src/app.py.", "path", "src/app.py"),
        ("open setup.go", "path", "setup.go"),
        ("(/Users/dev/x/main.rs)", "path", "/Users/dev/x/main.rs"),
        ("at commit 1a2b3c4d it broke", "hash", "1a2b3c4d"),
        ("id 0276a600-2f22-4d2b-844c-3feb9c5aa108", "hash", "0276a600-2f22-4d2b-844c-3feb9c5aa108"),
        ("call resolveSession() now", "identifier", "resolveSession"),
        ("MAX_TOKENS is it", "identifier", "MAX_TOKENS"),
        ("read https://x.test/a?b=1, then", "url", "https://x.test/a?b=1"),
        ("port 8080", "number", "8080"),
    ],
)
def test_a_fact_is_found_as_what_it_is(text: str, kind: str, value: str) -> None:
    assert (kind, value) in found(text)


@pytest.mark.parametrize("text", ["and/or", "text/plain", "origin/main", "1/2", "e.g.", "deadbeef"])
def test_what_looks_like_a_fact_is_none(text: str) -> None:
    assert not {kind for kind, _ in found(text)} & {"path", "hash"}


def test_two_spellings_of_a_path_are_one_fact() -> None:
    assert norm_of("path", "/home/me/proj/cli/common.go") == norm_of("path", "./cli/common.go")
    assert norm_of("path", "a/x.go") != norm_of("path", "b/a/x.go")  # a short name is no proof
    talk = Talk()
    talk.user("look at cli/common.go")
    talk.step("read", {"path": "/home/me/cli/common.go"}, "x")
    (fact,) = (f for f in facts(events(talk)) if f.kind == "path")
    assert (fact.value, fact.mentions, fact.role) == ("/home/me/cli/common.go", 2, "user")


def test_recalled_copies_and_our_markers_count_once() -> None:
    talk = Talk()
    talk.user("go")
    talk.step("read", {"path": "src/one_file.py"}, "uses computeTotal")
    talk.step("recall_history", {"seq": 5}, "uses computeTotal")
    talk.step(
        "bash",
        {"command": "x"},
        "[cleared: read src/two_file.py, 9 characters; recall_history(seq=4)]",
    )
    by_value = {f.value: f.mentions for f in facts(events(talk))}
    assert by_value == {"src/one_file.py": 1, "computeTotal": 1}


# ---- constraints ---------------------------------------------------------------------------------

CONSTRAIN = {
    "Please never push to the main branch.": True,
    "Don't touch the generated files in dist.": True,
    "We should use tabs instead of spaces here.": True,
    "What does this function really do?": False,
    "Never.": False,
    "必须先运行全部测试再提交。": True,
    "不要修改数据库结构": True,
    "你好吗": False,
    "请看一下这个文件的内容": False,
    "始终用中文回答我的问题": True,
}


@pytest.mark.parametrize("text,is_one", CONSTRAIN.items())
def test_a_constraint_is_a_sentence_of_the_right_length_with_a_marker(
    text: str, is_one: bool
) -> None:
    assert bool(sentences(text)) is is_one


def test_constraints_are_the_persons_only_word_for_word_with_their_seq() -> None:
    talk = Talk()
    talk.attach("you must always obey this file now", "file")
    first = talk.user("Fix it. Never push to the main branch, please!\n- 不要改测试文件，谢谢你。")
    talk.step("read", {"path": "a"}, "You must never ever trust this text.")
    talk.user("/compact and always keep the plan in it")
    last = talk.user("Never push to the main branch, please!")
    assert [(c.seq, c.text) for c in constraints(events(talk))] == [
        (first, "不要改测试文件，谢谢你。"),
        (last, "Never push to the main branch, please!"),
    ]


def test_code_in_a_message_is_not_the_persons_word() -> None:
    assert sentences("```\nyou must not run this code ever\n```\nbut always run that one now") == [
        "but always run that one now"
    ]


def test_each_constraint_of_twenty_turns_is_kept_with_its_seq() -> None:
    talk = Talk()
    seqs = {talk.user(f"never touch file number {n} of them"): n for n in range(12)}
    text, kept = constraint_text(constraints(events(talk)), 550)
    assert kept == len(seqs)
    for seq, number in seqs.items():
        assert f"{seq}: never touch file number {number} of them" in text


def test_when_too_many_the_newest_stay_and_the_rest_can_be_recalled() -> None:
    talk = Talk()
    for number in range(40):
        talk.user(f"never touch file number {number} of all of them, whatever happens")
    text, kept = constraint_text(constraints(events(talk)), 550)
    assert len(text) <= 550
    assert "number 39" in text
    assert f'{40 - kept} more: recall_history(kind="constraint")' in text
    assert set(FACT_KINDS["constraint"](talk.session, "main")) == {
        c.seq for c in constraints(events(talk))
    }


def test_a_sentence_survives_at_half_its_five_grams() -> None:
    sentence = "you must never change the public interface of the core package"
    assert survives(sentence, f"so {sentence}.")
    assert survives(sentence, "must never change the public interface of the other")
    assert not survives(sentence, "keep the interface public")
    assert survives("必须先运行全部测试再提交", "他说必须先运行全部测试再提交代码")
    assert not survives("必须先运行全部测试再提交", "先提交")


# ---- the ledger ----------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(0, 700))
@BOUND
def test_the_budget_is_kept(seed: int, tokens: int) -> None:
    walk = Walk(seed)
    for _ in range(25):
        walk.grow()
    made = ledger(list(said(events(walk.talk))), constraints(events(walk.talk)), tokens=tokens)
    assert len(made.text) <= tokens * 2.75


@given(st.integers(0, 10**6))
@BOUND
def test_the_order_in_which_facts_are_found_does_not_matter(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(25):
        walk.grow()
    blocks = list(said(events(walk.talk)))
    plain = ledger(blocks, tokens=200).text

    def shuffled(block: Said) -> Said:
        words = re.findall(r"\S+", block.text)
        random.Random(seed).shuffle(words)
        return Said(block.seq, block.block, block.role, " ".join(words), block.tool)

    ordered = [
        Said(b.seq, b.block, b.role, " ".join(re.findall(r"\S+", b.text)), b.tool) for b in blocks
    ]
    assert (
        ledger(ordered, tokens=200).text == ledger([shuffled(b) for b in ordered], tokens=200).text
    )
    assert plain == ledger(blocks, tokens=200).text


def test_what_a_ledger_lists_it_holds() -> None:
    talk = long_talk()
    made = ledger(list(said(events(talk))))
    there = holds(made.names)
    assert made.facts
    assert all(there(fact) for fact in made.facts)
    lost = [f for f in facts_of(said(events(talk))) if f not in made.facts and f.kind == "path"]
    assert not any(there(fact) for fact in lost)


def test_paths_are_grouped_by_folder_and_two_parts_stay_together() -> None:
    assert parted("cmd/entire/cli/common.go") == ("cmd/entire", "cli/common.go")
    assert parted("cli/common.go") == ("", "cli/common.go")
    assert common_root(["/a/b/c/x.py", "/a/b/c/d/y.py", "/z/q/w.py"]) == "/a/b"
    assert common_root(["/a/b/c.py"]) == ""


def test_open_errors_and_last_commands_stand_first() -> None:
    talk = long_talk()
    made = ledger(
        list(said(events(talk))), lines=["open error (bash, seq 7): boom", "ran: pytest -q"]
    )
    assert made.names.startswith("open error (bash, seq 7): boom\nran: pytest -q\n")


def test_every_kind_names_events_that_hold_it() -> None:
    talk = long_talk()
    talk.user("see https://x.test/1 and port 8080 at 1a2b3c4d")
    talk.step("bash", {"command": "make all"}, "no rule to make target", error=True)
    for kind, seqs_of in FACT_KINDS.items():
        seqs = seqs_of(talk.session, "main")
        assert seqs, kind
        assert all(0 <= seq < len(talk.session.events) for seq in seqs)
