"""One scenario a fault: its JSON file, and the exact bytes a plain socket reads from it."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import pytest

from agent_kernel.testing import FAULTS, MessagesServer, Scenario

FOLDER = Path(__file__).parents[1] / "scenarios"
FILES = sorted(FOLDER.glob("*.json"))
BODY = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1024,
    "stream": True,
    "messages": [{"role": "user", "content": "Read a.py"}],
}


def raw_answer(server: MessagesServer, body: dict[str, object]) -> bytes:
    """Everything a plain socket reads until the server ends the connection."""
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: test\r\nconnection: close\r\n"
        f"content-length: {len(data)}\r\n\r\n"
    )
    port = int(server.base_url.rpartition(":")[2])
    out = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(head.encode() + data)
        try:
            while piece := connection.recv(1 << 16):
                out += piece
        except ConnectionResetError:
            out += b"<reset>\n"
    return re.sub(rb"(?m)^date: [^\r\n]+GMT\r$", b"date: -\r", out)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_fault_is_these_bytes(path: Path) -> None:
    with MessagesServer(Scenario.load(path)) as server:
        found = raw_answer(server, BODY)
    golden = path.with_suffix(".raw")
    if os.environ.get("AK_WRITE_GOLDEN") == "1":
        golden.write_bytes(found)
    assert found == golden.read_bytes()


def test_every_fault_has_its_scenario() -> None:
    assert {path.stem for path in FILES} == set(FAULTS)
    for path in FILES:
        scenario = Scenario.load(path)
        assert [reply["fault"] for reply in scenario.replies] == [path.stem]


@pytest.mark.parametrize(
    "data,words",
    [
        ({"replies": [{"fault": "rate-limit"}]}, "unknown fault 'rate-limit'"),
        ({"replies": [{"when": {"says": "x"}}]}, "unknown `when`"),
        ({"otherwise": "stop"}, "`otherwise` is 'stop'"),
    ],
)
def test_a_wrong_scenario_is_named(data: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Scenario.of(data)
