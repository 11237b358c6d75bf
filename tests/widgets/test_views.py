from __future__ import annotations

import pytest

from agent_kernel.core.actions import Ask, Attach, Call, Compact, Drain, End, RunBatch, Wait
from agent_kernel.core.events import (
    Attachment,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    CompactionUndo,
    Event,
    TaskCreated,
    ToolCall,
)
from agent_kernel.core.messages import Message, Usage
from agent_kernel.core.model import Request, SystemText, ToolSchema, place_marks
from agent_kernel.core.surface import fold
from agent_kernel.widgets import (
    ALL,
    compaction,
    context,
    logview,
    request,
    stepper,
    surface,
    tasks,
    tree,
    units,
)
from agent_kernel.widgets.bundle import of_blocks
from agent_kernel.widgets.doc import Block
from tests.widgets import turns

READ = ToolSchema("read", "Reads a file.", {"type": "object"})
BASH = ToolSchema("bash", "Runs a command.", {"type": "object"})
SYSTEM = (SystemText("identity", "You help."), SystemText("rules", "Be brief."))


def plain(blocks: list[Block]) -> str:
    """The blocks as text/plain."""
    return str(of_blocks(blocks)["text/plain"])


def made(*texts: str, tools: tuple[ToolSchema, ...] = (READ,), **more: object) -> Request:
    """A request of alternating messages."""
    roles = ("user", "assistant")
    messages = tuple(Message(roles[at % 2], text) for at, text in enumerate(texts))  # type: ignore[arg-type]
    marks = place_marks(SYSTEM, messages, None)
    return Request("m", messages, SYSTEM, tools, marks=marks, **more)  # type: ignore[arg-type]


def compacted() -> list[Event]:
    """The events of the compaction of design's example."""
    own = {"compaction_id": "c812", "turn": 5}
    tokens = {"pre": 161_204, "window": 200_000, "soft": 120_000, "hard": 160_000}
    cost = {
        "rewrite_tokens": 34_410,
        "rewrite_usd": 0.215,
        "call_usd": 0.157,
        "break_even_requests": 6.4,
    }
    edits = ({"start": 14, "end": 790, "before": 120_074, "after": 4_300},)
    return [
        CompactionStart(
            **own, trigger="hard", strategies=("auto",), generation=3, tokens=tokens, seq=812
        ),
        CompactionSummary(
            **own,
            attempt=1,
            depth=1,
            hidden=(14, 15, 790),
            hidden_tokens=120_074,
            text="## Intent\n\nFind out why.",
            usage=Usage(900, 2_903, 160_100, 0, 0),
        ),
        CompactionPrune(
            **own, layer="auto", edits=edits, freed=115_774, first_offset=11_020, reason="over hard"
        ),
        Attachment(
            kind="summary", label="summary c812", content="kept", meta={"compaction_id": "c812"}
        ),
        CompactionEnd(
            **own,
            status="committed",
            generation=4,
            tokens={"post": 45_430, "freed": 115_774},
            cost=cost,
            dropped={"facts": 212},
        ),
    ]


def test_all_names_every_view() -> None:
    assert set(ALL) == {
        "turn", "approval", "tasks", "stepper", "context", "request", "difference", "surface",
        "log", "compaction", "samples", "tree", "xray",
    }  # fmt: skip


# ---- context -------------------------------------------------------------------------------------


def test_block_tokens_sum_to_the_count_of_the_provider() -> None:
    nodes = fold(turns.finished()).nodes
    parts = context.parts_of(made("a"), nodes, total=12_345, cached=9_000)
    assert sum(part.tokens for part in parts) == 12_345
    assert sum(part.tokens for part in parts if part.cached) <= 9_000
    assert [part.source for part in parts[:3]] == ["T", "S", "S"]


def test_the_x_ray_says_shares_cache_and_what_would_go() -> None:
    parts = [
        context.Part("S", "identity", 2_000, cached=True),
        context.Part("R", "result of read a.py", 6_000, seq=88, age=2, layer="micro"),
        context.Part("U", "hello", 2_000, seq=90, values=True),
    ]
    view = context.view(parts, window=200_000, soft=120_000, hard=160_000, counted=True)
    text = plain(view)
    assert "10,000 tokens, 5 % of 200.0k" in text
    assert "soft mark 120.0k, hard mark 160.0k" in text
    assert "R tool results       1   6,000   60.0 %       0     6,000  micro" in text
    assert "1 block with data values" in text


# ---- request -------------------------------------------------------------------------------------


def test_a_request_shows_model_system_tools_and_messages() -> None:
    text = plain(request.view(made("hello", "hi"), label="1.2", sent=False))
    assert text.startswith("Request 1.2  not sent")
    assert "identity" in text
    assert "Tools, 1" in text
    assert "0 user" in text


def test_the_raw_body_is_the_bytes_that_are_sent() -> None:
    one = made("hello")
    assert request.raw(one).encode() == one.body


@pytest.mark.parametrize(
    "other, layer, message",
    [
        (made("a", "b", "c"), "", None),
        (made("a", tools=(READ, BASH)), "tools", None),
        (made("a", max_tokens=99), "settings", None),
        (made("x"), "messages", 0),
    ],
)
def test_a_difference_names_its_layer(other: Request, layer: str, message: int | None) -> None:
    found = request.compare(made("a"), other)
    assert (found.layer, found.message) == (layer, message)
    if found.byte is not None:
        a, b = made("a").prefix, other.prefix
        assert a[: found.byte] == b[: found.byte]
        assert a[found.byte] != b[found.byte]


def test_a_difference_shows_the_bytes_around_and_the_cause() -> None:
    cause = "compaction c812 put a summary where turn 1 began"
    view = request.difference(made("Why"), made("Sum"), labels=("5.2", "5.3"), cause=cause)
    text = plain(view)
    assert "First differing byte " in text
    assert "in messages, message 0." in text
    assert f"Cause: {cause}" in text
    assert "−message 0 user" in text


# ---- surface, log, stepper -----------------------------------------------------------------------


def test_the_surface_lists_what_the_model_sees_and_what_it_hides() -> None:
    nodes = fold(turns.finished()).nodes
    gone = {nodes[0].seq: [3, 9]}
    text = plain(surface.view(nodes, hidden_by=lambda seq: gone.get(seq, []), at=120))
    assert "What the model sees at seq 120" in text
    assert "3-9" in text


def test_a_long_surface_shows_its_ends() -> None:
    node = fold(turns.finished()).nodes[0]
    text = plain(surface.view([node] * 500))
    assert "300 more events" in text


def test_the_log_shows_its_last_events() -> None:
    events = turns.finished()
    text = plain(logview.view(events, path="a.agent.jsonl", limit=3))
    assert f"{len(events)} events, the last 3 shown" in text
    assert "turn/end" in text


@pytest.mark.parametrize(
    "action, words",
    [
        (Drain((1, 2)), "read 2 waiting items from the inbox"),
        (Attach(("git",)), "attach what changed: git"),
        (Compact("hard"), "compact the context, trigger hard"),
        (Call(), "send the next request"),
        (Ask("toolu_077f21"), "wait for your decision on bash 077f21"),
        (RunBatch(("toolu_077f21",)), "run bash 077f21, then send a request with the results"),
        (Wait(("a1",)), "wait for 1 background agent"),
        (End("completed"), "end the turn, reason completed"),
        (End(None), "nothing, no turn is open"),
    ],
)
def test_the_next_action_is_said_in_words(action: object, words: str) -> None:
    call = ToolCall(id="toolu_077f21", name="bash", input={"command": "ls"}, input_hash="0")
    assert stepper.words(action, {call.id: call}) == words  # type: ignore[arg-type]


def test_the_stepper_shows_the_exact_call_and_the_exact_request() -> None:
    call = ToolCall(id="toolu_077f21", name="bash", input={"command": "make a"}, input_hash="0")
    view = stepper.view(
        RunBatch((call.id,)),
        {call.id: call},
        next_request=made("a"),
        label="3.4",
        stopped_by="break tool:bash",
        price=(0.019, 0.142),
    )
    text = plain(view)
    assert "stopped by break tool:bash" in text
    assert "bash make a" in text
    assert "$0.019 to $0.142" in text
    assert '%agent answer 077f21 "text"' in text


# ---- compaction, tasks, tree ---------------------------------------------------------------------


def test_the_compaction_card_says_before_after_cost_and_how_to_undo() -> None:
    text = plain(compaction.view(compacted()))
    assert text.startswith("Compaction c812: 161.2k to 45.4k tokens  over the hard mark of 160.0k")
    assert "−115,774" in text
    assert "3 events, seq 14 to 790. All kept in the log, each can be recalled." in text
    assert "summary call $0.157, rewriting 34,410 cached tokens $0.215" in text
    assert "after 6.4 requests" in text
    assert "212 facts" in text
    assert "%agent undo compaction c812" in text


def test_a_compaction_that_was_undone_says_so() -> None:
    undo = CompactionUndo(compaction_id="c812", restores=(), generation=5)
    assert "Undone later" in plain(compaction.view([*compacted(), undo]))


def test_an_unknown_compaction_names_those_there_are() -> None:
    with pytest.raises(KeyError, match="c812"):
        compaction.view(compacted(), "c1")
    assert "No compaction yet" in plain(compaction.view([]))


def test_the_task_panel_says_state_and_last_words() -> None:
    text = plain(tasks.view(*turns.tasks()))
    assert text.startswith("Waiting for 1 of 3 tasks")
    assert "finished, exit 0" in text
    assert "lost: the kernel restarted at 10:12. Nothing runs again by itself." in text


def test_a_tree_is_drawn_with_lines() -> None:
    node = tree.Node(
        "T1 Why",
        "4 steps",
        children=(
            tree.Node("T3 main: Add a column", "5 steps", children=(tree.Node("T4 Write"),)),
            tree.Node("T3 with-currency", here=True),
        ),
    )
    lines = plain(tree.view([node])).splitlines()
    assert [line.strip() for line in lines[1:5]] == [
        "T1 Why  4 steps",
        "├─ T3 main: Add a column  5 steps",
        "│  └─ T4 Write",
        "└─ ● T3 with-currency (you are here)",
    ]


def test_agents_stand_under_the_agent_that_started_them() -> None:
    events = [
        TaskCreated(id="a1", kind="agent", label="reviewer"),
        TaskCreated(id="a2", kind="agent", label="helper", agent="a1"),
    ]
    root = tree.agents(events)
    assert root.children[0].label == "a1 reviewer"
    assert root.children[0].children[0].label == "a2 helper"


@pytest.mark.parametrize(
    "value, words",
    [(8.4, "8.4 s"), (134, "2 min 14 s"), (3_845, "1 h 04 min"), (99.99, "1 min 40 s")],
)
def test_durations_are_said_in_the_unit_that_fits(value: float, words: str) -> None:
    assert units.seconds(value) == words


def test_a_price_that_is_not_zero_never_reads_as_zero() -> None:
    assert units.dollars(0.00001) == "under $0.001"
    assert units.dollars(0) == "$0.000"
    assert units.dollars(12.4) == "$12.40"


def test_tokens_are_short_in_footers() -> None:
    assert [units.short(n) for n in (96, 400, 18_200, 999_999)] == ["96", "0.4k", "18.2k", "1.0M"]
