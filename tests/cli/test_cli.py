"""The command line: each verb by its exit status and what it prints."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from agent_kernel import cli
from agent_kernel.core.events import RequestContext
from agent_kernel.core.messages import dumps
from agent_kernel.core.reading import chain_hash
from agent_kernel.core.replay import requests
from agent_kernel.core.session import Session
from agent_kernel.testing import shapes


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        status = cli.main(list(words))
    except SystemExit as end:
        status = int(end.code or 0)
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.fixture
def turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    """A folder in which one turn ran, and its log."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("a\nb\n")
    status, out, err = ran(capsys, "run", "-p", "show notes.md", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["reason"] == "completed"
    return tmp_path / "session.agent.jsonl"


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "help")
    assert status == 0
    assert all(f"  {verb.name}" in out for verb in cli.ALL)


def test_an_unknown_verb_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capsys, "totls", "x")
    assert (status, out) == (2, "")
    assert "'totals'" in err


@pytest.mark.parametrize("verb", [verb.name for verb in cli.ALL])
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, verb, "--help")
    assert status == 0
    assert out.startswith(f"usage: agent-kernel {verb}")


def test_a_prompt_runs_one_turn_and_tells_its_result(turn: Path) -> None:
    session = Session.open(turn)
    assert session.state().turn == 1
    assert sum(isinstance(e, RequestContext) for e in session.events) == 2


def test_a_second_prompt_goes_on_in_the_same_session(
    turn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ran(capsys, "run", "-p", "count the files", "--json")
    assert status == 0
    told = json.loads(out)
    assert told["session"] == Session.open(turn).id
    assert Session.open(turn).state().turn == 2


def test_headless_denies_and_tells_the_rule_that_would_allow(
    turn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ran(capsys, "run", "-p", "run `touch made.txt`", "--json")
    assert status == 0
    assert len(json.loads(out)["denials"]) == 1
    assert not turn.with_name("made.txt").exists()
    allow = ("--allow", "Bash(touch made.txt)")
    ran(capsys, "run", "-p", "run `touch made.txt`", *allow)
    assert turn.with_name("made.txt").exists()


def test_replay_verifies_every_request(turn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "replay", str(turn), "--verify", "--json")
    assert status == 0
    assert json.loads(out) == {"requests": 2, "verified": 2, "ok": True, "findings": []}


def test_replay_finds_a_changed_byte_and_names_its_seq(
    turn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turn.write_bytes(turn.read_bytes().replace(b"show notes.md", b"show Notes.md", 2))
    status, out, _ = ran(capsys, "replay", str(turn), "--verify", "--json")
    assert status == 1
    found = json.loads(out)["findings"]
    assert {1, 2} <= {f["seq"] for f in found if f["code"] == "broken_hash"}


def test_replay_finds_an_edited_line_whose_chain_was_made_anew(
    turn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, previous = [], b""
    for raw in turn.read_bytes().splitlines():
        wire = json.loads(raw)
        if wire["type"] == "tool/result":
            wire["content"][0]["text"] += " and more"
            changed = wire["seq"]
        del wire["h"]
        payload = dumps(wire)
        previous = chain_hash(previous, payload)
        lines.append(payload[:-1] + b',"h":"' + previous.hex().encode() + b'"}\n')
    turn.write_bytes(b"".join(lines))
    status, out, _ = ran(capsys, "replay", str(turn), "--verify", "--json")
    report = json.loads(out)
    assert status == 1
    assert report["verified"] == 1
    assert [f["seq"] for f in report["findings"]] == [changed]


def test_request_prints_the_exact_bytes(turn: Path) -> None:
    command = [sys.executable, "-m", "agent_kernel", "request", str(turn), "1.2", "--json"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    *_, (_, request) = requests(Session.open(turn).events)
    assert printed == request.body + b"\n"


@pytest.mark.parametrize("at", ["9.1", "x", "1.x"])
def test_a_request_that_is_not_there_is_bad_input(
    turn: Path, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ran(capsys, "request", str(turn), at)
    assert (status, out) == (2, "")
    assert at in err


def test_request_diff_says_what_was_added(turn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "request", str(turn), "1.2", "--diff", "1.1")
    assert status == 0
    assert "same prefix" in out


def test_next_says_what_a_log_would_do(turn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "next", str(turn))
    assert status == 0
    assert out.strip()


@pytest.mark.parametrize("verb", [["replay"], ["next"], ["request"]])
def test_a_missing_or_foreign_file_is_one_line_and_exit_2(
    tmp_path: Path, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rest = ["1.1"] if verb == ["request"] else []
    status, _, err = ran(capsys, *verb, str(tmp_path / "none.jsonl"), *rest)
    assert status == 2
    assert err.count("\n") == 1
    (tmp_path / "other.jsonl").write_text("nothing of ours\n")
    status, _, err = ran(capsys, *verb, str(tmp_path / "other.jsonl"), *rest)
    assert status == 2


def test_model_says_the_demo_and_never_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ran(capsys, "model", "--json")
    assert (status, json.loads(out)["provider"]) == (0, "demo")
    secret = "sk-" + "ant-" + "not-a-key-0123456789"
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    status, out, err = ran(capsys, "model", "--json")
    told = json.loads(out)
    assert told["key"] == {"found": True, "from": "ANTHROPIC_API_KEY"}
    assert secret[-8:] not in out + err


def test_guard_answers_line_by_line_and_marks_bad_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"id": "1", "tool": "Bash", "input": "ls && touch pwn", "rules": "allow Bash(ls:*)"},
        {"id": "2", "tool": "Bash", "input": "ls", "rules": "RO"},
    ]
    text = "\n".join(json.dumps({**line, "mode": "ask", "cwd": "/srv/app"}) for line in lines)
    monkeypatch.setattr("sys.stdin", io.StringIO(text + "\n"))
    status, out, _ = ran(capsys, "guard", "permit", "--jsonl")
    assert status == 0
    assert [json.loads(line)["verdict"] for line in out.splitlines()] == ["ask", "allow"]
    monkeypatch.setattr("sys.stdin", io.StringIO("nonsense\n"))
    status, out, _ = ran(capsys, "guard", "permit", "--jsonl")
    assert status == 1
    assert "error" in json.loads(out)


def test_guard_import_prints_one_line_a_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.json"
    rules = {"allow": ["Bash(npm run test:*)", "Bash(bash:*)"], "deny": ["Read(.env)"]}
    file.write_text(json.dumps({"permissions": rules}))
    status, out, _ = ran(capsys, "guard", "import", str(file))
    assert status == 0
    assert len(out.splitlines()) == 3
    assert "refused" in out


def test_totals_and_frames_read_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = shapes.ALL["one-response-over-four-lines"](tmp_path)
    status, out, _ = ran(capsys, "totals", str(tmp_path), "--json")
    assert status == 0
    assert json.loads(out)["total"]["calls"] == expected.calls
    status, out, _ = ran(capsys, "frames", "calls", str(tmp_path), "--format", "csv")
    assert status == 0
    assert len(out.splitlines()) == expected.calls + 1
    status, _, _ = ran(capsys, "doctor", str(tmp_path), "--json")
    assert status in (0, 1)


def test_totals_of_our_own_log_count_its_requests(
    turn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ran(capsys, "totals", str(turn), "--json")
    told = json.loads(out)
    assert status == 0
    assert told["total"]["calls"] == 2
    assert told["unpriced"]


def test_totals_loads_no_heavy_package(tmp_path: Path) -> None:
    shapes.ALL["one-response-over-four-lines"](tmp_path)
    code = (
        "import sys; from agent_kernel.cli import main; main(['totals', sys.argv[1], '--json'])\n"
        "heavy = {'pandas', 'numpy', 'pyarrow', 'anthropic', 'nbformat'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.PIPE)


def test_the_server_prints_its_address_and_ends_on_a_signal() -> None:
    command = [sys.executable, "-m", "agent_kernel", "messages-server", "--demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        request = urllib.request.Request(f"{address}/v1/models", headers={"x-api-key": "demo"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert "demo" in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


def test_output_into_a_closed_pipe_is_no_error(turn: Path) -> None:
    code = f"{sys.executable} -m agent_kernel request {turn} 1.1 | head -c 10"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def test_embed_and_extract_give_the_log_back(
    turn: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session.open(turn)
    record = {
        "schema": 1,
        "session": session.id,
        "turn": 1,
        "seq": [1, session.log.next_seq - 1],
        "head_h": session.log.hash_at(session.log.next_seq - 1),
        "sidecar": turn.name,
        "steps": 2,
        "usage": {},
        "cost": None,
    }
    output = {"output_type": "display_data", "data": {}, "metadata": {"agent_kernel": record}}
    cell = {
        "cell_type": "code", "id": "a", "source": "%%agent\nx", "metadata": {},
        "execution_count": 1, "outputs": [output],
    }  # fmt: skip
    nb = turn.with_name("nb.ipynb")
    nb.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    data = turn.read_bytes()
    assert ran(capsys, "embed", str(nb))[0] == 0
    turn.unlink()
    assert ran(capsys, "extract", str(nb))[0] == 0
    assert turn.read_bytes() == data
    turn.write_bytes(data + b"more")
    status, _, err = ran(capsys, "extract", str(nb))
    assert status == 2
    assert "--force" in err
    assert turn.exists()


@pytest.mark.parametrize(
    "words, said",
    [(("-p", " "), "the prompt is empty"), (("-p", "hi", "--timeout", "-3"), "seconds above 0")],
)
def test_a_run_that_cannot_begin_is_refused_in_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ran(capsys, "run", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
