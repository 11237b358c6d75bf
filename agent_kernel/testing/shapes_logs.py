"""Shapes of logs: side lines, attachments, notifications, mixed folders, our own log.

May not hold a line of a real session.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_kernel.testing.script import Buckets, Expected, Script, expected, said, use

_A: Buckets = (10, 400, 1000, 0, 0)
_B: Buckets = (2, 300, 50, 200, 1000)


def side_lines(folder: Path) -> Expected:
    """56: side lines are records and never stand in the chain, whatever ids they name."""
    s = Script()
    first = s.user("go")
    s.line({"type": "file-history-snapshot", "messageId": first, "snapshot": {}})
    s.line({"type": "queue-operation", "operation": "enqueue", "sessionId": s.session})
    s.line({"type": "summary", "summary": "A title", "leafUuid": first})
    s.line({"type": "last-prompt", "lastPrompt": "go", "sessionId": s.session})
    s.answer(1, [said("a")], _A)
    s.write(folder)
    chain = ["official", *["side_line"] * 4, "official"]
    return expected(_A, tables={"records": {"chain": chain}, "sessions": {"title": ["A title"]}})


def attachments(folder: Path) -> Expected:
    """58: what the harness adds is an attachment, no prompt."""
    s = Script()
    s.user("go")
    for kind in ("skill_listing", "agent_listing_delta", "todo_reminder"):
        s.node("attachment", attachment={"type": kind, "content": "some text"})
    s.user("<system-reminder>be brief</system-reminder>", isMeta=True)
    s.answer(1, [said("a")], _A)
    s.write(folder)
    sources = ["prompt", *["attachment"] * 4, "assistant"]
    return expected(_A, tables={"blocks": {"source": sources}, "sessions": {"turns": [1]}})


def notification_between_steps(folder: Path) -> Expected:
    """A background task ends while the agent works: a task, a notice, and no new turn."""
    s = Script()
    s.user("go")
    s.answer(1, [use("Bash", 1, command="make", run_in_background=True)], _A)
    s.result(1, "started", toolUseResult={"backgroundTaskId": "b1"})
    text = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n"
    extra = {"type": "queued_command", "commandMode": "task-notification", "prompt": text}
    s.node("attachment", attachment=extra)
    s.answer(2, [said("It is done.")], _B)
    s.write(folder)
    task = {"task_id": ["b1"], "status": ["completed"], "notices": [1], "kind": ["bash"]}
    return expected(_A, _B, tables={"tasks": task, "turns": {"end": ["completed"]}})


def two_formats_in_one_folder(folder: Path) -> Expected:
    """78, 79: each file has its reader; a stranger's file is one issue."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A)
    s.write(folder)
    gemini = {"sessionId": "g", "projectHash": "00", "messages": []}
    (folder / "gemini.jsonl").write_text(json.dumps(gemini, indent=2))
    _own(folder / "mine.jsonl")
    found = expected(_A, _OWN, issues={"unknown_format": 1})
    found.calls = 3
    found.tables = {"sessions": {"harness": ["claude_code", "agent_kernel"]}}
    return found


def symlink_loop(folder: Path) -> Expected:
    """80: a link back up is not followed."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A)
    s.write(folder / "deep")
    (folder / "deep" / "up").symlink_to(folder, target_is_directory=True)
    return expected(_A)


_OWN: Buckets = (12, 40, 100, 0, 2000)


def _event(seq: int, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    base = {"type": kind, "seq": seq, "time": 1_796_083_200.0 + seq, "turn": 1, "step": None}
    return {**base, "agent": "main", "sources": [], **fields}


def _own_call() -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of a prompt and a tool call that was allowed and ran."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}}
    nothing = dict.fromkeys(
        ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h"), 0
    )
    return [
        (
            "session/header",
            {
                "format": "agent-kernel-log",
                "version": 1,
                "session": "own-1",
                "created": 1_796_083_200.0,
                "turn": None,
            },
        ),
        ("turn/start", {"text": "go", "source": "cell"}),
        ("user/message", {"surface": "append", "content": [said("go")]}),
        (
            "assistant/message",
            {
                "surface": "append",
                "content": [call],
                "usage": nothing,
                "model": "claude-opus-4-5-20251101",
                "stop_reason": "tool_use",
            },
        ),
        ("tool/decision", {"id": "toolu_1", "verdict": "allow", "by": "rule", "rule": "read"}),
        ("tool/start", {"id": "toolu_1", "input_hash": "00"}),
        (
            "tool/result",
            {
                "surface": "append",
                "id": "toolu_1",
                "content": [said("x = 1")],
                "is_error": False,
                "meta": {"seconds": 0.5},
            },
        ),
    ]


def _own_compaction(tokens: dict[str, int]) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of a compaction whose summary cost `tokens`."""
    span = {"op": "replace", "start": 2, "end": 6}
    return [
        ("compaction/start", {"compaction_id": "c7", "trigger": "soft", "tokens": {"pre": 900}}),
        (
            "compaction/summary",
            {
                "compaction_id": "c7",
                "text": "short",
                "hidden": [2, 3, 6],
                "usage": tokens,
                "model": "claude-opus-4-5-20251101",
                "provider": "anthropic",
            },
        ),
        ("compaction/prune", {"compaction_id": "c7", "layer": "auto", "freed": 800}),
        (
            "attachment",
            {
                "surface": span,
                "kind": "summary",
                "label": "s",
                "hidden": True,
                "content": [said("short")],
                "meta": {"compaction_id": "c7"},
            },
        ),
        (
            "compaction/end",
            {"compaction_id": "c7", "status": "committed", "tokens": {"post": 100, "freed": 800}},
        ),
    ]


def _own_events(usage: Buckets = _OWN) -> list[dict[str, Any]]:
    """Return a session of our own: a prompt, a tool call, a compaction, an answer, a task."""
    plain, out, short, long, read = usage
    tokens = {
        "input": plain,
        "output": out,
        "cache_read": read,
        "cache_write_5m": short,
        "cache_write_1h": long,
    }
    rows = [
        *_own_call(),
        *_own_compaction(tokens),
        ("task/created", {"id": "t1", "kind": "bash", "label": "make", "tool_use_id": "toolu_1"}),
        ("task/finished", {"id": "t1", "status": "completed", "summary": "ok", "exit_code": 0}),
        ("turn/end", {"reason": "completed"}),
    ]
    return [_event(seq, kind, fields) for seq, (kind, fields) in enumerate(rows)]


def _own(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(event) + "\n" for event in _own_events())
    path.write_text("".join(lines))


def own_log(folder: Path) -> Expected:
    """76: our own log: the fold says what is seen; a summary call is a call of its kind."""
    _own(folder / "analysis.agent.jsonl")
    found = expected(_OWN)
    found.calls = 2
    chain = {3: "history", 2: "history", 6: "history", 10: "official"}
    found.tables = {
        "calls": {"agent_kind": ["main", "compaction"]},
        "records": {"chain": [chain.get(seq, "side_line") for seq in range(15)]},
        "tools": {"answered": [True], "permission": ["allow"], "seconds": [0.5]},
        "compactions": {"kind": ["auto"], "trigger": ["soft"], "layer": ["auto"], "hidden": [3]},
        "turns": {"end": ["completed"], "origin": ["human"]},
        "tasks": {"status": ["completed"], "exit_code": [0]},
        "permissions": {"by": ["rule"], "verdict": ["allow"]},
    }
    return found
