from __future__ import annotations

import json
import time

import pytest

from agent_kernel.core.events import (
    CompactionEnd,
    CompactionStart,
    StepEnd,
    StreamRetry,
    ToolDecision,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Usage
from agent_kernel.widgets.fold import fold_turn
from agent_kernel.widgets.turnview import Ask, Live, Replayed, TurnView
from tests.widgets import turns
from tests.widgets.turns import Story, use


def words(view: TurnView) -> dict[str, str]:
    """The state word of each call row, by the tool's name."""
    return {row["name"]: row["word"] for row in view["items"] if row["kind"] == "call"}


def said(view: TurnView) -> str:
    """All words of a turn's banners."""
    lines = (line for note in view["notes"] for line in note["lines"])
    return " ".join("".join(text for _, text in line) for line in lines)


def test_a_view_is_plain_json() -> None:
    events, live = turns.asking()
    view = fold_turn(events, live)
    assert json.loads(json.dumps(view)) == view


def test_a_streaming_turn_shows_rows_text_so_far_and_the_running_tail() -> None:
    view = fold_turn(*turns.streaming(), price=turns.price, window=turns.WINDOW)
    assert view["state"] == "running"
    assert words(view) == {"read": "done", "edit": "done", "bash": "running"}
    bash = next(row for row in view["items"] if row.get("name") == "bash")
    assert bash["body"]["tail"][-1] == "tests/test_regions.py ...."
    assert bash["open"]
    assert view["items"][-1]["streaming"]
    assert view["answer"] == turns.ANSWER
    assert view["head"] is not None
    assert view["head"]["note"] == "step 3"
    assert [action["type"] for action in view["head"]["actions"]] == ["background", "stop"]


def test_a_row_names_the_main_argument_and_the_lines_that_were_read() -> None:
    view = fold_turn(*turns.streaming())
    read = next(row for row in view["items"] if row.get("name") == "read")
    assert (read["arg"], read["cut"], read["size"]) == ("src/app.py 1-80", "middle", "812 tokens")
    assert read["body"]["more"] == "66 more lines, all sent to the model"


def test_an_edit_shows_its_diff_with_line_numbers() -> None:
    view = fold_turn(*turns.streaming())
    edit = next(row for row in view["items"] if row.get("name") == "edit")
    rows = edit["body"]["diff"]
    assert rows[0] == [None, None, "@", "@@ net_by_region, line 41"]
    assert rows[2][:3] == [42, None, "-"]
    assert rows[-1][:3] == [43, 45, " "]


def test_neighbouring_finished_calls_become_a_group() -> None:
    view = fold_turn(turns.finished())
    group = next(row for row in view["items"] if row["kind"] == "group")
    assert group["name"] == "5 calls: todo, 3 read, grep"
    assert group["size"] == "2,000 tokens"


def test_the_last_rows_of_a_running_turn_stay_out_of_a_group() -> None:
    events = turns.finished()[:-4]
    live = Live(now=events[-1].time)
    loose = [row for row in fold_turn(events, live)["items"] if row["kind"] == "call"]
    assert loose


def test_the_footer_says_time_steps_tokens_price_and_context() -> None:
    view = fold_turn(turns.finished(), price=turns.price, window=turns.WINDOW)
    assert view["footer"] == [
        "4.7 s",
        "2 steps",
        "in 9.0k (91 % cached)",
        "out 0.6k",
        "$0.010",
        "context 2 %",
    ]


def test_an_unknown_price_is_said_and_never_guessed() -> None:
    assert "price unknown" in fold_turn(turns.finished())["footer"]
    story = Story().begin().say("a").say("b", model="other")
    footer = fold_turn(story.end(), price=turns.price)["footer"]
    assert "at least $0.005, price unknown of 1 request" in footer


def test_unknown_tokens_are_said() -> None:
    story = Story().begin().say("a", input=None, output=None)  # type: ignore[arg-type]
    assert "tokens unknown" in fold_turn(story.end())["footer"]


def test_the_demo_provider_says_what_it_is() -> None:
    footer = fold_turn(turns.demo(), price=turns.price)["footer"]
    assert "demo provider: fixed rules, no language model" in footer
    assert not any("price" in part for part in footer)


def test_a_replayed_turn_names_what_is_missing_and_costs_nothing() -> None:
    replayed = Replayed(missing=("net",), changed=("src/app.py, 2 lines",), calls=2)
    view = fold_turn(turns.finished(), price=turns.price, replayed=replayed)
    assert said(view).startswith("Replayed from the log of 14 Nov 2026, 10:42 UTC.")
    assert "Missing in this kernel: net." in said(view)
    assert [a["type"] for a in view["notes"][0]["actions"]] == ["replay_python", "fresh"]
    assert view["footer"] == ["replayed", "4.7 s then", "2 steps", "$0.010 then", "$0.000 now"]


def test_a_failed_turn_names_step_cause_and_what_was_kept() -> None:
    view = fold_turn(turns.failed())
    assert view["state"] == "failed"
    assert said(view) == (
        "Turn failed at step 3: the provider was overloaded (529) five times in 62 s; "
        "2 whole steps kept, nothing else ran."
    )
    assert view["notes"][0]["role"] == "alert"
    assert words(view) == {"read": "done", "bash": "failed"}


def test_a_denied_call_names_who_and_why() -> None:
    view = fold_turn(turns.denied())
    row = next(row for row in view["items"] if row["kind"] == "call")
    assert row["word"] == "denied"
    assert row["body"]["notes"][0] == [["t", "denied by you"], ["t", ": not on a Friday"]]


def test_an_interrupted_turn_says_whose_outcome_is_unknown() -> None:
    view = fold_turn(turns.interrupted())
    assert view["state"] == "stopped"
    assert words(view) == {"bash": "outcome unknown"}
    assert "outcome unknown of bash sh0001" in said(view)
    assert view["footer"][0] == "stopped by you"


def test_a_call_that_never_started_is_said_to_have_never_run() -> None:
    events, _ = turns.asking()
    assert set(words(fold_turn(events)).values()) == {"was waiting"}
    story = Story().begin().say(use("9", "read", path="a"))
    assert words(fold_turn(story.events)) == {"read": "never ran"}


def test_an_edited_input_is_the_one_that_is_shown() -> None:
    story = Story().begin().say(use("8", "bash", command="rm -rf ."))
    call = "toolu_8"
    edited = {"command": "ls"}
    story.add(ToolDecision, id=call, verdict="allow", by="person", edited_input=edited)
    row = fold_turn(story.ran(call, "a").end())["items"][0]
    assert row["arg"] == "ls"
    assert row["body"]["notes"][0] == [["t", "input edited by you before it ran"]]


def test_a_retry_is_said_while_it_waits() -> None:
    story = Story().begin()
    story.add(StreamRetry, n=1, error="overloaded", status=529, wait=4.0)
    head = fold_turn(story.events, Live(now=story.now))["head"]
    assert head is not None
    assert head["title"] == "Trying again in 4 s: overloaded (529)"


def test_silence_is_counted_from_what_was_last_heard() -> None:
    story = Story().begin()
    head = fold_turn(story.events, Live(now=story.now + 40, heard=story.now + 5))["head"]
    assert head is not None
    assert head["quiet"] == pytest.approx(35)


def test_steering_and_compaction_stand_where_they_happened() -> None:
    story = Story().begin()
    story.say("one")
    story.add(StepEnd)
    story.add(UserMessage, content="in euro please")
    tokens = {"pre": 161_204}
    given = {"compaction_id": "c1", "trigger": "hard", "strategies": ("auto",), "generation": 1}
    story.add(CompactionStart, **given, tokens=tokens)
    done = {"compaction_id": "c1", "status": "committed", "generation": 2}
    story.add(CompactionEnd, **done, tokens={"post": 45_430})
    story.say("two")
    kinds = [(row["kind"], row.get("word")) for row in fold_turn(story.end())["items"]]
    assert kinds == [("text", None), ("note", "you"), ("note", "compaction"), ("text", None)]


def test_the_todo_list_is_the_last_accepted_one_and_names_what_blocks() -> None:
    todo = fold_turn(turns.finished())["todo"]
    assert [item["status"] for item in todo] == ["done", "active", "pending"]
    assert todo[2]["blocked"] == "2"


def test_a_turn_that_waits_for_tasks_offers_to_detach() -> None:
    view = fold_turn(*turns.tasks(), price=turns.price)
    assert view["head"] is not None
    assert view["head"]["title"] == "Waiting for 1 of 3 tasks"
    assert [a["type"] for a in view["head"]["actions"]] == ["detach", "stop"]
    assert [(t["id"], t["word"]) for t in view["tasks"]] == [
        ("a41e07", "running"),
        ("b3f19c", "finished"),
        ("b70d22", "lost"),
    ]
    assert any(part.startswith("agents: in 30.9k") for part in view["footer"])


def test_a_turn_without_events_is_refused() -> None:
    with pytest.raises(ValueError, match="turn/start"):
        fold_turn([])


def test_what_another_agent_did_stands_under_its_own_name_only() -> None:
    events, live = turns.tasks()
    assert "…" not in fold_turn(events, live)["answer"]


# ---- approvals -----------------------------------------------------------------------------------


def test_an_approval_shows_the_exact_command_with_hidden_characters_boxed() -> None:
    card = fold_turn(*turns.asking())["approvals"][0]
    assert card["title"] == "High risk: run this bash command?"
    assert card["shown"] is not None
    boxed = [text for kind, text in card["shown"]["head"] if kind == "x"]
    assert boxed == ["ESC", "CR", "U+202E right-to-left", "U+202C end"]
    assert card["bullets"][-1][0] == ["t", "Holds 4 characters that may hide text: "]
    assert not any(choice.get("primary") for choice in card["choices"])


def test_a_long_command_is_folded_in_three_parts_and_never_cut() -> None:
    card = fold_turn(*turns.asking())["approvals"][1]
    shown = card["shown"]
    assert shown is not None
    parts = [shown["head"], shown["middle"], shown["tail"]]
    assert [len(part[0][1]) for part in parts] == [300, len(turns.LONG) - 460, 160]
    assert "".join(part[0][1] for part in parts) == turns.LONG
    assert [["t", "Asks for: "], ["c", "rm -rf cache/weekly-*"]] in card["bullets"]


def test_python_is_first_asked_for_the_whole_turn() -> None:
    card = fold_turn(*turns.asking())["approvals"][2]
    assert card["choices"][0] == {
        "type": "approve",
        "label": "Allow Python for this turn",
        "primary": True,
        "send": {"scope": "turn"},
    }
    assert card["bullets"][0][0][1].startswith("It can do whatever you can")
    assert card["commands"][0] == "%agent approve 0790aa --turn"


def test_a_stale_approval_offers_a_new_diff_and_no_edit() -> None:
    card = fold_turn(*turns.asking())["approvals"][3]
    assert card["word"] == "stale"
    assert [choice["type"] for choice in card["choices"]] == ["rediff", "approve"]
    assert [row[2] for row in card["diff"]] == ["-", "+"]


def test_an_approval_without_a_kernel_carries_no_nonce() -> None:
    events, _ = turns.asking()
    assert {card["nonce"] for card in fold_turn(events)["approvals"]} == {""}
    assert all(card["answered"] for card in fold_turn(events)["approvals"])


def test_only_rules_that_would_load_are_offered() -> None:
    cards = fold_turn(*turns.asking())["approvals"]
    assert cards[0]["rules"] == ["Bash(curl -fsSL *)"]
    assert "rules" not in [choice["type"] for choice in cards[2]["choices"]]


def test_an_approval_of_another_tool_shows_its_whole_input() -> None:
    story = Story().begin().say(use("5", "mcp__db__run", table="t", rows=3))
    from agent_kernel.core.events import ToolAsk

    story.add(ToolAsk, id="toolu_5", stage="base")
    asks = {"toolu_5": Ask("n", "h")}
    card = fold_turn(story.events, Live(now=story.now, asks=asks))["approvals"][0]
    assert card["shown"] is not None
    assert json.loads(card["shown"]["head"][0][1]) == {"table": "t", "rows": 3}


def test_a_long_turn_folds_fast_enough_to_be_shown_ten_times_a_second() -> None:
    story = Story().begin()
    text = "\n".join(f"line {n} of a result" for n in range(2_000))
    for n in range(200):
        story.say("I go on.", use(f"c{n:06}", "bash", command=f"echo {n}"))
        story.ran(f"toolu_c{n:06}", text)
    events = story.events
    live = Live(now=story.now, text="word " * 2_000)
    fold_turn(events, live)
    began = time.perf_counter()
    fold_turn(events, live)
    assert time.perf_counter() - began < 0.08


def test_usage_of_a_turn_is_the_sum_of_its_requests() -> None:
    story = Story().begin()
    for _ in range(3):
        story.say("x", input=1_000, output=10, cache_read=9_000)
    footer = fold_turn(story.end(), price=lambda _model, usage: usage.total / 1e6)["footer"]
    assert "in 30.0k (90 % cached)" in footer
    assert Usage(1, 2).total == 3
    assert "$0.030" in footer


def test_events_may_begin_without_a_turn_start() -> None:
    events = [event for event in turns.finished() if not isinstance(event, TurnStart)]
    assert fold_turn(events)["state"] == "done"
