"""Joining a stream: any order of events gives a message or a named fault, never a half message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.core.messages import Raw, Text, Thinking, ToolUse, Usage
from agent_kernel.core.model import Done, ProviderError
from agent_kernel.providers.assemble import Assembly
from agent_kernel.testing.wire import events_of, finished

BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm, 想", "signature": "c2ln"},
    {"type": "text", "text": "I look at it."},
    {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "ä", "deep": [{"a": None}]}},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "future", "data": [1, {"b": "c"}]},
    {"type": "text", "text": "So."},
]
USAGE = {"input_tokens": 5, "output_tokens": 9, "cache_read_input_tokens": 2}


def joined(events: list[tuple[str, Any]]) -> Done:
    assembly = Assembly(lambda: 1.0, 0.0)
    for _, event in events:
        for _ in assembly.feed(event):
            pass
    return assembly.done()


@given(st.lists(st.sampled_from(BLOCKS), max_size=5), st.integers(1, 9))
def test_what_was_sent_is_what_is_joined(blocks: list[dict[str, Any]], chars: int) -> None:
    message = finished({"content": [*blocks, BLOCKS[-1]]}, 1, "m", USAGE)
    done = joined(events_of(message, chars))
    assert [block.wire() for block in done.message.content] == message["content"]
    assert done.usage == Usage(5, 9, 2)
    assert done.bad_inputs == ()
    kinds = (Text, Thinking, ToolUse, Raw)
    assert all(isinstance(block, kinds) for block in done.message.content)


@given(st.data())
def test_a_stream_out_of_order_is_whole_or_a_protocol_fault(data: st.DataObject) -> None:
    message = finished({"content": BLOCKS[:3]}, 1, "m", USAGE)
    events = events_of(message, 6)
    for _ in range(data.draw(st.integers(1, 3))):
        act = data.draw(st.sampled_from(["drop", "double", "swap", "junk"]))
        at = data.draw(st.integers(0, len(events) - 1))
        if act == "drop":
            del events[at]
        elif act == "double":
            events.insert(at, events[at])
        elif act == "junk":
            events.insert(at, ("odd", data.draw(st.sampled_from([None, 7, {}, {"type": "odd"}]))))
        else:
            other = data.draw(st.integers(0, len(events) - 1))
            events[at], events[other] = events[other], events[at]
        if not events:
            return
    try:
        done = joined(events)
    except ProviderError as error:
        fault = (error.kind, error.retryable)
    else:
        fault = ("protocol", True)
        _check(done)
    assert fault == ("protocol", True)


def _check(done: Done) -> None:
    names = [block.wire()["type"] for block in done.message.content]
    assert set(names) <= {"thinking", "text", "tool_use"}
    bad = {each.id for each in done.bad_inputs}
    for block in done.message.content:
        if isinstance(block, ToolUse) and block.id not in bad:
            assert isinstance(block.input, dict)
