"""Shapes of today's Claude Code, 2.1.197: queues, notices, a compaction by hand, a resume.

May not hold a line of a real session.
"""

from __future__ import annotations

from pathlib import Path

from agent_kernel.testing.script import Buckets, Expected, Script, expected, said, use

_A: Buckets = (9, 57, 1900, 0, 17000)
_VERSION = "2.1.197"


def _queued(s: Script, operation: str, text: str | None = None) -> None:
    """Append what the client notes of its queue, at the time of the line before."""
    when = s.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"type": "queue-operation", "operation": operation, "timestamp": when}
    s.line(line | {"sessionId": s.session} | ({} if text is None else {"content": text}))


def _notice(task: str, call: int, summary: str) -> str:
    return (
        f"<task-notification>\n<task-id>{task}</task-id>\n"
        f"<tool-use-id>toolu_{call:06d}</tool-use-id>\n<status>completed</status>\n"
        f"<summary>{summary}</summary>\n<note>It may be sent more.</note>\n"
        "<usage><subagent_tokens>70</subagent_tokens></usage>\n</task-notification>"
    )


def background_work_and_its_notices(folder: Path) -> Expected:
    """A command and an agent end while the main agent works; each notice is read after the step.

    What a result does not repeat (a label, an exit code) is in the call and in the words; an
    attachment carries the time it was queued at, not the time it was read at.
    """
    s = Script(version=_VERSION)
    _queued(s, "enqueue", "build it")
    _queued(s, "dequeue")
    s.user("build it", promptSource="sdk")
    build = use("Bash", 1, command="make", description="build", run_in_background=True)
    s.answer(1, [build], _A)
    s.result(1, "running", toolUseResult={"backgroundTaskId": "b1", "stdout": ""})
    job = use("Agent", 2, prompt="look", description="Look around", subagent_type="general")
    s.answer(2, [job], _A)
    told = {"agentId": "a1", "status": "completed", "totalDurationMs": 1500, "isAsync": True}
    s.result(2, "started", toolUseResult=told)
    s.answer(3, [use("Bash", 3, command="sleep 4")], _A)
    notice = _notice("b1", 1, 'Background command "build" completed (exit code 3)')
    s.clock = s.clock.replace(second=20)
    _queued(s, "enqueue", notice)
    s.result(3, "", seconds=4)
    _queued(s, "remove")
    late = s.clock
    attachment = {"type": "queued_command", "prompt": notice, "commandMode": "task-notification"}
    s.clock = s.clock.replace(second=20)
    s.node("attachment", attachment=attachment, seconds=0)
    s.clock = late
    s.answer(4, [said("Built.")], _A, stop="end_turn")
    _queued(s, "enqueue", "thanks")
    s.write(folder)
    tables = {
        "tasks": {
            "task_id": ["b1", "a1"],
            "label": ["build", "Look around"],
            "exit_code": [3, None],
            "notices": [1, 0],
            "notice_lag": [4.0, None],
        },
        "subagents": {"agent_id": ["a1"], "label": ["Look around"]},
        "turns": {"end": ["completed"], "origin": ["api"], "wall": [24.0]},
    }
    return expected(_A, _A, _A, _A, tables=tables)


def compaction_by_hand_and_resume(folder: Path) -> Expected:
    """/compact writes its boundary and summary before the command's own lines; a resume adds a
    message of the client's own that is no error."""
    s = Script(version=_VERSION)
    s.user("first", promptSource="sdk")
    s.answer(1, [said("One.")], _A, stop="end_turn")
    kept = s.last
    s.clock = s.clock.replace(minute=30, second=0)
    s.line({"type": "last-prompt", "lastPrompt": "first", "sessionId": s.session})
    _queued(s, "enqueue", "/compact")
    names = {"uuids": [kept], "allUuids": [kept], "anchorUuid": f"{s.session[:8]}-000005"}
    s.boundary("manual", 500, preservedMessages=names, postTokens=90, durationMs=300)
    s.summary()
    s.user("<local-command-caveat>Caveat: of a command.</local-command-caveat>", isMeta=True)
    s.user("<command-name>/compact</command-name>\n<command-message>compact</command-message>")
    s.user("<local-command-stdout>Compacted</local-command-stdout>")
    s.clock = s.clock.replace(minute=40, second=0)
    _queued(s, "enqueue", "more")
    s.user([said("Continue from where you left off.")], isMeta=True)
    dull = {"input_tokens": 0, "output_tokens": 0}
    s.answer(
        2, [said("No response requested.")], dull, model="<synthetic>", isApiErrorMessage=False
    )
    s.user("more", promptSource="sdk")
    s.answer(3, [said("Two.")], _A, stop="end_turn")
    s.write(folder)
    tables = {
        "turns": {
            "origin": ["api", "command", "api"],
            "end": ["completed", "completed", "completed"],
            "calls": [1, 0, 1],
            "wall": [1.0, 598.0, 1.0],
        },
        "compactions": {"kind": ["manual"], "post_meta": [90], "hidden": [1]},
    }
    return expected(_A, _A, tables=tables)


def preserved_name_without_its_record(folder: Path) -> Expected:
    """A compaction names a kept message that is nowhere in the file."""
    s = Script(version=_VERSION)
    s.user("first")
    s.answer(1, [said("One.")], _A, stop="end_turn")
    names = {"uuids": ["nowhere"], "allUuids": ["nowhere"], "anchorUuid": f"{s.session[:8]}-000003"}
    s.boundary("auto", 500, preservedMessages=names)
    s.summary()
    s.answer(2, [said("Two.")], _A, stop="end_turn")
    s.write(folder)
    return expected(_A, _A, issues={"preserved_missing": 1})
