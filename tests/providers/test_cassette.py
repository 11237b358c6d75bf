"""Cassettes: what is recorded plays back the same, faults and chunks too, and nothing leaks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_kernel.core.messages import Message, Text, ToolResult, ToolUse
from agent_kernel.core.model import Delta, Done, ProviderError, Request, StreamEvent
from agent_kernel.providers import Anthropic, Cassette, Retrying, Watchdog, endpoint_of
from agent_kernel.providers.cassette_file import check, read, show
from agent_kernel.providers.cassette_keys import canonical_body, first_difference, key_of, standard
from agent_kernel.testing import MessagesServer
from tests.providers.kit import KEY, REQUEST, Time, collect, done_of, retries_of

TEXT = "a rather long answer, so that there are many chunks: " + "0123456789 " * 40
OK = {"message": {"content": [{"type": "text", "text": TEXT}]}}
SECRET = "sk-ant-" + "api03-" + "A1b2C3d4E5f6G7h8"
Serve = Callable[..., MessagesServer]


def provider_of(base_url: str, tape: Cassette, key: Any = KEY) -> Retrying:
    inner = Anthropic(
        base_url,
        key,
        endpoint=endpoint_of(base_url, {"name": "anthropic"}),
        wrap=tape.wrap,
        keyless=tape.offline,
    )
    return Retrying(Watchdog(inner), sleep=Time().sleep)


async def ask(
    base_url: str, tape: Cassette, request: Request = REQUEST, key: Any = KEY
) -> tuple[list[StreamEvent], ProviderError | None]:
    provider = provider_of(base_url, tape, key)
    found = await collect(provider.stream(request))
    await provider.close()
    return found


def shown(events: list[StreamEvent]) -> list[StreamEvent]:
    """The events without their times."""
    return [
        replace(event, ttft=0.0, seconds=0.0) if isinstance(event, Done) else event
        for event in events
    ]


NOWHERE = "https://api.example.invalid"


async def test_a_stream_plays_back_chunk_by_chunk_without_a_host(
    messages_server: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    server = messages_server({"replies": [{**OK, "chars": 3}]})
    recorded, error = await ask(server.base_url, Cassette(path, "record"))
    assert error is None
    (exchange,) = read(path)
    assert len(exchange.chunks) > 150
    tape = Cassette(path, "replay")
    played: list[bytes] = []

    def listening(transport: Any) -> Any:
        return _Listening(tape.wrap(transport), played)

    # The recorded host's address is no part of the key: any host will do, and none is asked.
    inner = Anthropic(NOWHERE, None, wrap=listening, keyless=True)
    events, error = await collect(inner.stream(REQUEST))
    assert error is None
    assert shown(events) == shown(recorded)[1:]
    assert played == [data for _, data in exchange.chunks]


class _Listening(httpx2.AsyncBaseTransport):
    """Notes each chunk a transport gives."""

    def __init__(self, inner: Any, chunks: list[bytes]) -> None:
        self.inner = inner
        self.chunks = chunks

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response: httpx2.Response = await self.inner.handle_async_request(request)
        stream: Any = response.stream

        class Noted(httpx2.AsyncByteStream):
            async def __aiter__(noted) -> AsyncIterator[bytes]:
                async for data in stream:
                    self.chunks.append(data)
                    yield data

        response.stream = Noted()
        return response


async def test_while_recording_the_first_event_comes_before_the_body_ends(
    messages_server: Serve, tmp_path: Path
) -> None:
    server = messages_server({"replies": [{**OK, "chars": 20, "gap_ms": 20}]})
    provider = provider_of(server.base_url, Cassette(tmp_path / "a.jsonl", "record"))
    begun = time.perf_counter()
    stream = provider.stream(REQUEST)
    first = 0.0
    async for event in stream:
        if isinstance(event, Delta) and not first:
            first = time.perf_counter() - begun
    whole = time.perf_counter() - begun
    await provider.close()
    assert 0 < first < whole - 0.3


async def test_faults_play_back_through_the_real_retry(
    messages_server: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    replies = [{"fault": "rate_limit", "retry_after": "2"}, {**OK, "fault": "reset"}, OK]
    server = messages_server({"replies": replies})
    recorded, error = await ask(server.base_url, Cassette(path, "record"))
    assert error is None
    assert [each.end for each in read(path)] == ["eof", "ReadError", "eof"]
    played, error = await ask(NOWHERE, Cassette(path, "replay"), key=None)
    assert error is None
    assert [(r.error, r.status) for r in retries_of(played)] == [
        ("rate_limit", 429),
        ("connection", None),
    ]
    assert retries_of(played)[0].wait >= 2.0
    assert shown(played)[-1] == shown(recorded)[-1]


async def test_a_host_that_is_not_there_plays_back_as_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    dead = "http://127.0.0.1:1"
    _, error = await ask(dead, Cassette(path, "record"))
    assert error is not None
    assert [(each.status, each.end) for each in read(path)] == [(None, "ConnectError")]
    _, again = await ask(dead, Cassette(path, "replay"))
    assert again is not None
    assert again.kind == error.kind == "connection"


async def test_a_miss_names_the_nearest_and_the_first_difference(
    messages_server: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    server = messages_server({"replies": [OK], "otherwise": "repeat"})
    tape = Cassette(path, "record")
    await ask(server.base_url, tape, Request("m", (Message("user", "something else entirely"),)))
    await ask(server.base_url, tape, REQUEST)
    other = replace(REQUEST, messages=(Message("user", "Read b.py " + "x" * 200),))
    asked = len(server.messages)
    events, error = await ask(server.base_url, Cassette(path, "replay"), other)
    assert error is not None
    assert (error.kind, error.retryable) == ("cassette_miss", False)
    assert "nearest is #2, first difference at `$.messages[0].content[0].text`" in error.text
    assert "recorded 'Read a.py', asked 'Read b.py x" in error.text
    assert len(error.text) < 400
    assert len(server.messages) == asked
    assert retries_of(events) == []


async def test_equal_requests_play_in_the_recorded_order_then_miss(
    messages_server: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    answers = [{"message": {"content": [{"type": "text", "text": t}]}} for t in ("one", "two")]
    server = messages_server({"replies": answers})
    tape = Cassette(path, "record")
    for _ in range(2):
        await ask(server.base_url, tape)
    tape = Cassette(path, "replay")
    texts = [done_of((await ask(NOWHERE, tape))[0]).message.content[0] for _ in range(2)]
    assert texts == [Text("one"), Text("two")]
    _, error = await ask(NOWHERE, tape)
    assert error is not None
    assert "recorded 2 times and is asked once more" in error.text


async def test_auto_replays_what_it_has_and_records_the_rest(
    messages_server: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "sub" / "a.jsonl"
    server = messages_server({"replies": [OK], "otherwise": "repeat"})
    other = replace(REQUEST, max_tokens=99)
    await ask(server.base_url, Cassette(path))
    await ask(server.base_url, Cassette(path), other)
    assert len(server.messages) == len(read(path)) == 2
    for request in (REQUEST, other):
        assert (await ask(server.base_url, Cassette(path), request))[1] is None
    assert len(server.messages) == 2


async def test_refresh_asks_anew_says_what_changed_and_drops_the_unused(
    messages_server: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    server = messages_server({"replies": [OK], "otherwise": "repeat"})
    tape = Cassette(path, "record")
    for tokens in (1, 2, 3):
        await ask(server.base_url, tape, replace(REQUEST, max_tokens=tokens))
    said: list[str] = []
    changed = messages_server(
        {
            "replies": [{"message": {"content": [{"type": "text", "text": "new"}]}}],
            "otherwise": "repeat",
        }
    )
    tape = Cassette(path, "refresh", report=said.append)
    for tokens in (1, 4):
        await ask(changed.base_url, tape, replace(REQUEST, max_tokens=tokens))
    assert len(read(path)) == 3  # the old file stands until the refresh is finished
    tape.finish()
    assert len(read(path)) == 2
    assert [line.split(":")[0] for line in said] == ["changed", "new", "dropped", "dropped"]


@pytest.mark.parametrize("chars", [3, 400])
async def test_a_secret_is_in_no_file(messages_server: Serve, tmp_path: Path, chars: int) -> None:
    path = tmp_path / "a.jsonl"
    answer = {"message": {"content": [{"type": "text", "text": f"the key is {SECRET} ok"}]}}
    server = messages_server({"replies": [{**answer, "chars": chars}], "otherwise": "repeat"})
    request = replace(REQUEST, messages=(Message("user", f"my key is {SECRET}"),))
    from agent_kernel.providers import Key

    key = Key(SECRET, "ANTHROPIC_API_KEY")
    events, error = await ask(server.base_url, Cassette(path, "record"), request, key)
    assert error is None
    assert done_of(events).message.content == (Text(f"the key is {SECRET} ok"),)
    kept = b"".join(each.data for each in read(path))
    assert SECRET not in path.read_text()
    assert SECRET.encode() not in kept
    assert check(path) == []
    played, error = await ask(NOWHERE, Cassette(path, "replay"), request)
    assert error is None
    text = done_of(played).message.content[0]
    assert isinstance(text, Text)
    assert SECRET not in text.text
    assert text.text.startswith("the key is [redacted")
    assert text.text.endswith(" ok")
    dirty = tmp_path / "b.jsonl"
    await ask(server.base_url, Cassette(dirty, "record", redact=str), request, key)
    assert "anthropic-key" in check(dirty)[0]


def test_the_key_leaves_out_what_differs_from_run_to_run(tmp_path: Path) -> None:
    canonicalisers = standard(tmp_path / "work", tmp_path)

    def key(cwd: str, day: str, id: str, seconds: str, uuid: str) -> str:
        body = {
            "model": "m",
            "metadata": {"user_id": uuid},
            "diagnostics": {"previous_message_id": id},
            "messages": [
                {"role": "user", "content": f"in {cwd} on {day}, session {uuid}"},
                {"role": "assistant", "content": [ToolUse(id, "bash", {"command": "ls"}).wire()]},
                {"role": "user", "content": [ToolResult(id, (Text(f"took {seconds}"),)).wire()]},
            ],
        }
        return key_of("POST", "/v1/messages", canonical_body(body, canonicalisers, str))

    one = key(
        f"{tmp_path}/work",
        "2026-01-02",
        "toolu_a",
        "1.5 s",
        "0" * 8 + "-0000-4000-8000-" + "0" * 12,
    )
    two = key(
        f"{tmp_path}/work",
        "2027-11-12T10:11:12Z",
        "toolu_b",
        "20 ms",
        "1" * 8 + "-0000-4000-8000-" + "1" * 12,
    )
    assert one == two
    assert one != key("/elsewhere", "2026-01-02", "toolu_a", "1.5 s", "")


def test_a_caller_may_add_canonicalisers(tmp_path: Path) -> None:
    more = {"port": lambda body: json.loads(json.dumps(body).replace("8080", "[port]"))}
    tape = Cassette(tmp_path / "a.jsonl", "replay", more=more)
    keys = {tape.find("POST", "/x", f'{{"a":"{port}"}}'.encode())[0] for port in ("8080", "[port]")}
    assert len(keys) == 1


@pytest.mark.parametrize(
    "a,b,path",
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "$.a[1].b"),
        ({"a": 1, "b": 2}, {"b": 3}, "$.a"),
        ([1], [1, 2], "$[1]"),
        ("x", {"x": 1}, "$"),
    ],
)
def test_the_first_difference_is_a_path(a: Any, b: Any, path: str | None) -> None:
    found = first_difference(a, b)
    assert (found and found[0]) == path


async def test_times_are_kept_and_played_by_speed(messages_server: Serve, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    server = messages_server({"replies": [{**OK, "chars": 100, "gap_ms": 30}]})
    await ask(server.base_url, Cassette(path, "record"))
    clock = Time()
    tape = Cassette(path, "replay", speed=1.0, sleep=clock.sleep)
    await ask(NOWHERE, tape)
    assert sum(clock.slept) == pytest.approx(read(path)[0].chunks[-1][0] / 1000, abs=0.01)
    assert sum(clock.slept) > 0.1


async def test_an_interrupted_stream_is_not_recorded(
    messages_server: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    server = messages_server({"replies": [{**OK, "gap_ms": 50}]})
    provider = provider_of(server.base_url, Cassette(path, "record"))
    task = asyncio.ensure_future(collect(provider.stream(REQUEST)))
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.wait({task})
    await provider.close()
    assert read(path) == []


def test_a_damaged_cassette_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"format":"agent-kernel-cassette","version":1}\n{"key": 1\n')
    with pytest.raises(ValueError, match="line 2"):
        read(path)
    assert "line 2" in check(path)[0]
    path.write_text('{"format":"other"}\n')
    with pytest.raises(ValueError, match="no cassette"):
        Cassette(path, "replay")
    with pytest.raises(ValueError, match="unknown cassette mode 'rewind'"):
        Cassette(path, "rewind")  # type: ignore[arg-type]


async def test_a_cassette_can_be_shown(messages_server: Serve, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    server = messages_server({"replies": [OK]})
    await ask(server.base_url, Cassette(path, "record"))
    (line,) = show(path)
    assert line.startswith("#1 POST /v1/messages claude-sonnet-5-5 1 messages -> 200, ")
