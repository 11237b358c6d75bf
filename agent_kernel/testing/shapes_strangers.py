"""Shapes of other harnesses: DeepSeek Harness v0 to v4, Codex rollouts.

May not hold a line of a real session.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_kernel.core.prices import rates
from agent_kernel.testing.script import Buckets, Expected, total

Json = dict[str, Any]
Tables = dict[str, dict[str, list[Any]]]
_ONE: Buckets = (600, 50, 0, 0, 5_000)
_TWO: Buckets = (700, 60, 0, 0, 5_600)
_BEGIN = 1_796_079_467_000


def _usage(buckets: Buckets) -> Json:
    plain, out, _, _, read = buckets
    return {"inputTokens": plain, "outputTokens": out, "cacheReadTokens": read}


def _message(version: int, role: str, content: list[Json], number: int, **more: Any) -> Json:
    """Return the data of a message event: inside `message` from v3 on."""
    if version < 3:
        return {"content": content, **more}
    source = {"kind": "user" if role == "user" else "model", "model": "deepseek-v4-flash"}
    message = {"role": role, "content": content, "source": source, "id": f"id-{number}"}
    return {"message": message, **more} if role != "user" else {**message, **more}


def _result(version: int) -> Json:
    content = [{"type": "text", "text": "two"}]
    if version < 4:
        return {"callId": "call_1", "content": content, "isError": False}
    message = {"role": "tool", "toolCallId": "call_1", "content": content, "isError": False}
    return {"message": {**message, "id": "id-9"}}


def _events(version: int) -> list[tuple[str, Json, Any]]:
    """Return (type, data, surface) of a session: a prompt, a tool call, an answer."""
    call = {"type": "tool-call", "id": "call_1", "name": "bash", "arguments": '{"command":"ls"}'}
    said = {"type": "text", "text": "There are two."}
    prompt = {"source": {"kind": "user"}} if version < 3 else {}
    route = {"provenance": {"provider": "deepseek-official", "model": "deepseek-v4-flash"}}
    more = route if version < 3 else {}
    return [
        ("turn/start", {"turn": 1}, None),
        (
            "user/message",
            _message(version, "user", [{"type": "text", "text": "count"}], 1, **prompt),
            "append",
        ),
        ("step/start", {"turn": 1, "step": 1}, None),
        (
            "assistant/message",
            {
                **_message(version, "assistant", [call], 2),
                **more,
                "usage": _usage(_ONE),
                "turn": 1,
                "step": 1,
            },
            "append",
        ),
        ("tool/call", {"turn": 1, "step": 1, "callId": "call_1", "name": "bash"}, None),
        ("tool/result", _result(version), "append"),
        ("step/end", {"turn": 1, "step": 1}, None),
        (
            "assistant/message",
            {
                **_message(version, "assistant", [said], 3),
                **more,
                "usage": _usage(_TWO),
                "turn": 1,
                "step": 2,
            },
            "append",
        ),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed"}}, None),
    ]


def _lines(version: int, *, projected: bool = False) -> list[Json]:
    header = {"type": "session", "version": version, "id": "ds-1", "createdAt": _BEGIN}
    lines: list[Json] = [header | {"cwd": "/home/dev"}]
    for seq, (kind, data, surface) in enumerate(_events(version)):
        line: Json = {"type": kind, "data": data}
        if not projected:
            line |= {"seq": seq, "time": _BEGIN + 1000 * seq}
        if surface:
            line["surfaceOp"] = surface
        lines.append(line)
    return lines


def _bytes(lines: list[Json]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _expected(**issues: int) -> Expected:
    tables: Tables = {
        "sessions": {"harness": ["deepseek"], "turns": [1], "tools": [1]},
        "tools": {"answered": [True], "command": ["ls"], "result_chars": [3]},
        "turns": {"end": ["completed"], "origin": ["human"]},
    }
    dated = "projected" not in issues
    usd = _priced("deepseek-v4-flash", _ONE, _TWO) if dated else None
    return Expected(2, total(_ONE, _TWO), usd, dict(issues), tables=tables)


def _priced(model: str, *calls: Buckets) -> float:
    """Return the list price of calls on the fixtures' day."""
    found = rates(model, datetime.fromtimestamp(_BEGIN / 1000, UTC), 0)
    assert found is not None, f"{model!r} is not in the price table any more"
    plain, out, _, _, read = total(*calls)
    return found.dollars({"input": plain, "output": out, "cache_read": read}) or 0.0


def _deepseek(folder: Path, version: int) -> Expected:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.jsonl").write_bytes(_bytes(_lines(version)))
    return _expected()


def deepseek_v0(folder: Path) -> Expected:
    """68: v0, messages at the top of data."""
    return _deepseek(folder, 0)


def deepseek_v1_packed(folder: Path) -> Expected:
    """68: v1, streamed chunks packed into rows of their own."""
    lines = _lines(1)
    packed = {"type": "text-chunks", "seq0": 100, "time0": _BEGIN, "data": {"texts": ["a", "b"]}}
    lines.insert(4, packed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.jsonl").write_bytes(_bytes(lines))
    return _expected()


def deepseek_v2_stream(folder: Path) -> Expected:
    """68: v2, chunks inside the message, failed tries as attempts without usage."""
    lines = _lines(2)
    lines[4]["data"]["stream"] = [{"type": "chunk", "time": _BEGIN}, {"time": _BEGIN + 500}]
    attempt = {"type": "assistant/attempt", "seq": 50, "time": _BEGIN, "data": {"turn": 1}}
    lines.insert(4, attempt)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.jsonl").write_bytes(_bytes(lines))
    return _expected()


def deepseek_v3(folder: Path) -> Expected:
    """68: v3, messages inside `message`, with ids."""
    return _deepseek(folder, 3)


def deepseek_v4(folder: Path) -> Expected:
    """68: v4, tool results with the role tool."""
    return _deepseek(folder, 4)


def deepseek_projected(folder: Path) -> Expected:
    """68: snapshots without seq and time: seq by position, time unknown, and said."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.jsonl").write_bytes(_bytes(_lines(0, projected=True)))
    return _expected(projected=1, no_rate=1)


def _frames(count: int) -> bytes:
    import zstandard

    packer = zstandard.ZstdCompressor()
    lines = _lines(4)
    size = -(-len(lines) // count)
    pieces = [lines[at : at + size] for at in range(0, len(lines), size)]
    return b"".join(packer.compress(_bytes(piece)) for piece in pieces)


def deepseek_zstd_of_three_frames(folder: Path) -> Expected:
    """68: many zstd frames in one file are read across."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.v4.jsonl.zstd").write_bytes(_frames(3))
    return _expected()


def deepseek_zstd_cut(folder: Path) -> Expected:
    """68: a cut last frame gives its complete lines, and a torn tail."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.v4.jsonl.zstd").write_bytes(_frames(10)[:-7])
    found = _expected(torn_tail=1)
    found.tables["turns"]["end"] = ["completed"]
    return found


def deepseek_replace(folder: Path) -> Expected:
    """69: a span whose start stands after its end, and sources that miss a hidden event."""
    lines = _lines(4)
    text = [{"type": "text", "text": "A checkpoint."}]
    source = {"kind": "compact-checkpoint", "compactionId": "c1"}
    data = {"role": "user", "content": text, "source": source, "id": "id-20"}
    span = {"op": "replace", "startSeq": 5, "endSeq": 1}
    lines.append(
        {
            "type": "user/message",
            "seq": 9,
            "time": _BEGIN + 9000,
            "data": data,
            "sourceEventSeqs": [1, 3],
            "surfaceOp": span,
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.jsonl").write_bytes(_bytes(lines))
    found = _expected(bad_provenance=1)
    chain = {1: "history", 3: "history", 5: "history", 7: "official", 9: "official"}
    found.tables["records"] = {
        "chain": ["side_line", *(chain.get(seq, "side_line") for seq in range(10))]
    }
    found.tables["compactions"] = {"kind": ["auto"], "compaction_id": ["c1"]}
    return found


# ---- codex ---------------------------------------------------------------------------------------


def _count(now: list[int], last: list[int]) -> Json:
    names = (
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "reasoning_output_tokens",
        "total_tokens",
    )
    info = {
        "total_token_usage": dict(zip(names, now, strict=True)),
        "last_token_usage": dict(zip(names, last, strict=True)),
    }
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def _rollout(session: str, **meta: Any) -> list[Json]:
    payload = {"id": session, "cli_version": "0.104.0", "model_provider": "openai", **meta}
    user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    call = {
        "type": "function_call",
        "name": "exec_command",
        "call_id": "call_1",
        "arguments": '{"cmd":"ls"}',
    }
    output = {"type": "function_call_output", "call_id": "call_1", "output": "two"}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "There are two."}],
    }
    lines = [
        {"type": "session_meta", "payload": payload},
        {"type": "turn_context", "payload": {"model": "gpt-5.3-codex"}},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "hi"}},
        {"type": "response_item", "payload": user},
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        {"type": "response_item", "payload": call},
        _count([1000, 400, 50, 10, 1050], [1000, 400, 50, 10, 1050]),
        _count([1000, 400, 50, 10, 1050], [1000, 400, 50, 10, 1050]),
        {"type": "response_item", "payload": output},
        {"type": "response_item", "payload": said},
        _count([2200, 1400, 80, 10, 2280], [1200, 1000, 30, 0, 1230]),
        {"type": "event_msg", "payload": {"type": "task_complete"}},
    ]
    stamp = "2026-02-01T12:00:{:02d}.000Z"
    return [{"timestamp": stamp.format(n), **line} for n, line in enumerate(lines)]


_CODEX: tuple[Buckets, Buckets] = ((600, 50, 0, 0, 400), (200, 30, 0, 0, 1000))


def codex_repeats(folder: Path) -> Expected:
    """70: a repeated total is no call; the calls sum to the file's own total."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rollout-1.jsonl").write_bytes(_bytes(_rollout("cx-1")))
    tables: Tables = {
        "sessions": {"harness": ["codex"], "turns": [1]},
        "tools": {"command": ["ls"], "answered": [True]},
        "turns": {"end": ["completed"]},
    }
    return Expected(2, total(*_CODEX), _priced("gpt-5.3-codex", *_CODEX), tables=tables)


def codex_forked_replay(folder: Path) -> Expected:
    """71: a fork repeats its parent's counts before its own; they count once, as the parent's."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rollout-1.jsonl").write_bytes(_bytes(_rollout("cx-1")))
    more = _rollout("cx-2", forked_from_id="cx-1")
    more.append(
        {
            "timestamp": "2026-02-01T13:00:00.000Z",
            **_count([2300, 1400, 90, 10, 2390], [100, 0, 10, 0, 110]),
        }
    )
    (folder / "rollout-2.jsonl").write_bytes(_bytes(more))
    usd = _priced("gpt-5.3-codex", *_CODEX, (100, 10, 0, 0, 0))
    tables = {"calls": {"session_id": ["cx-1", "cx-1", "cx-2"]}}
    return Expected(3, total(*_CODEX, (100, 10, 0, 0, 0)), usd, tables=tables)


def codex_fork_without_its_parent(folder: Path) -> Expected:
    """71: without the parent's file the repeated counts have no other witness, and it is said."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = _rollout("cx-2", forked_from_id="cx-1")
    (folder / "rollout-2.jsonl").write_bytes(_bytes(lines))
    return Expected(2, total(*_CODEX), _priced("gpt-5.3-codex", *_CODEX), {"replay_unresolved": 1})


def codex_compacted(folder: Path) -> Expected:
    """72: a compacted line is a compaction."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = _rollout("cx-1")
    payload = {"message": "short", "replacement_history": [{"type": "message"}]}
    lines.append({"timestamp": "2026-02-01T13:00:00.000Z", "type": "compacted", "payload": payload})
    (folder / "rollout-1.jsonl").write_bytes(_bytes(lines))
    tables: Tables = {"compactions": {"kind": ["auto"], "summary_chars": [5]}}
    return Expected(2, total(*_CODEX), _priced("gpt-5.3-codex", *_CODEX), tables=tables)
