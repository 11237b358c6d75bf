"""DeepSeek requests: each main request is rebuilt from the log's surface and header alone."""

from __future__ import annotations

import json

from agent_kernel.cli import main
from agent_kernel.transcripts.deepseek_requests import requests

TOOL = {"name": "bash", "description": "Run.", "parameters": {"type": "object"}}


def text(said):
    return {"type": "text", "text": said}


def message(role, *content, **more):
    return {"message": {"role": role, "content": list(content), **more}}


def event(seq, kind, data, place="append"):
    made = {"type": kind, "seq": seq, "time": 1_796_000_000_000 + seq, "data": data}
    return made if place is None else made | {"surfaceOp": place}


def answer(seq, *content, signature=None):
    state = [{"type": b["type"]} for b in content]
    if signature:
        state[0]["signature"] = signature
    source = {"kind": "model", "replayState": {"blocks": state}}
    return event(seq, "assistant/message", message("assistant", *content, source=source))


def header(seq, model, limit):
    config = {"model": model, "maxTokens": limit}
    return event(seq, "request/header", {"header": {"config": config, "tools": [TOOL]}}, None)


CALL = {"type": "tool-call", "id": "t1", "name": "bash", "arguments": '{"command": "ls"}'}
LOG = [
    {"type": "session", "version": 4, "id": "ds", "createdAt": 1_796_000_000_000, "cwd": "/w"},
    event(1, "system/message", message("system", text("Be brief."))),
    event(2, "user/message", {"role": "user", "content": [text("look")]}),
    event(3, "user/message", {"role": "user", "content": [text("Working directory: /w")]}),
    header(4, "deepseek-v4-flash", 900),
    event(5, "assistant/attempt", {"turn": 1, "step": 1}, None),
    answer(6, {"type": "reasoning", "text": "hm"}, text("I look."), CALL, signature="s1"),
    event(7, "tool/result", message("tool", text("a.py"), toolCallId="t1")),
    answer(8, text("One file.")),
    event(9, "user/message", {"role": "user", "content": [text("summary")]},
          {"op": "replace", "startSeq": 8, "endSeq": 2}),
    event(10, "user/message", {"role": "user", "content": [text("more")]}),
    header(11, "deepseek-v4", 800),
    answer(12, text("No.")),
]  # fmt: skip
START = {"role": "user", "content": [text("look"), text("Working directory: /w")]}


def test_every_main_request_is_rebuilt_as_it_was_sent():
    made = list(requests(LOG))
    assert [seq for seq, _ in made] == [5, 6, 8, 12]
    failed, first, second, third = (request for _, request in made)
    assert failed == first == {
        "model": "deepseek-v4-flash",
        "max_tokens": 900,
        "system": "Be brief.",
        "tools": [{"name": "bash", "description": "Run.", "input_schema": {"type": "object"}}],
        "messages": [START],
    }  # fmt: skip
    asked = [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        text("I look."),
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
    ]
    told = {
        "type": "tool_result", "tool_use_id": "t1", "content": [text("a.py")], "is_error": False
    }  # fmt: skip
    assert second["messages"] == [
        START, {"role": "assistant", "content": asked}, {"role": "user", "content": [told]}
    ]  # fmt: skip
    assert third["messages"] == [{"role": "user", "content": [text("summary"), text("more")]}]
    assert (third["model"], third["max_tokens"], third["system"]) == (
        "deepseek-v4", 800, "Be brief."
    )  # fmt: skip


def test_the_doctor_holds_its_last_request_to_the_rules(tmp_path, capsys):
    path = tmp_path / "session.jsonl"
    lost = [line for line in LOG[:9] if line.get("seq") != 7]
    path.write_text("".join(json.dumps(line) + "\n" for line in lost))
    main(["doctor", str(path), "--json"])
    (report,) = json.loads(capsys.readouterr().out)["files"]
    assert report["pairs"]
    assert "ends in an assistant message" in report["pairs"][0]["text"]
    path.write_text("".join(json.dumps(line) + "\n" for line in LOG))
    main(["doctor", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["files"][0]["pairs"] == []
