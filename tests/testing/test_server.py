"""The loopback Messages API: what it answers, refuses, counts and keeps."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anthropic
import pytest

from agent_kernel.testing import MessagesServer
from tests.core.test_validate import FAILING, PASSING

USER = {"role": "user", "content": "Read a.py"}
BODY: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [USER]}
ANSWER = {
    "content": [
        {"type": "thinking", "thinking": "Let me see — 数据.", "signature": "c2ln"},
        {"type": "text", "text": "I look at naïve text. 🙂"},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "ä.py", "n": [1]}},
    ]
}


def post(
    server: MessagesServer,
    body: Any,
    path: str = "/v1/messages",
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    """Status and JSON of one POST."""
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=10)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, headers or {"x-api-key": "k"})
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    return response.status, found


@pytest.mark.parametrize(
    "more", [{}, {"chars": 1}, {"chars": 7, "split_bytes": 7}, {"split_bytes": 1}]
)
def test_the_real_client_reads_every_good_answer(more: dict[str, Any]) -> None:
    with MessagesServer({"replies": [{"message": ANSWER, **more}], "otherwise": "repeat"}) as s:
        client = anthropic.Anthropic(api_key="k", base_url=s.base_url, max_retries=0)
        whole = client.messages.create(**BODY)
        with client.messages.stream(**BODY) as stream:
            streamed = stream.get_final_message()
        client.close()
    for message in (whole, streamed):
        found = [block.model_dump(exclude_none=True) for block in message.content]
        assert found == ANSWER["content"]
        assert message.stop_reason == "tool_use"
        assert message.usage.output_tokens > 1


def test_the_exact_bytes_of_a_request_are_kept() -> None:
    raw = b'{"model":"m", "max_tokens" : 9,\n "messages":[{"role":"user","content":"\\u00e9"}]}'
    with MessagesServer() as s:
        assert post(s, raw, headers={"x-api-key": "k", "x-other": "Yes"})[0] == 200
        (record,) = s.requests
    assert record.body == raw
    assert record.json["messages"][0]["content"] == "é"
    assert (record.n, record.method, record.path, record.reply) == (
        0,
        "POST",
        "/v1/messages",
        "message",
    )
    assert record.headers["x-other"] == "Yes"
    assert record.closed_at is not None
    assert record.closed_at >= record.at


@pytest.mark.parametrize(
    "headers,status",
    [
        ({}, 401),
        ({"x-api-key": ""}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Bearer k"}, 200),
        ({"x-api-key": "k"}, 200),
    ],
)
def test_a_request_without_a_key_is_refused(headers: dict[str, str], status: int) -> None:
    with MessagesServer() as s:
        assert post(s, BODY, headers={"x-nothing": "1", **headers})[0] == status


@pytest.mark.parametrize(
    "more,words",
    [
        ({"temperature": 0}, "temperature"),
        ({"top_k": 1}, "top_k"),
        ({"invented": 1}, "invented: Extra inputs are not permitted"),
        ({"context_management": {"edits": []}}, "context_management"),
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": "hi"}, "messages"),
    ],
)
def test_fields_the_api_refuses_are_refused(more: dict[str, Any], words: str) -> None:
    with MessagesServer() as s:
        status, body = post(s, {**BODY, **more})
        assert status == 400
        assert words in body["error"]["message"]
    with MessagesServer(strict=False) as s:
        assert post(s, {**BODY, "temperature": 0})[0] == 200


def test_a_beta_field_needs_the_beta_header() -> None:
    body = {**BODY, "context_management": {"edits": []}}
    with MessagesServer() as s:
        headers = {"x-api-key": "k", "anthropic-beta": "context-management-2025-06-27"}
        assert post(s, body, headers=headers)[0] == 200


LISTS = [(row, True) for row in PASSING] + [(row, False) for row in FAILING]


@pytest.mark.parametrize("row,valid", LISTS, ids=[row[0] for row, _ in LISTS])
def test_it_refuses_exactly_what_the_validator_calls_an_api_violation(
    row: tuple[Any, ...], valid: bool
) -> None:
    what, messages, profile, keywords = row[:4]
    if "sendable" in keywords:
        return  # a list that is not to be sent
    body: dict[str, Any] = {**BODY, "messages": messages}
    tools = keywords.get("tools")
    if tools is None:
        names = sorted({n for n in ("read", "gone") if n in json.dumps(messages)})
        schema = {"type": "object"}
        body["tools"] = [{"name": n, "description": "d", "input_schema": schema} for n in names]
    elif tools:
        body["tools"] = [tool.wire() for tool in tools]
    if keywords.get("context_edits"):
        body["context_management"] = {"edits": list(keywords["context_edits"])}
    refused = not valid and any(expected[1] == "api" for expected in row[4])
    headers = {"x-api-key": "k", "anthropic-beta": "b"}
    with MessagesServer(profile=profile) as s:
        status, answer = post(s, body, headers=headers)
    assert (status == 400) is refused, (what, answer)


def test_an_open_call_is_refused_in_the_apis_words() -> None:
    call = {"type": "tool_use", "id": "toolu_9", "name": "read", "input": {}}
    messages = [USER, {"role": "assistant", "content": [call]}, USER]
    tools = [{"name": "read", "description": "d", "input_schema": {"type": "object"}}]
    with MessagesServer() as s:
        _, body = post(s, {**BODY, "messages": messages, "tools": tools})
    assert body["error"]["message"] == (
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "toolu_9. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message."
    )


def test_it_counts_and_lists_models() -> None:
    with MessagesServer() as s:
        short = post(s, BODY, "/v1/messages/count_tokens")[1]["input_tokens"]
        longer = {**BODY, "messages": [{"role": "user", "content": "x" * 4000}]}
        long = post(s, longer, "/v1/messages/count_tokens")[1]["input_tokens"]
        assert 900 < long - short < 1100
        client = anthropic.Anthropic(api_key="k", base_url=s.base_url)
        assert [model.id for model in client.models.list()][-1] == "demo"
        client.close()
        assert post(s, BODY, "/v1/nothing")[0] == 404


def test_replies_are_chosen_by_their_conditions() -> None:
    said = {"content": [{"type": "text", "text": "one"}]}
    replies = [
        {"when": {"contains": "b.py"}, "message": {"content": [{"type": "text", "text": "b"}]}},
        {"when": {"model": "other"}, "message": {"content": [{"type": "text", "text": "other"}]}},
        {"when": {"attempt": 2}, "message": {"content": [{"type": "text", "text": "again"}]}},
        {"message": said},
    ]
    with MessagesServer({"scenario": "four", "replies": replies}) as s:
        texts = [post(s, BODY)[1]["content"][0]["text"] for _ in range(2)]
        asked = {**BODY, "messages": [{"role": "user", "content": "see b.py"}]}
        texts.append(post(s, asked)[1]["content"][0]["text"])
        texts.append(post(s, {**BODY, "model": "other"})[1]["content"][0]["text"])
        status, body = post(s, BODY)
    assert texts == ["one", "again", "b", "other"]
    assert status == 500
    assert "'four'" in body["error"]["message"]


def test_after_the_replies_the_answer_function_speaks() -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"{len(body['messages'])} messages"}]}

    with MessagesServer({"replies": [{"fault": "overloaded"}], "otherwise": "answer"}, answer) as s:
        assert post(s, BODY)[0] == 529
        assert post(s, BODY)[1]["content"][0]["text"] == "1 messages"


def test_many_clients_are_served_at_once() -> None:
    answer = {"message": {"content": [{"type": "text", "text": "hi " * 20}]}, "gap_ms": 10}
    with MessagesServer({"replies": [answer], "otherwise": "repeat"}) as s:
        found: list[int] = []
        body = {**BODY, "stream": False}
        threads = [
            threading.Thread(target=lambda: found.append(post(s, body)[0])) for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert found == [200] * 16
    assert sorted(record.n for record in s.requests) == list(range(16))


def test_stopping_ends_what_still_hangs() -> None:
    def ask(server: MessagesServer) -> None:
        with pytest.raises(OSError):
            post(server, BODY)

    with MessagesServer({"replies": [{"fault": "slow_headers"}]}) as s:
        thread = threading.Thread(target=ask, args=(s,))
        thread.start()
        while not s.requests:
            pass
    thread.join(5)
    assert not thread.is_alive()


def test_it_is_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"replies": [{"fault": "overloaded"}], "otherwise": "answer"}))
    command = [sys.executable, "-m", "agent_kernel.testing", str(path), "--demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        server = MessagesServer()
        server.base_url = base_url
        assert post(server, BODY)[0] == 529
        status, body = post(server, {**BODY, "messages": [{"role": "user", "content": "help"}]})
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert status == 200
    assert "fixed rules, no language model" in body["content"][0]["text"]


def test_it_loads_no_client_library() -> None:
    code = (
        "import sys; from agent_kernel.testing import MessagesServer\n"
        "import agent_kernel.testing.main\n"
        "print([n for n in ('anthropic','httpx2','httpx','pandas') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
