"""The verb: a command behind the proxy keeps its terminal, its environment and its status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.testing import MessagesServer
from tests.proxy.kit import KEY, read_back

Serve = Callable[..., MessagesServer]
ASK = """
import os, sys, urllib.request
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", sys.argv[1].encode(),
    {"x-api-key": os.environ["A_KEY"]},
)
print(urllib.request.urlopen(request).status)
"""
BODY = '{"messages": [{"content": "Öl?", "role": "user"}], "max_tokens": 9, "model": "m"}'


def ran(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "agent_kernel", "proxy", *words]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)


def test_a_harness_is_recorded_and_its_request_shown_byte_for_byte(
    messages_server: Serve, workspace: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    server = messages_server()
    env = {**os.environ, "ANTHROPIC_BASE_URL": server.base_url, "A_KEY": KEY}
    done = ran("--", sys.executable, "-c", ASK, BODY, env=env)
    assert (done.returncode, done.stdout) == (0, b"200\n")
    assert done.stderr.decode().startswith("agent-kernel proxy: 1 request recorded; ")
    log = workspace / "proxy.agent.jsonl"
    assert read_back(log)[2].ok
    assert server.messages[0].body == BODY.encode()
    assert cli.main(["request", str(log), "1.1", "--json"]) == 0
    assert capfdbinary.readouterr().out == BODY.encode() + b"\n"
    assert cli.main(["request", str(log), "1.1"]) == 0
    assert "Öl?" in capfdbinary.readouterr().out.decode()
    assert cli.main(["replay", str(log), "--verify", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["verified"] == 1
    assert cli.main(["frames", "calls", str(log)]) == 0
    assert ran("--", sys.executable, "-c", "", env=env).returncode == 0
    assert (workspace / "proxy.agent.2.jsonl").exists()


def test_only_the_address_differs_in_the_environment(tmp_path: Path) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    env = {**os.environ, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ODD": "ä"}
    done = ran("--out", str(tmp_path / "p.jsonl"), "--", sys.executable, "-c", code, env=env)
    there = json.loads(done.stdout)
    assert there.pop("ANTHROPIC_BASE_URL").startswith("http://127.0.0.1:")
    assert there == {key: value for key, value in env.items() if key != "ANTHROPIC_BASE_URL"}


@pytest.mark.parametrize(
    "code,status",
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)],
)
def test_the_status_is_the_commands_own(code: str, status: int, tmp_path: Path) -> None:
    done = ran("--out", str(tmp_path / "p.jsonl"), "--", sys.executable, "-c", code)
    assert done.returncode == status


def test_a_signal_reaches_the_command(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    words = ["--out", str(tmp_path / "p.jsonl"), "--", sys.executable, "-c", code]
    command = [sys.executable, "-m", "agent_kernel", "proxy", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 5


@pytest.mark.parametrize(
    "words,said",
    [
        (["--", "no-such-command-anywhere"], "there is no command"),
        (["--upstream", "ftp://a", "--", sys.executable], "is no http or https address"),
        (["--out", "folder", "--", sys.executable], "is not a regular file"),
    ],
)
def test_what_cannot_start_is_said(
    words: list[str], said: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "folder").mkdir()
    assert cli.main(["proxy", *words]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in workspace.iterdir()] == ["folder"]


def test_a_log_another_process_writes_is_refused(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from agent_kernel.proxy import Proxy

    with Proxy("http://127.0.0.1:9", workspace / "p.jsonl"):
        assert ran("--out", "p.jsonl", "--", sys.executable, "-c", "").returncode == 2
