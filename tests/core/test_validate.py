"""The validator: one passing and one failing list per rule and sub-rule, and what it costs."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.core.messages import Message, Text, ToolResult, ToolUse, message_of
from agent_kernel.core.model import ModelProfile, ToolSchema
from agent_kernel.core.validate import Violation, validate_messages

PLAIN = ModelProfile("claude-x", thinking="adaptive")
MANUAL = ModelProfile("claude-m", thinking="manual")
NONE = ModelProfile("local", thinking="none")
PREFILL = ModelProfile("claude-old", prefill=True)
MID = ModelProfile("claude-mid", mid_system=True)
READ = ToolSchema("read", "Read a file.", {"type": "object"})
SEARCH = ToolSchema("search", "Search.", {"type": "object"}, defer_loading=True)


def T(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def U(id: str = "t1", name: str = "read") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {"path": "a"}}


def R(id: str = "t1", content: Any = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def H(signature: Any = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def S(id: str = "srv1") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or [T()]}


def bot(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks) or [T()]}


def sys(*blocks: Any) -> dict[str, Any]:
    return {"role": "system", "content": list(blocks) or [T()]}


def C(**more: Any) -> dict[str, Any]:
    return {"type": "compaction", "content": "sum", "signature": "s", **more}


# (what, list, profile, keywords) -> no violation
PASSING: list[tuple[str, list[Any], ModelProfile, dict[str, Any]]] = [
    ("V1 one call, one result", [user(), bot(U()), user(R())], PLAIN, {}),
    (
        "V1 open call at the end of a list not yet sent",
        [user(), bot(U())],
        PLAIN,
        {"sendable": False},
    ),
    (
        "V2 results first, text after",
        [user(), bot(U(), U("t2")), user(R(), R("t2"), T())],
        PLAIN,
        {},
    ),
    ("V3 results only after a server call", [user(), bot(S(), U()), user(R())], PLAIN, {}),
    (
        "V3 a finished server call",
        [user(), bot(S(), {"type": "web_search_tool_result", "tool_use_id": "srv1"}, T()), user()],
        PLAIN,
        {},
    ),
    ("V4 roles alternate", [user(), bot(), user()], PLAIN, {}),
    ("V4 a leading compaction block", [bot(C(), T()), user()], PLAIN, {}),
    ("V5 prefill where it is allowed", [user(), bot()], PREFILL, {}),
    ("V5 a paused server turn is sent as it is", [user(), bot(T(), S())], PLAIN, {}),
    ("V5 ends in an allowed system", [user(), bot(), user(), sys()], MID, {}),
    ("V6 signed thinking in a loop", [user(), bot(H(), U()), user(R())], PLAIN, {}),
    (
        "V6 adaptive may stop thinking",
        [user(), bot(H(), U()), user(R()), bot(U("t2")), user(R("t2"))],
        PLAIN,
        {},
    ),
    ("V6 manual turn begins with thinking", [user(), bot(H(), U()), user(R())], MANUAL, {}),
    (
        "V6 manual: redacted thinking counts",
        [user(), bot({"type": "redacted_thinking", "data": "x"}, U()), user(R())],
        MANUAL,
        {},
    ),
    ("V6 manual: an older turn without", [user(), bot(U()), user(R()), bot(), user()], MANUAL, {}),
    ("V7 system after a user message", [user(), sys(), bot(), user()], MID, {}),
    ("V7 after the results", [user(), bot(U()), user(R()), sys(), bot(), user()], MID, {}),
    ("V8 four marks", [user(*[T("a", cache_control={}) for _ in range(4)])], PLAIN, {}),
    ("V9 first content", [bot(C()), user()], PLAIN, {}),
    ("V9 null is a no-op anywhere", [user(), bot(C(content=None), T()), user()], PLAIN, {}),
    (
        "V9 a threshold block in place",
        [user(), bot({"type": "compaction", "content": "s"}, T()), user()],
        PLAIN,
        {},
    ),
    (
        "V9 other edits",
        [bot(C()), user()],
        PLAIN,
        {"context_edits": [{"type": "clear_tool_uses_1"}]},
    ),
    (
        "V10 distinct ids",
        [user(), bot(U("a"), U("b")), user(R("a"), R("b"))],
        PLAIN,
        {"tools": [READ]},
    ),
    ("V10 string content", [{"role": "user", "content": "hello"}], PLAIN, {}),
    ("V10 an empty string as result", [user(), bot(U()), user(R(content=""))], PLAIN, {}),
    ("V10 no tools, no tool blocks", [user()], PLAIN, {"tools": []}),
    (
        "V11 names a deferred tool",
        [user(), bot(U()), user(R(content=[{"type": "tool_reference", "tool_name": "search"}]))],
        PLAIN,
        {"tools": [READ, SEARCH]},
    ),
]

# (what, list, profile, keywords, [(rule, severity, message, block, repair)])
FAILING: list[tuple[str, list[Any], ModelProfile, dict[str, Any], list[tuple[Any, ...]]]] = [
    (
        "V1 no result",
        [user(), bot(T(), U()), user()],
        PLAIN,
        {},
        [("V1", "api", 1, 1, "answer_open_calls")],
    ),
    (
        "V1 no result, list ends",
        [user(), bot(U())],
        PLAIN,
        {},
        [("V5", "api", 1, None, None), ("V1", "api", 1, 0, "answer_open_calls")],
    ),
    (
        "V1 partly answered, though not sendable",
        [user(), bot(U(), U("t2")), user(R())],
        PLAIN,
        {"sendable": False},
        [("V1", "api", 1, 1, "answer_open_calls")],
    ),
    (
        "V1 result twice",
        [user(), bot(U()), user(R(), R())],
        PLAIN,
        {},
        [("V1", "api", 2, 1, "drop_duplicate_result")],
    ),
    ("V1 orphan result", [user(R("t9"))], PLAIN, {}, [("V1", "api", 0, 0, "drop_orphan_result")]),
    (
        "V1 result too late",
        [user(), bot(U()), user(), bot(), user(R())],
        PLAIN,
        {},
        [("V1", "api", 1, 0, "answer_open_calls"), ("V1", "api", 4, 0, "drop_orphan_result")],
    ),
    (
        "V1 result in an assistant message",
        [user(), bot(R()), user()],
        PLAIN,
        {},
        [("V1", "api", 1, 0, "drop_orphan_result")],
    ),
    ("V1 call of a user", [user(U())], PLAIN, {}, [("V1", "api", 0, 0, None)]),
    (
        "V2 text before the result",
        [user(), bot(U()), user(T(), R())],
        PLAIN,
        {},
        [("V2", "api", 2, 1, "merge_results")],
    ),
    (
        "V2 split batch",
        [user(), bot(U(), U("t2")), user(R()), user(R("t2"))],
        PLAIN,
        {},
        [("V4", "house", 3, None, "merge_results"), ("V2", "house", 3, 0, "merge_results")],
    ),
    (
        "V3 text after a server call",
        [user(), bot(S()), user()],
        PLAIN,
        {},
        [("V3", "api", 2, 0, None)],
    ),
    ("V4 neighbours", [user(), user()], PLAIN, {}, [("V4", "house", 1, None, "merge_results")]),
    ("V4 first is the assistant", [bot(), user()], PLAIN, {}, [("V4", "house", 0, None, None)]),
    ("V5 prefill", [user(), bot()], PLAIN, {}, [("V5", "api", 1, None, None)]),
    ("V5 nothing", [], PLAIN, {}, [("V5", "api", 0, None, None)]),
    (
        "V6 no signature",
        [user(), bot(H(None), T()), user()],
        PLAIN,
        {},
        [("V6", "api", 1, 0, "strip_thinking")],
    ),
    (
        "V6 ends in thinking",
        [user(), bot(T(), H()), user()],
        PLAIN,
        {},
        [("V6", "api", 1, 1, "strip_thinking")],
    ),
    ("V6 of a user", [user(H(), T())], PLAIN, {}, [("V6", "api", 0, 0, "strip_thinking")]),
    (
        "V6 model without",
        [user(), bot(H(), T()), user()],
        NONE,
        {},
        [("V6", "house", 1, 0, "strip_thinking")],
    ),
    (
        "V6 manual turn without",
        [user(), bot(U()), user(R())],
        MANUAL,
        {},
        [("V6", "api", 1, 0, "strip_thinking")],
    ),
    (
        "V6 switched inside a turn",
        [user(), bot(U()), user(R()), bot(H(), U("t2")), user(R("t2"))],
        MANUAL,
        {},
        [("V6", "api", 1, 0, None)],
    ),
    ("V7 not allowed by the model", [user(), sys()], PLAIN, {}, [("V7", "api", 1, None, None)]),
    ("V7 first", [sys(), user()], MID, {}, [("V7", "api", 0, None, None)]),
    (
        "V7 after the assistant",
        [user(), bot(), sys(), user()],
        MID,
        {},
        [("V7", "api", 2, None, None)],
    ),
    (
        "V7 between a call and its result",
        [user(), bot(U()), sys(), user(R())],
        MID,
        {},
        [("V7", "api", 2, None, None)],
    ),
    (
        "V8 five marks",
        [user(*[T("a", cache_control={}) for _ in range(5)])],
        PLAIN,
        {},
        [("V8", "api", 0, 4, None)],
    ),
    (
        "V8 on thinking",
        [user(), bot(dict(H(), cache_control={}), T()), user()],
        PLAIN,
        {},
        [("V8", "api", 1, 0, None)],
    ),
    (
        "V8 on empty text",
        [user(T(), T("", cache_control={}))],
        PLAIN,
        {},
        [("V8", "api", 0, 1, None), ("V10", "api", 0, 1, None)],
    ),
    ("V9 not first", [user(), bot(C(), T()), user()], PLAIN, {}, [("V9", "api", 1, 0, None)]),
    ("V9 empty content", [bot(C(content="")), user()], PLAIN, {}, [("V9", "api", 0, 0, None)]),
    (
        "V9 with a compact edit",
        [bot(C()), user()],
        PLAIN,
        {"context_edits": [{"type": "compact_20260112"}]},
        [("V9", "api", 0, 0, None)],
    ),
    (
        "V10 id used twice",
        [user(), bot(U()), user(R()), bot(U()), user(R())],
        PLAIN,
        {},
        [("V10", "api", 3, 0, None)],
    ),
    ("V10 empty text", [user(T(), T(""))], PLAIN, {}, [("V10", "api", 0, 1, None)]),
    (
        "V10 empty text in a result",
        [user(), bot(U()), user(R(content=[T("")]))],
        PLAIN,
        {},
        [("V10", "api", 2, 0, None)],
    ),
    (
        "V10 no content",
        [{"role": "user", "content": []}],
        PLAIN,
        {},
        [("V10", "api", 0, None, None)],
    ),
    (
        "V10 empty string",
        [{"role": "user", "content": ""}],
        PLAIN,
        {},
        [("V10", "api", 0, None, None)],
    ),
    ("V10 no role", [{"role": "bot", "content": "x"}], PLAIN, {}, [("V10", "api", 0, None, None)]),
    ("V10 block without type", [user({"text": "x"})], PLAIN, {}, [("V10", "api", 0, 0, None)]),
    (
        "V10 tools missing",
        [user(), bot(U()), user(R())],
        PLAIN,
        {"tools": []},
        [("V10", "api", 1, 0, None)],
    ),
    (
        "V10 name not offered",
        [user(), bot(U(name="gone")), user(R())],
        PLAIN,
        {"tools": [READ]},
        [("V10", "house", 1, 0, None)],
    ),
    (
        "V11 not deferred",
        [user(), bot(U()), user(R(content=[{"type": "tool_reference", "tool_name": "read"}]))],
        PLAIN,
        {"tools": [READ, SEARCH]},
        [("V11", "api", 2, 0, None)],
    ),
]


@pytest.mark.parametrize("what,messages,profile,keywords", PASSING, ids=[row[0] for row in PASSING])
def test_a_valid_list_passes(
    what: str, messages: list[Any], profile: ModelProfile, keywords: dict[str, Any]
) -> None:
    assert validate_messages(messages, profile, **keywords) == []
    typed = [message_of(m) for m in messages]
    assert validate_messages(typed, profile, **keywords) == []


@pytest.mark.parametrize(
    "what,messages,profile,keywords,expected", FAILING, ids=[row[0] for row in FAILING]
)
def test_a_broken_list_is_named(
    what: str,
    messages: list[Any],
    profile: ModelProfile,
    keywords: dict[str, Any],
    expected: list[tuple[Any, ...]],
) -> None:
    found = validate_messages(messages, profile, **keywords)
    assert [(v.rule, v.severity, v.message, v.block, v.repair) for v in found] == expected
    if all(m.get("role") in ("user", "assistant", "system") for m in messages):
        typed = [message_of(m) for m in messages]
        assert validate_messages(typed, profile, **keywords) == found


def test_every_rule_has_a_passing_and_a_failing_list() -> None:
    rules = {f"V{n}" for n in range(1, 12)}
    assert {row[0].split()[0] for row in PASSING} == rules
    assert {row[0].split()[0] for row in FAILING} == rules


def test_a_violation_is_json_in_the_documented_form() -> None:
    made = Violation("V1", "api", 7, 0, ("toolu_3",), "x", "answer_open_calls").wire()
    assert list(made) == ["rule", "severity", "message", "block", "ids", "text", "repair"]
    assert made["ids"] == ["toolu_3"]


def _long(n: int) -> list[Message]:
    out: list[Message] = [Message("user", "go")]
    for i in range(n):
        out.append(Message("assistant", (Text("on it"), ToolUse(f"t{i}", "read", {"path": "a"}))))
        out.append(Message("user", (ToolResult(f"t{i}", (Text("line"),)),)))
    return out


def test_ten_thousand_messages_take_less_than_100_ms() -> None:
    messages = _long(5_000)
    best = min(_seconds(lambda: validate_messages(messages, PLAIN)) for _ in range(3))
    assert best < 0.1


def _seconds(run: Any) -> float:
    begun = time.perf_counter()
    assert run() == []
    return time.perf_counter() - begun


def test_the_tail_is_checked_alone_and_the_ids_before_it_are_known() -> None:
    messages = _long(50)
    assert validate_messages(messages, PLAIN, start=len(messages) - 1) == []
    reused = [*messages, Message("assistant", (ToolUse("t3", "read", {}),))]
    for known in (None, {f"t{i}" for i in range(50)}):
        found = validate_messages(
            reused, PLAIN, start=len(messages), sendable=False, known_ids=known
        )
        assert [(v.rule, v.ids) for v in found] == [("V10", ("t3",))]


def test_a_call_open_before_start_is_answered_or_named_after_it() -> None:
    messages = _long(3)
    opened = [*messages, Message("assistant", (ToolUse("new", "read", {}),))]
    start = len(opened)
    known = {"t0", "t1", "t2", "new"}
    answered = [*opened, Message("user", (ToolResult("new", (Text("ok"),)),))]
    assert validate_messages(answered, PLAIN, start=start, known_ids=known) == []
    ignored = [*opened, Message("user", "never mind")]
    found = validate_messages(ignored, PLAIN, start=start, known_ids=known)
    assert [(v.rule, v.ids) for v in found] == [("V1", ("new",))]


def test_known_ids_make_the_cost_that_of_the_tail() -> None:
    messages = _long(20_000)
    known = {f"t{i}" for i in range(20_000)}
    start = len(messages) - 1
    seconds = _seconds(lambda: validate_messages(messages, PLAIN, start=start, known_ids=known))
    assert seconds < 0.005


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "id", "name", "text", "tool_use_id", "input"]
            ),
            inner | st.sampled_from(["user", "assistant", "tool_use", "tool_result", "thinking"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JUNK, max_size=4), st.lists(JUNK, max_size=2), st.integers(0, 4))
def test_nothing_makes_it_raise(messages: list[Any], tools: list[Any], start: int) -> None:
    for profile in (PLAIN, MANUAL, MID):
        validate_messages(messages, profile, tools=tools, context_edits=tools, start=start)


@given(st.integers(1, 8), st.integers(0, 12))
def test_checking_from_start_finds_what_checking_all_finds(rounds: int, start: int) -> None:
    messages = [*_long(rounds), Message("assistant", (ToolUse("t0", "read", {}),))]
    start = min(start, len(messages) - 1)
    whole = validate_messages(messages, PLAIN, sendable=False)
    assert validate_messages(messages, PLAIN, sendable=False, start=start) == whole
