"""Panels: what x-ray, stepper, compaction card and difference say equals the log."""

from __future__ import annotations

import json
import re

import pytest

from agent_kernel.core.actions import Ask, Call, RunBatch
from agent_kernel.core.events import AssistantMessage, ToolCall
from agent_kernel.core.replay import request_at, requests
from agent_kernel.widgets import anywidgets, compaction, panels, request, stepper, xray, xray_view
from agent_kernel.widgets.bundle import of_blocks
from tests.widgets import sessions

SOURCE = '<img src=x onerror="alert(1)"></script>'


def rays(**more) -> xray.Xray:
    session, _agent = sessions.worked()
    following = xray.Next(sessions.following(), session.surface().nodes, more.pop("layer", {}))
    return xray.state(session.events, following=following, window=20_000, **more)


def test_the_tokens_of_every_request_sum_to_the_providers_count_and_equal_the_log() -> None:
    session, _agent = sessions.worked()
    state = rays()
    answers = [e for e in session.events if isinstance(e, AssistantMessage)]
    rows = state["rows"]
    assert [row["label"] for row in rows[:-1]] == [f"{e.turn}.{e.step}" for e in answers]
    for row, answer in zip(rows, answers, strict=False):
        usage = answer.usage
        assert row["counted"] and row["total"] == usage.input + usage.cache_read
        assert sum(line[1] for line in row["blocks"]) == row["total"]
        assert sum(line[2] for line in row["blocks"]) == row["cached"] == usage.cache_read
        turn, step = map(int, row["label"].split("."))
        _context, made = request_at(session.events, turn, step)
        assert len(row["blocks"]) >= len(made.tools) + len(made.system)
    assert rows[-1]["next"] and not rows[-1]["counted"]


def test_the_first_changed_byte_is_that_of_the_requests_and_names_the_compaction() -> None:
    session, _agent = sessions.worked()
    broken = [row for row in rays()["rows"] if row["broken"]]
    assert [row["label"] for row in broken] == ["4.1"]
    (found,) = [row["broken"] for row in broken]
    old, new = (request_at(session.events, *at)[1].prefix for at in ((3, 3), (4, 1)))
    at = next(n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    assert found["byte"] == at and found["where"].startswith("messages, message 0")
    assert "a compaction (seq" in found["cause"]
    assert broken[0]["mark"].startswith("compaction c")


def test_what_a_layer_would_take_and_the_age_of_a_block_are_told() -> None:
    session, _agent = sessions.worked()
    node = next(n for n in session.surface().nodes if n.type == "tool/result")
    state = rays(layer={node.seq: "micro"})
    last = state["rows"][-1]
    gone = [line for line in last["blocks"] if len(line) > 4]
    assert [state["blocks"][line[0]][2] for line in gone] == [node.seq]
    text = str(of_blocks(xray_view.view(state))["text/plain"])
    assert "micro" in text and "Context of the next request" in text
    newest = state["blocks"][last["blocks"][-1][0]]
    assert newest[0] == "U" and last["blocks"][-1][3] == 0


def test_many_requests_are_the_last_forty_and_the_rest_is_counted() -> None:
    session, _agent = sessions.worked()
    many = xray.sent(session.events)
    assert len(many) == 12
    keep = xray.ROWS
    try:
        xray.ROWS = 5
        state = xray.state(session.events)
    finally:
        xray.ROWS = keep
    assert len(state["rows"]) == 5 and state["left_out"] == 7
    assert "7 earlier requests" in str(of_blocks(xray_view.view(state))["text/plain"])
    assert xray.state([])["rows"] == [] and "No request yet" in str(
        of_blocks(xray_view.view(xray.state([])))
    )


def test_the_card_of_a_compaction_adds_up() -> None:
    session, _agent = sessions.worked()
    state = compaction.state(session.events)
    rows = {row[0]: row for row in state["rows"]}
    assert sum(row[2] for row in rows.values()) == state["before"]
    assert sum(row[3] for row in rows.values()) == state["after"]
    assert rows["S"][2] == rows["S"][3] and rows["T"][2] == rows["T"][3], "they were not touched"
    hidden = next(fold for fold in state["folds"] if fold["title"].startswith("Hidden"))
    assert hidden["meta"] == f"{sum(row[4] for row in rows.values())} events"
    assert state["live"] and state["title"].startswith(f"Compaction {state['id']}: ")
    with pytest.raises(KeyError, match="no compaction 'c0'"):
        compaction.state(session.events, "c0")
    assert not compaction.state(session.events, live=False)["live"]


def test_the_stepper_shows_the_exact_call_and_binds_a_click_to_this_stop() -> None:
    call = ToolCall(id="toolu_8c", name="bash", input={"command": SOURCE}, input_hash="x")
    state = stepper.state(RunBatch(("toolu_8c",)), {"toolu_8c": call}, key="k")
    assert state["calls"][0]["text"] == SOURCE and state["verb"] == "Run" and state["key"] == "k"
    assert stepper.state(Ask("toolu_8c"), {"toolu_8c": call}, key="k")["calls"]
    asked = stepper.state(Call(), {}, key="k", next_request=sessions.following(), label="5.1")
    assert asked["verb"] == "Step" and not asked["calls"]
    assert asked["facts"][0][0] == "Request 5.1" and asked["facts"][1][1] == [
        ["t", "price unknown"]
    ]
    assert [row[0] for row in asked["request"]] == ["system", "tools", "messages"]


def test_the_difference_of_two_requests_and_of_equal_ones() -> None:
    session, _agent = sessions.worked()
    sent = [made for _context, made in requests(session.events)]
    state = request.difference_state(sent[8], sent[9], labels=("3.3", "4.1"), cause="why")
    assert state["byte"] and state["rows"] and state["facts"][1] == ("Cause", [["t", "why"]])
    assert state["same"] + state["rewritten"] > 0 and len(state["around"]) == 2
    same = request.difference_state(sent[8], sent[8], labels=("3.3", "3.3"))
    assert same["byte"] is None and same["note"] == "the same bytes" and not same["rows"]


@pytest.mark.parametrize("name", panels.NAMES)
def test_a_panels_module_is_whole_and_makes_no_markup_of_data(name: str) -> None:
    source = anywidgets.esm(name)
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "http:",
    ):
        assert word not in re.sub(r"//.*|SVG = .*", "", source), word
    assert source.count("export default") == 1
    made = panels.panel_class(name)
    assert made._esm == source and made.__name__ == f"{name.capitalize()}Panel"


def test_states_are_plain_json_of_a_bounded_size() -> None:
    session, _agent = sessions.worked()
    for state in (rays(), compaction.state(session.events)):
        assert json.loads(json.dumps(state)) == json.loads(json.dumps(state))
        assert len(json.dumps(state)) < 40_000
    with pytest.raises(KeyError, match="no panel is called 'nope'"):
        panels.panel_class("nope")
