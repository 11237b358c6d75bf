"""Each row of model_faults.csv by its id: real client, real server, waits on a jumping clock.

Rows that need the loop, its tools or its log are in LATER with the reason; some have a half here.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.core.messages import Message, Raw, Text, ToolUse, Usage
from agent_kernel.core.model import Attempt, Delta, Request, Stall, ToolSchema
from tests.providers.kit import KEY, REQUEST

TABLE = Path(__file__).parents[1] / "cases" / "model_faults.csv"
SOURCE = Path(__file__).parents[3] / "shared" / "cases" / "model_faults.csv"
ROWS = {row["id"].removeprefix("model_faults-"): row for row in csv.DictReader(TABLE.open())}

OK = {"message": {"content": [{"type": "text", "text": "Done."}]}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "make"}}
TOOL = {"message": {"content": [{"type": "text", "text": "I run it."}, CALL]}}

Ask = Callable[..., Awaitable[Any]]
Check = Callable[[Ask, Ask], Awaitable[None]]
HERE: dict[str, Check] = {}


def row(*ids: str) -> Callable[[Check], Check]:
    """Registers a check for rows of the table."""

    def take(check: Check) -> Check:
        HERE.update(dict.fromkeys(ids, check))
        return check

    return take


LATER: dict[str, str] = {  # each is acted out in tests/core/test_cases_model.py
    "005": "offering the fallback model after 3 overloaded attempts is the loop's (models.md §5)",
    "008": "the one repair of a 400 changes messages, so the session must log it",
    "009": "Session.answer_open_calls logs the synthetic results; the loop asks once more",
    "010": "an image replaced by a note is a logged replacement; the loop asks once more",
    "015": "a tool started before Done: the latch is in the loop",
    "027": "the error result for an unusable input is logged by the batch",
    "028": "core/tool.py validates the input",
    "029": "core/tool.py validates the input",
    "030": "core/tool.py looks the name up",
    "031": "run_batch orders and bounds parallel calls",
    "032": "the loop runs the block whatever the stop reason says",
    "033": "the loop ends the turn and logs it",
    "034": "the loop answers the cut call and asks once more with max_tokens doubled",
    "035": "the loop continues at most 3 times a turn",
    "036": "the loop compacts and asks once more",
    "037": "the loop ends the turn and reports the reason",
    "038": "the repeat guard counts calls of a turn",
    "039": "the batch's budget and spill",
    "040": "the read tool and the batch bound images",
    "041": "the latch: tool/start and tool/result of the log decide",
    "042": "the latch: the input hash of a finished call",
    "043": "the interrupt closes open calls in the session",
    "044": "there is no non-streaming path to fall back to; the loop's attempts show it",
    "046": "core/usage.py prices",
}


@row("001")
async def _retry_after_seconds(ask: Ask, on: Ask) -> None:
    seen = await on({"fault": "rate_limit", "retry_after": "3"}, OK)
    assert seen.done.message.content == (Text("Done."),)
    assert seen.time.slept == [3.0]
    assert [e for e in seen.events if isinstance(e, Attempt)] == [
        Attempt(1, "first"),
        Attempt(2, "rate_limit"),
    ]


@row("002")
async def _retry_after_date(ask: Ask, on: Ask) -> None:
    there = time.time() - 7200  # the host's clock counts, not ours
    headers = {"date": formatdate(there, usegmt=True)}
    after = formatdate(there + 7, usegmt=True)
    seen = await on({"fault": "rate_limit", "retry_after": after, "headers": headers}, OK)
    assert seen.time.slept == [7.0]


@row("003")
async def _retry_after_ms(ask: Ask, on: Ask) -> None:
    reply = {"fault": "rate_limit", "retry_after_ms": "1500", "retry_after": "9"}
    seen = await on(reply, OK)
    assert seen.time.slept == [1.5]


@row("004")
async def _retry_after_garbage(ask: Ask, on: Ask) -> None:
    wrong = ["soon", "-3", "0", "nan", "inf"]
    seen = await on(*({"fault": "rate_limit", "retry_after": each} for each in wrong), OK)
    assert seen.time.slept == [0.5, 1.0, 2.0, 4.0, 8.0]


@row("005")
async def _overloaded(ask: Ask, on: Ask) -> None:
    seen = await on({"fault": "overloaded"}, {"fault": "overloaded"}, OK)
    assert [(r.error, r.status, r.wait) for r in seen.retries] == [
        ("overloaded", 529, 0.5),
        ("overloaded", 529, 1.0),
    ]
    assert seen.done


@row("006")
async def _server_errors(ask: Ask, on: Ask) -> None:
    seen = await on(*({"fault": "server", "status": n} for n in (500, 502, 503, 504)), OK)
    assert [r.error for r in seen.retries] == ["server"] * 4
    assert seen.done
    seen = await on(*({"fault": "server"} for _ in range(9)))
    assert len(seen.server.messages) == 8
    assert "8 attempts" in str(seen.error)


@row("007")
async def _timeout_and_conflict(ask: Ask, on: Ask) -> None:
    replies = [
        {"fault": "server", "status": 408, "type": "timeout_error"},
        {"fault": "bad_request", "status": 409},
    ]
    seen = await on(*replies, OK)
    assert [r.error for r in seen.retries] == ["timeout", "conflict"]
    assert seen.done


@row("008")
async def _bad_request(ask: Ask, on: Ask) -> None:
    seen = await on({"fault": "bad_request"})
    assert (seen.error.kind, seen.error.retryable) == ("request", False)
    assert len(seen.server.messages) == 1


@row("009")
async def _orphan_call(ask: Ask, on: Ask) -> None:
    orphan = Request("m", (*REQUEST.messages, Message("assistant", (ToolUse("t9", "read", {}),))))
    tools = (ToolSchema("read", "Read.", {"type": "object"}),)
    user = Message("user", "go on")
    seen = await on(request=replace(orphan, messages=(*orphan.messages, user), tools=tools))
    assert (seen.error.kind, seen.error.repair) == ("request", "answer_open_calls")
    assert len(seen.server.messages) == 1


@row("010")
async def _bad_image(ask: Ask, on: Ask) -> None:
    for text in (
        None,
        "messages.4: too many images",
        "Could not process image",
        "messages.1.content.0.image.source: image dimensions exceed max allowed size: 8000 pixels",
    ):
        seen = await on({"fault": "bad_image", **({"message": text} if text else {})})
        assert (seen.error.kind, seen.error.repair) == ("request", "drop_images")
        assert len(seen.server.messages) == 1
    assert (await on({"fault": "bad_request"})).error.repair is None


@row("011")
async def _refused_key(ask: Ask, on: Ask) -> None:
    for fault in ("auth", "forbidden"):
        text = f"your key {KEY.value} is wrong"
        seen = await on({"fault": fault, "message": text})
        assert seen.error.kind == "auth"
        assert len(seen.server.messages) == 1
        assert "ANTHROPIC_API_KEY" in str(seen.error)
        assert KEY.value not in str(seen.error)
        assert KEY.value not in repr(seen.error)


@row("012")
async def _no_such_model(ask: Ask, on: Ask) -> None:
    wrong = Request("claude-sonet-5-5", REQUEST.messages)
    seen = await on({"fault": "not_found"}, request=wrong)
    assert seen.error.kind == "not_found"
    assert "claude-sonet-5-5" in str(seen.error)
    assert "claude-sonnet-5-5" in str(seen.error)
    assert len(seen.server.messages) == 1


@row("013")
async def _should_not_retry(ask: Ask, on: Ask) -> None:
    seen = await on({"fault": "server", "headers": {"x-should-retry": "false"}})
    assert seen.error.kind == "server"
    assert len(seen.server.messages) == 1
    seen = await on({"fault": "bad_request", "headers": {"x-should-retry": "true"}}, OK)
    assert seen.done


@row("014")
async def _overloaded_mid_stream(ask: Ask, on: Ask) -> None:
    seen = await on({**TOOL, "fault": "error_event"}, OK)
    assert [(r.error, r.status) for r in seen.retries] == [("overloaded", 200)]
    assert seen.retries[0].partial == {"text": "I run it."}
    assert seen.done.message.content == (Text("Done."),)


@row("016")
async def _stall_inside_input(ask: Ask, on: Ask) -> None:
    reply = {**TOOL, "fault": "stall", "chars": 4, "after": 9}
    server_side = {"fields": {"gap": 0.3, "first": 5.0}}
    seen = await on(reply, OK, **server_side)
    stalls = [event for event in seen.events if isinstance(event, Stall)]
    assert stalls == [Stall(0.3)]
    assert seen.retries[0].error == "stall"
    assert seen.retries[0].partial["calls"] == [
        {"id": "toolu_1", "name": "bash", "finished": False}
    ]
    assert not any(isinstance(block, ToolUse) for block in seen.done.message.content)


@row("017")
async def _pings_only(ask: Ask, on: Ask) -> None:
    reply = {**OK, "fault": "pings", "every_ms": 50, "seconds": 30, "after": 3}
    seen = await on(reply, OK, fields={"gap": 0.4, "first": 5.0})
    assert [event for event in seen.events if isinstance(event, Stall)] == [Stall(0.4)]
    assert seen.done


@row("018")
async def _half_json(ask: Ask, on: Ask) -> None:
    seen = await on({**OK, "fault": "malformed"}, OK)
    assert [r.error for r in seen.retries] == ["protocol"]
    assert seen.done
    seen = await on(*({**OK, "fault": "malformed"} for _ in range(4)))
    assert len(seen.server.messages) == 3  # a protocol fault is retried at most twice


@row("019")
async def _out_of_order(ask: Ask, on: Ask) -> None:
    seen = await on({**OK, "fault": "out_of_order"}, OK)
    assert [r.error for r in seen.retries] == ["protocol"]
    assert seen.done


@row("020")
async def _delta_before_start(ask: Ask, on: Ask) -> None:
    seen = await ask({**OK, "fault": "no_start"})
    assert seen.error.kind == "protocol"
    assert seen.error.retryable


@row("021")
async def _unknown_delta(ask: Ask, on: Ask) -> None:
    seen = await ask({**OK, "fault": "unknown_event"})
    assert seen.done.message.content == (Text("Done."),)
    assert [each["type"] for each in seen.done.meta["unknown"]] == [
        "future_event",
        "content_block_delta",
    ]


@row("022")
async def _unknown_block(ask: Ask, on: Ask) -> None:
    seen = await ask({**OK, "fault": "unknown_block"})
    odd = seen.done.message.content[0]
    assert isinstance(odd, Raw)
    assert odd.data == {"type": "future_block", "data": {"deep": [1, 2]}, "signature": "sig"}
    again = Request("m", (*REQUEST.messages, seen.done.message, *REQUEST.messages))
    assert b'{"type":"future_block","data":{"deep":[1,2]},"signature":"sig"}' in again.body


@row("023")
async def _split_character(ask: Ask, on: Ask) -> None:
    text = "naïve — 数据 🙂"
    for size in (1, 2, 3):
        message = {"content": [{"type": "text", "text": text}]}
        seen = await ask({"message": message, "split_bytes": size, "chars": 3})
        assert seen.done.message.content == (Text(text),)
        deltas = [event.text for event in seen.events if isinstance(event, Delta)]
        assert "".join(deltas) == text


@row("024")
async def _cut_gzip(ask: Ask, on: Ask) -> None:
    seen = await on({**OK, "fault": "bad_gzip"}, OK)
    assert [r.error for r in seen.retries] == ["protocol"]
    assert seen.done


@row("025")
async def _usage_missing(ask: Ask, on: Ask) -> None:
    for null in (False, True):
        seen = await ask({**OK, "fault": "usage_missing", "null": null})
        assert seen.done.usage == Usage()
        assert not seen.done.usage.known


@row("026")
async def _usage_falls(ask: Ask, on: Ask) -> None:
    usage = {"input_tokens": 900, "output_tokens": 12, "cache_read_input_tokens": 50}
    reply = {"message": {**OK["message"], "usage": usage}}
    lower = {"input_tokens": 10, "output_tokens": 12, "cache_read_input_tokens": -4}
    seen = await ask({**reply, "delta_usage": lower})
    assert seen.done.usage.input == 900
    assert seen.done.usage.cache_read == 50
    assert seen.done.usage.output == 12


@row("027")
async def _bad_input(ask: Ask, on: Ask) -> None:
    seen = await ask({**TOOL, "fault": "tool_bad_json"})
    (call,) = seen.done.message.content
    assert isinstance(call, ToolUse)
    assert call.input == {}
    assert seen.done.bad_inputs[0].id == call.id
    assert "oops" in seen.done.bad_inputs[0].why
    for partial in ("[1]", '"x"', '{"a": NaN}', '{"a": ' + "[" * 100_000):
        seen = await ask({**TOOL, "fault": "tool_bad_json", "partial": partial})
        assert len(seen.done.bad_inputs) == 1


@row("032")
async def _tool_with_end_turn(ask: Ask, on: Ask) -> None:
    seen = await ask({"message": {**TOOL["message"], "stop_reason": "end_turn"}})
    assert isinstance(seen.done.message.content[1], ToolUse)
    assert seen.done.stop_reason == "end_turn"


@row("033")
async def _tool_stop_without_a_call(ask: Ask, on: Ask) -> None:
    seen = await ask({"message": {**OK["message"], "stop_reason": "tool_use"}})
    assert seen.done.stop_reason == "tool_use"
    assert seen.done.message.content == (Text("Done."),)


@row("034")
async def _cut_input(ask: Ask, on: Ask) -> None:
    usage = {"output_tokens": 4096}
    message = {**TOOL["message"], "usage": usage}
    seen = await ask({"message": message, "fault": "tool_cut"})
    assert seen.done.stop_reason == "max_tokens"
    assert seen.done.bad_inputs[0].why == "input was cut at 4096 output tokens"


@row("035", "036", "037")
async def _stop_reasons(ask: Ask, on: Ask) -> None:
    for fault, reason in (
        ("max_tokens", "max_tokens"),
        ("window_exceeded", "model_context_window_exceeded"),
        ("stop_unknown", "future_stop"),
        ("refusal", "refusal"),
        ("pause", "pause_turn"),
    ):
        seen = await ask({**OK, "fault": fault})
        assert seen.done.stop_reason == reason


@row("045")
async def _clock_skew(ask: Ask, on: Ask) -> None:
    slow = {"date": formatdate(time.time() + 600, usegmt=True)}
    seen = await ask({"fault": "auth", "headers": slow})
    assert "10 min behind" in str(seen.error)
    seen = await ask({"fault": "auth"})
    assert "clock" not in str(seen.error)


@pytest.mark.parametrize("number", sorted(HERE))
async def test_row(number: str, ask: Ask, ask_on: Ask) -> None:
    await HERE[number](ask, ask_on)


def test_every_row_is_here_or_has_its_reason() -> None:
    assert set(HERE) | set(LATER) == set(ROWS)
    assert all(LATER.values())


def test_the_table_is_the_one_that_is_handed_around() -> None:
    if SOURCE.exists():
        assert TABLE.read_bytes() == SOURCE.read_bytes()
