"""The prompt cache of the loopback server: true to marks, look-back, minimum and life."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.core.messages import Message, Text, ToolResult, ToolUse
from agent_kernel.core.model import Mark, ModelProfile, Request, SystemText, place_marks
from agent_kernel.core.validate import validate_messages
from agent_kernel.testing.cache import PrefixCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def text(n: int, mark: bool | str = False) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": f"{n:04d}" * 100}
    if mark:
        block["cache_control"] = {"type": "ephemeral"}
        if isinstance(mark, str):
            block["cache_control"]["ttl"] = mark
    return block


def body(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": list(blocks)}], **more}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> PrefixCache:
    return PrefixCache(100, 20, clock)


def test_what_is_marked_is_written_then_read(cache: PrefixCache) -> None:
    first = cache.usage(body(text(1), text(2, True), text(3)))
    assert first["cache_read_input_tokens"] == 0
    assert first["cache_creation_input_tokens"] > 0
    assert first["input_tokens"] > 0
    second = cache.usage(body(text(1), text(2, True), text(4)))
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    assert second["cache_creation_input_tokens"] == 0


def test_a_changed_byte_before_the_mark_reads_nothing(cache: PrefixCache) -> None:
    cache.usage(body(text(1), text(2, True)))
    assert cache.usage(body(text(9), text(2, True)))["cache_read_input_tokens"] == 0


def test_the_look_back_is_20_positions(cache: PrefixCache) -> None:
    cache.usage(body(text(0, True)))
    near = [text(n) for n in range(19)]
    near[-1] = text(18, True)
    assert cache.usage(body(text(0), *near))["cache_read_input_tokens"] > 0
    far = [text(100 + n) for n in range(20)]
    far[-1] = text(119, True)
    assert cache.usage(body(text(0), *far))["cache_read_input_tokens"] == 0
    again = [text(0, True), *far]  # the old mark repeated: an exact hit needs no look-back
    assert cache.usage(body(*again))["cache_read_input_tokens"] > 0


def test_a_short_prefix_is_not_kept(clock: Clock) -> None:
    cache = PrefixCache(5_000, 20, clock)
    for _ in range(2):
        usage = cache.usage(body(text(1, True)))
        assert usage["cache_read_input_tokens"] == usage["cache_creation_input_tokens"] == 0


def test_entries_live_five_minutes_or_an_hour_and_a_hit_renews(
    cache: PrefixCache, clock: Clock
) -> None:
    short, long = body(text(1, True)), body(text(2, "1h"))
    assert cache.usage(short)["cache_creation"]["ephemeral_5m_input_tokens"] > 0
    assert cache.usage(long)["cache_creation"]["ephemeral_1h_input_tokens"] > 0
    for _ in range(3):
        clock.now += 200
        assert cache.usage(short)["cache_read_input_tokens"] > 0
    clock.now += 301
    assert cache.usage(short)["cache_read_input_tokens"] == 0
    assert cache.usage(long)["cache_read_input_tokens"] > 0


def test_thirty_steps_of_25_results_rewrite_only_their_new_tail(cache: PrefixCache) -> None:
    """models.md §8: cache_read grows each step, and no step writes more than what is new."""
    import json

    profile = ModelProfile("m", thinking="adaptive")
    system = (SystemText("rules", "Work well. " * 60),)
    messages: list[Message] = [Message("user", "go " * 50)]
    marked: int | None = None
    reads, last_total = [], 0
    for step in range(30):
        marks = place_marks(system, tuple(messages), marked)
        request = Request("m", tuple(messages), system, marks=marks)
        wire = json.loads(request.body)
        usage = cache.usage(wire)
        assert validate_messages(wire["messages"], profile) == []
        total = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
        assert usage["cache_creation_input_tokens"] <= total - last_total
        reads.append(usage["cache_read_input_tokens"])
        last_total = total
        marked = max((m.index for m in marks if m.layer == "message"), default=None)
        calls = [ToolUse(f"t{step}_{i}", "read", {"path": f"{i}.py"}) for i in range(25)]
        results = [ToolResult(call.id, (Text(f"line {step} {call.id}"),)) for call in calls]
        messages += [Message("assistant", calls), Message("user", results)]
    assert reads == sorted(set(reads))
    assert isinstance(marks[0], Mark)
