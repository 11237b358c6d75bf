"""What passes is what was sent: bodies, streams and every fault, both ways."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import anthropic
import pytest

from agent_kernel.core.events import AssistantMessage, StreamRetry
from agent_kernel.proxy import Proxy, UpstreamError
from agent_kernel.testing import MessagesServer, Scenario
from tests.proxy.kit import (
    KEY,
    MODEL,
    asked,
    bodies,
    body_of,
    head_of,
    of,
    read_back,
    request_of,
    upstream,
)

Serve = Callable[..., MessagesServer]
SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.json"))
PROMPT = body_of([{"role": "user", "content": "Read ä.py"}])
# Faults after which there is a message, as the Messages API's own client reads them too.
ANSWERED = {
    "duplicate", "empty", "max_tokens", "pause", "refusal", "slow_first", "slow_headers",
    "stop_unknown", "tool_bad_json", "tool_cut", "unknown_block", "unknown_event", "usage_missing",
    "window_exceeded",
}  # fmt: skip


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_fault_comes_through_byte_for_byte(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "p.jsonl"
    with MessagesServer(Scenario.load(path)) as server:
        with Proxy(server.base_url, log, env={}) as proxy:
            found = asked(proxy.base_url, PROMPT)
        assert [record.body for record in server.messages] == [PROMPT]
    with MessagesServer(Scenario.load(path)) as server:
        assert found == asked(server.base_url, PROMPT)
    events, blobs, report = read_back(log)
    assert bodies(events, blobs) == [PROMPT]
    assert report.wire() == {"requests": 1, "verified": 1, "ok": True, "findings": []}
    answers, failures = of(events, AssistantMessage), of(events, StreamRetry)
    assert (len(answers), len(failures)) == ((1, 0) if path.stem in ANSWERED else (0, 1))


def test_the_first_byte_is_not_held_back(messages_server: Serve) -> None:
    server = messages_server({"replies": [{"message": {"content": []}, "gap_ms": 200}]})
    with Proxy(server.base_url, env={}) as proxy:
        port = int(proxy.base_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(head_of(port, PROMPT) + PROMPT)
            start, data, first = time.perf_counter(), b"", 0.0
            while b"message_stop" not in data:
                data += connection.recv(1 << 16)
                first = first or (b"message_start" in data and time.perf_counter() - start)
            whole = time.perf_counter() - start
    assert first < 0.15 < whole


async def test_the_real_client_streams_counts_and_lists(
    messages_server: Serve, tmp_path: Path
) -> None:
    server = messages_server(answer=lambda _: {"content": [{"type": "text", "text": "Yes."}]})
    with Proxy(server.base_url, tmp_path / "p.jsonl", env={}) as proxy:
        async with anthropic.AsyncAnthropic(base_url=proxy.base_url, api_key=KEY) as client:
            count = await client.messages.count_tokens(
                model=MODEL, messages=[{"role": "user", "content": "one"}]
            )
            assert count.input_tokens > 0
            assert [model.id async for model in client.models.list()]

            async def ask(n: int) -> int:
                prompt = [{"role": "user", "content": f"n {n % 10}"}]
                async with client.messages.stream(
                    model=MODEL, max_tokens=99, messages=prompt
                ) as stream:
                    return (await stream.get_final_message()).usage.output_tokens

            used = await asyncio.gather(*map(ask, range(20)))
        assert proxy.notices == []
    events, blobs, report = read_back(tmp_path / "p.jsonl")
    assert sorted(bodies(events, blobs)) == sorted(r.body for r in server.messages)
    assert (report.requests, report.verified, report.ok) == (20, 20, True)
    answers = [event for event in events if isinstance(event, AssistantMessage)]
    assert len({event.agent for event in answers}) == 20
    assert sum(answer.usage.output for answer in answers) == sum(used) > 0


def test_a_body_in_chunks_arrives_in_the_same_chunks(tmp_path: Path) -> None:
    seen: list[bytes] = []
    chunked = (
        b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (PROMPT[:7], PROMPT[7:])) + b"0\r\n\r\n"
    )

    def serve(connection: socket.socket) -> None:
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data += connection.recv(1 << 16)
        seen.append(data.partition(b"\r\n\r\n")[2])
        connection.sendall(b"HTTP/1.1 529 Busy\r\ncontent-length: 2\r\n\r\n{}")

    with upstream(serve) as url, Proxy(url, tmp_path / "p.jsonl", env={}) as proxy:
        port = int(proxy.base_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            head = f"POST /v1/messages HTTP/1.1\r\nHost: localhost:{port}\r\n"
            connection.sendall(head.encode() + b"transfer-encoding: chunked\r\n\r\n" + chunked)
            assert connection.recv(1 << 16).endswith(b"{}")
    assert seen == [chunked]
    events, blobs, _ = read_back(tmp_path / "p.jsonl")
    assert bodies(events, blobs) == [PROMPT]
    assert of(events, StreamRetry)[0].error == "overloaded"


def test_only_host_and_encodings_of_a_head_differ() -> None:
    heads: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        heads.append(request_of(connection)[0])
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Odd: \xe9\r\ncontent-length: 0\r\n\r\n")

    with upstream(serve) as url, Proxy(f"{url}/api/", env={}) as proxy:
        lines = ("X-Own:  two  blanks", "Accept-Encoding: gzip, br;q=0.5, zstd", "X-Own: again")
        answer = asked(proxy.base_url, PROMPT, "/v1/messages?beta=true", *lines)
    sent = heads[0].decode().split("\r\n")
    assert sent[0] == "POST /api/v1/messages?beta=true HTTP/1.1"
    assert sent[1] == f"Host: {url.removeprefix('http://')}"
    assert sent[4:7] == ["X-Own:  two  blanks", "Accept-Encoding: gzip", "X-Own: again"]
    assert b"X-Odd: \xe9\r\n" in answer


def test_a_reset_of_the_upstream_is_a_reset_of_the_client(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        request_of(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with upstream(serve) as url, Proxy(url, tmp_path / "p.jsonl", env={}) as proxy:
        assert asked(proxy.base_url, PROMPT) == b"<reset>\n"
    events, _, report = read_back(tmp_path / "p.jsonl")
    assert report.ok
    assert [(e.error, e.status) for e in of(events, StreamRetry)] == [("connection", None)]


def test_a_client_that_leaves_is_gone_for_the_upstream_too(
    messages_server: Serve, tmp_path: Path
) -> None:
    server = messages_server({"replies": [{"fault": "stall", "seconds": 60}]})
    with Proxy(server.base_url, tmp_path / "p.jsonl", env={}) as proxy:
        port = int(proxy.base_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(head_of(port, PROMPT) + PROMPT)
            connection.recv(1 << 16)
        until = time.monotonic() + 5
        while server.messages[0].closed_at is None and time.monotonic() < until:
            time.sleep(0.01)
        assert server.messages[0].closed_at is not None
    events, _, _ = read_back(tmp_path / "p.jsonl")
    assert [e.error for e in of(events, StreamRetry)] == ["cancelled"]


def test_an_upstream_that_is_not_there_is_said_in_the_apis_own_form(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with Proxy(gone, tmp_path / "p.jsonl", env={}) as proxy:
        found = asked(proxy.base_url, PROMPT)
    head, _, data = found.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502")
    assert "cannot be reached" in json.loads(data)["error"]["message"]
    events, blobs, report = read_back(tmp_path / "p.jsonl")
    assert report.ok
    assert bodies(events, blobs) == [PROMPT]


def test_another_hosts_name_is_refused(messages_server: Serve) -> None:
    server = messages_server()
    with Proxy(server.base_url, env={}) as proxy:
        port = int(proxy.base_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 421")
    assert server.requests == []


@pytest.mark.parametrize(
    "url", ["ftp://a", "a.example", "http://u:p@a.example", "https://a.example/?k=v", "http://a:b"]
)
def test_an_address_nothing_can_be_sent_to_is_named(url: str) -> None:
    with pytest.raises(UpstreamError):
        Proxy(url)


@pytest.fixture
def secure(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context for localhost, and the certificate that vouches for it."""
    key, cert = tmp_path / "k.pem", tmp_path / "c.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost".split()
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *words], capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


def test_a_certificate_nobody_vouches_for_is_refused(
    secure: tuple[ssl.SSLContext, Path],
) -> None:
    def serve(connection: socket.socket) -> None:
        with pytest.raises(OSError), secure[0].wrap_socket(connection, server_side=True) as there:
            there.recv(1)

    with upstream(serve) as url, Proxy(url.replace("http://127.0.0.1", "https://localhost")) as p:
        assert b"certificate verify failed" in asked(p.base_url, PROMPT)


def test_over_tls_the_same_bytes_pass(
    secure: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}"
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with secure[0].wrap_socket(connection, server_side=True) as there:
            seen.append(request_of(there)[1])
            there.sendall(answer)

    monkeypatch.setenv("SSL_CERT_FILE", str(secure[1]))
    with upstream(serve) as url, Proxy(url.replace("http://127.0.0.1", "https://localhost")) as p:
        assert asked(p.base_url, PROMPT) == answer
    assert seen == [PROMPT]
