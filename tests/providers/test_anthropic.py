"""The real client over the loopback server: exact bytes, headers by endpoint, nothing at import."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.core.messages import Message, Text, Thinking, ToolResult, ToolUse
from agent_kernel.core.model import Delta, Mark, MessageStart, Request, SystemText, ToolSchema
from agent_kernel.providers import Key, endpoint_of
from agent_kernel.testing import MessagesServer
from tests.providers.kit import KEY, REQUEST, anthropic_of, collect, done_of

OK = {"message": {"content": [{"type": "text", "text": "Done."}]}}
FULL = Request(
    "claude-sonnet-5-5",
    (
        Message("user", "Read ä.py — 数据"),
        Message(
            "assistant",
            (Thinking("hm", "c2ln"), Text("I read."), ToolUse("t1", "read", {"path": "ä.py"})),
        ),
        Message("user", (ToolResult("t1", (Text("\ud83d\ude42 ok"),)), Text("go on"))),
    ),
    (SystemText("identity", "You help."), SystemText("rules", "Be brief.")),
    (ToolSchema("read", "Read a file.", {"type": "object"}),),
    max_tokens=99,
    params={"thinking": {"type": "adaptive"}, "tool_choice": {"type": "auto"}},
    marks=(Mark("system", 1, 0, "1h"), Mark("message", 2, 1)),
)


async def test_the_body_on_the_wire_is_the_request_byte_for_byte(ask: Any) -> None:
    seen = await ask(OK, request=FULL)
    assert seen.done.message.content == (Text("Done."),)
    (record,) = seen.server.messages
    assert record.body == FULL.body
    assert record.headers["content-type"] == "application/json"
    assert record.headers["anthropic-version"] == "2026-10-21"
    assert record.headers["x-stainless-retry-count"] == "0"


@pytest.mark.parametrize(
    "auth,key,bearer,x_api_key",
    [
        ("bearer", KEY, True, False),
        ("both", KEY, True, True),
        ("x-api-key", KEY, False, True),
        ("x-api-key", Key("tok-" + "en", "ANTHROPIC_AUTH_TOKEN", bearer=True), True, True),
        ("both", None, True, True),
    ],
)
async def test_the_key_goes_as_the_endpoint_wants_it(
    ask: Any, auth: str, key: Key | None, bearer: bool, x_api_key: bool
) -> None:
    seen = await ask(OK, fields={"auth": auth}, key=key)
    headers = seen.server.messages[0].headers
    value = key.value if key else "none"
    assert (headers.get("authorization") == f"Bearer {value}") is bearer
    assert (headers.get("x-api-key") == value) is x_api_key


@pytest.mark.parametrize("name", ["anthropic", "llamacpp", "ollama", "deepseek", "compatible"])
async def test_no_beta_leaves_for_a_host_without_betas(
    messages_server: Callable[..., MessagesServer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "anthropic-beta: from-the-environment")
    server = messages_server(strict=False)
    provider = anthropic_of(server, endpoint=endpoint_of(server.base_url, {"name": name}))
    betas = replace(REQUEST, betas=("compact-2026-01-12", "other"))
    await collect(provider.stream(betas))
    field = replace(betas, params={"context_management": {"edits": []}})
    _, error = await collect(provider.stream(field))
    await provider.close()
    sent = [record.headers.get("anthropic-beta") for record in server.messages]
    if name == "anthropic":
        assert sent == ["compact-2026-01-12,other"] * 2
        assert error is None
    else:
        assert sent == [None]
        assert error is not None
        assert "'context_management' is a beta" in error.text


async def test_without_a_key_the_places_looked_at_are_named(ask: Any) -> None:
    from agent_kernel.providers import Anthropic

    begun = time.perf_counter()
    _, error = await collect(Anthropic("https://api.example.invalid").stream(REQUEST))
    assert error is not None
    assert error.kind == "auth"
    assert "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN" in error.text
    assert time.perf_counter() - begun < 5


async def test_the_start_says_what_the_host_counts(ask: Any) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 11}
    reply = {"message": {**OK["message"], "usage": usage}}
    seen = await ask(reply)
    start = next(event for event in seen.events if isinstance(event, MessageStart))
    assert (start.usage.input, start.usage.cache_read) == (7, 11)
    assert seen.done.usage.output == 3
    assert seen.done.request_id == start.request_id == "req_000000"
    assert 0 < seen.done.ttft <= seen.done.seconds


async def test_thinking_and_its_signature_come_back_unchanged(ask: Any) -> None:
    blocks = [
        {"type": "thinking", "thinking": "first — 想", "signature": "c2lnMQ=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "So."},
    ]
    seen = await ask({"message": {"content": blocks}, "chars": 2})
    assert [block.wire() for block in seen.done.message.content] == blocks
    kinds = {event.kind for event in seen.events if isinstance(event, Delta)}
    assert kinds == {"thinking", "text"}


async def test_what_no_host_takes_back_is_kept_beside_the_message(ask: Any) -> None:
    blocks = [
        {"type": "thinking", "thinking": "unsigned"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "So."},
        {"type": "thinking", "thinking": "last", "signature": "c2ln"},
    ]
    seen = await ask({"message": {"content": blocks}})
    assert seen.done.message.content == (Text("So."),)
    assert [block["thinking"] for block in seen.done.meta["unsent"]] == ["unsigned", "last"]


async def test_a_callers_mark_and_nulls_leave_a_call_a_call(ask: Any) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
    odd = {**call, "caller": {"type": "direct"}, "toolset_name": None}
    text = {"type": "text", "text": "x", "citations": None}
    seen = await ask({"message": {"content": [text, odd]}})
    assert seen.done.message.content == (Text("x"), ToolUse("t1", "read", {"path": "a"}))


async def test_refusal_details_and_odd_usage_are_in_the_meta(ask: Any) -> None:
    usage = {"input_tokens": 5, "output_tokens": 5, "server_tool_use": {"web_search_requests": 2}}
    seen = await ask({"message": {**OK["message"], "usage": usage}, "fault": "refusal"})
    assert seen.done.meta["usage"] == {"server_tool_use": {"web_search_requests": 2}}


@pytest.mark.parametrize("fault", ["duplicate", "empty"])
async def test_harmless_oddities_end_well(ask: Any, fault: str) -> None:
    seen = await ask({**OK, "fault": fault})
    expected = () if fault == "empty" else (Text("Done."),)
    assert seen.done.message.content == expected


async def test_a_call_that_was_complete_before_a_reset_is_never_in_a_message(ask: Any) -> None:
    seen = await ask({"fault": "tool_then_reset"})
    assert seen.error.kind == "connection"
    assert seen.error.request_id == "req_000000"
    assert seen.error.partial["calls"][0]["finished"]


async def test_it_counts_where_the_host_counts(
    messages_server: Callable[..., MessagesServer],
) -> None:
    server = messages_server()
    for fields, known in (({}, True), ({"count_tokens": False}, False)):
        provider = anthropic_of(server, fields=fields)
        count = await provider.count(FULL)
        await provider.close()
        assert (count is not None) is known
    sent = server.requests[0].json
    assert sorted(sent) == ["messages", "model", "system", "thinking", "tool_choice", "tools"]


def test_each_event_loop_has_its_own_connections(
    messages_server: Callable[..., MessagesServer],
) -> None:
    import asyncio

    server = messages_server({"replies": [OK], "otherwise": "repeat"})
    provider = anthropic_of(server)

    async def once() -> None:
        done_of((await collect(provider.stream(REQUEST)))[0])
        await provider.close()

    for _ in range(3):
        asyncio.run(once())
    assert len(server.messages) == 3


def test_importing_the_providers_loads_no_client() -> None:
    code = (
        "import sys, agent_kernel.providers\n"
        "heavy = ('anthropic', 'httpx2', 'pandas', 'numpy', 'genai_prices')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
