"""Shapes of chains: siblings, lost parents, copies, sub-agents, compactions, side lines.

May not hold a line of a real session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_kernel.testing.script import (
    Buckets,
    Expected,
    Script,
    expected,
    message_id,
    said,
    tokens,
    use,
)

_A: Buckets = (10, 400, 1000, 0, 0)
_B: Buckets = (2, 300, 50, 200, 1000)
_C: Buckets = (3, 200, 0, 100, 1250)


def _parallel() -> Script:
    """Five parallel calls over two responses; four results stand beside the parent chain."""
    s = Script()
    s.user("look everywhere")
    asked = [s.answer(1, [use("Read", n, file_path=f"/src/{n}.py")], _A) for n in (1, 2, 3)]
    for number, parent in zip((1, 2, 3), asked, strict=True):
        s.result(number, f"content {number}", parent=parent)
    more = [s.answer(2, [use("Grep", n, pattern="x")], _B) for n in (4, 5, 6)]
    for number, parent in zip((4, 5, 6), more, strict=True):
        s.result(number, f"match {number}", parent=parent)
    s.answer(3, [said("All read.")], _C)
    return s


def parallel_results_as_siblings(folder: Path) -> Expected:
    """3: the official walk loses four results; ours none."""
    _parallel().write(folder)
    return expected(_A, _B, _C, official_lost=4, tables={"tools": {"answered": [True] * 6}})


def sibling_tool_use_off_chain(folder: Path) -> Expected:
    """4: a line of a response that stands beside the chain joins it with its result."""
    s = Script()
    first = s.user("go")
    s.answer(1, [use("Read", 1, file_path="/a")], _A, parent=first)
    s.result(1, "one")
    s.answer(1, [use("Read", 2, file_path="/b")], _A, parent=first)
    s.result(2, "two")
    s.answer(2, [said("done")], _B)
    s.write(folder)
    chain = ["official", "sibling", "sibling", "official", "official", "official"]
    return expected(_A, _B, official_lost=1, tables={"records": {"chain": chain}})


def dangling_parent(folder: Path) -> Expected:
    """5: a parent that is not in the file is bridged to the record before it."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A)
    s.user("again", parent="nobody-knows-this")
    s.answer(2, [said("b")], _B)
    s.write(folder)
    chain = ["repaired", "repaired", "official", "official"]
    return expected(_A, _B, issues={"dangling_parent": 1}, tables={"records": {"chain": chain}})


def parent_cycle(folder: Path) -> Expected:
    """6: a line that is its own ancestor stops the walk."""
    s = Script()
    s.user("go", uuid="one", parent="three")
    s.answer(1, [said("a")], _A, uuid="two", parent="one")
    s.user("more", uuid="three", parent="two")
    s.answer(2, [said("b")], _B, uuid="four", parent="three")
    s.write(folder)
    return expected(_A, _B, issues={"parent_cycle": 1})


def resumed_copy_of_another_session(folder: Path) -> Expected:
    """11: lines of an older session inside a new file count once, under the older id."""
    old = Script("older-session")
    old.user("go")
    old.answer(1, [said("a")], _A)
    new = Script("newer-session")
    new.lines = list(old.lines)
    new.last = old.last
    new.user("go on")
    new.answer(2, [said("b")], _B)
    old.write(folder, "a.jsonl")
    new.write(folder, "b.jsonl")
    table = {"session_id": ["older-session", "newer-session"]}
    forked = {"forked_from": [None, "older-session"]}
    return expected(_A, _B, tables={"calls": table, "sessions": forked})


def overlapping_checkpoints(folder: Path) -> Expected:
    """12: cumulative copies are one session; a branch that was rewound is paid and flagged."""
    s = Script()
    first = s.user("go")
    s.answer(1, [said("a")], _A)
    s.write(folder, "one.jsonl")
    del s.lines[-1]
    s.user("another way", parent=first, seconds=60)
    s.answer(2, [said("b")], _B)
    s.write(folder, "two.jsonl")
    return expected(_A, _B, tables={"calls": {"rewound": [True, False]}})


def progress_bloat(folder: Path, count: int = 200) -> Expected:
    """13: progress records that hold whole histories are not walked."""
    s = Script()
    s.user("go")
    s.answer(1, [use("Task", 1, prompt="look")], _A)
    history = [{"type": "assistant", "message": {"usage": tokens((9, 9, 9, 9, 9))}}] * 20
    for _ in range(count):
        s.progress(
            {"type": "user", "message": {"role": "user", "content": "x"}},
            "a1",
            normalizedMessages=history,
        )
    s.write(folder)
    return expected(_A)


def _inner(number: int, usage: Buckets, uuid: str) -> dict[str, Any]:
    message = {
        "id": message_id(number),
        "role": "assistant",
        "model": "claude-opus-4-5-20251101",
        "content": [use("Read", 50 + number, file_path="/sub.py")],
        "usage": tokens(usage),
    }
    stamp = "2026-02-01T12:00:09.000Z"
    return {"type": "assistant", "message": message, "uuid": uuid, "timestamp": stamp}


def subagent_only_in_progress(folder: Path) -> Expected:
    """14: older versions state a sub-agent's tokens only inside progress records."""
    s = Script()
    s.user("go")
    s.answer(1, [use("Task", 1, prompt="look")], _A)
    s.progress(_inner(2, _B, "inner-1"), "abc123")
    s.write(folder)
    table = {"nested": [False, True], "agent_id": ["main", "abc123"]}
    tools = {"agent_id": ["main", "abc123"]}
    return expected(
        _A, _B, tables={"calls": table, "tools": tools, "subagents": {"found_in": ["progress"]}}
    )


def subagent_in_progress_and_file(folder: Path) -> Expected:
    """15: what stands in both counts once."""
    s = Script()
    s.user("go")
    s.answer(1, [use("Task", 1, prompt="look")], _A)
    s.progress(_inner(2, _B, "inner-1"), "abc123")
    s.result(1, "found", toolUseResult={"agentId": "abc123", "status": "completed"})
    s.write(folder)
    sub = _subagent(s.session, "abc123")
    sub.write(folder / s.session / "subagents", "agent-abc123.jsonl")
    table = {"nested": [False, False], "agent_kind": ["main", "subagent"]}
    agents = {"found_in": ["both"], "parent_tool_use": ["toolu_000001"], "calls": [1]}
    return expected(_A, _B, tables={"calls": table, "subagents": agents})


def _subagent(session: str, agent: str) -> Script:
    sub = Script(session)
    sub.agent = agent
    sub.user("look", uuid=f"{agent}-1")
    sub.answer(2, [use("Read", 52, file_path="/sub.py")], _B, uuid="inner-1")
    sub.result(52, "text", uuid=f"{agent}-2")
    return sub


def subagent_without_main_file(folder: Path) -> Expected:
    """16: a sub-agent's file alone is a session of its own."""
    sub = _subagent("lost-session", "abc123")
    sub.write(folder / "lost-session" / "subagents", "agent-abc123.jsonl")
    return expected(_B, tables={"sessions": {"session_id": ["lost-session"], "subagents": [1]}})


def _compacted(**meta: Any) -> Script:
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], (10, 400, 90_000, 0, 60_000))
    s.boundary(pre=151_000, **meta)
    s.summary()
    return s


def _hidden_call(folder: Path, session: str, call: Buckets) -> None:
    sub = Script(session)
    sub.agent = "acompact-1f2e3d"
    sub.user("summarise", uuid="ac-1")
    sub.answer(7, [said("A summary.")], call, uuid="ac-2")
    sub.write(folder / session / "subagents", "agent-acompact-1f2e3d.jsonl")


def compaction_call_warm(folder: Path) -> Expected:
    """17: the hidden call that wrote the summary is joined to its boundary: warm."""
    s = _compacted()
    s.answer(2, [said("b")], (5, 10, 30_000, 0, 20_000))
    s.write(folder)
    call: Buckets = (3, 900, 1000, 0, 150_000)
    _hidden_call(folder, s.session, call)
    row = {
        "call_cache": ["warm"],
        "call_id": [message_id(7)],
        "pre_wire": [150_010],
        "post_wire": [50_005],
    }
    calls: list[Buckets] = [(10, 400, 90_000, 0, 60_000), (5, 10, 30_000, 0, 20_000), call]
    return expected(*calls, tables={"compactions": row})


def compaction_call_cold(folder: Path) -> Expected:
    """18: the hidden call read nothing from the cache: cold."""
    s = _compacted()
    s.write(folder)
    call: Buckets = (3, 900, 151_000, 0, 0)
    _hidden_call(folder, s.session, call)
    row = {"call_cache": ["cold"], "post_wire": [None]}
    return expected((10, 400, 90_000, 0, 60_000), call, tables={"compactions": row})


def automatic_compaction_with_newer_metadata(folder: Path) -> Expected:
    """19, 20: the harness's numbers and the wire's stand side by side."""
    s = _compacted(postTokens=2_000, durationMs=1500, cumulativeDroppedTokens=149_000)
    s.answer(2, [said("b")], (5, 10, 30_000, 0, 20_000))
    s.write(folder)
    row = {
        "kind": ["auto"],
        "pre_meta": [151_000],
        "post_meta": [2_000],
        "seconds": [1.5],
        "dropped": [149_000],
        "call_cache": ["unknown"],
        "hidden": [2],
        "requests_after": [1],
    }
    calls: list[Buckets] = [(10, 400, 90_000, 0, 60_000), (5, 10, 30_000, 0, 20_000)]
    return expected(*calls, tables={"compactions": row, "records": {"epoch": [0, 0, 1, 1, 1]}})


def preserved_messages(folder: Path) -> Expected:
    """21: the tail a boundary lists is seen in the new epoch; nothing counts twice."""
    return _tail(folder, lambda kept: {"preservedMessages": {"anchorUuid": "s", "uuids": kept}})


def preserved_segment(folder: Path) -> Expected:
    """22: the tail is given by head and tail; the parents between them are kept."""
    return _tail(
        folder, lambda kept: {"preservedSegment": {"headUuid": kept[0], "tailUuid": kept[-1]}}
    )


def _tail(folder: Path, meta: Any) -> Expected:
    s = Script()
    s.user("old")
    s.answer(1, [said("old answer")], _A)
    kept = [s.user("kept"), s.answer(2, [said("kept answer")], _B)]
    s.boundary(**meta(kept))
    s.summary()
    s.user("new")
    s.answer(3, [said("new answer")], _C)
    s.write(folder)
    chain = ["history", "history", "preserved", "preserved", *["official"] * 4]
    return expected(_A, _B, _C, tables={"records": {"chain": chain}})


def kept_message_written_again(folder: Path) -> Expected:
    """23: a kept message repeats its uuid with a new parent; the later line is the chain's."""
    s = Script()
    s.user("old")
    s.answer(1, [said("kept answer")], _A, uuid="kept-1")
    s.boundary(preservedMessages={"uuids": ["kept-1"]})
    s.summary()
    s.answer(1, [said("kept answer")], _A, uuid="kept-1")
    s.user("new")
    s.answer(2, [said("new answer")], _B)
    s.write(folder)
    table = {"superseded": [False, True, *[False] * 5]}
    return expected(_A, _B, tables={"records": table})


def microcompacted(folder: Path) -> Expected:
    """24: a micro compaction names the calls whose results it cleared."""
    s = Script()
    s.user("go")
    s.answer(1, [use("Read", 1, file_path="/a")], _A)
    s.result(1, "long text")
    meta = {
        "trigger": "auto",
        "preTokens": 58_000,
        "tokensSaved": 20_000,
        "compactedToolIds": ["toolu_000001"],
    }
    micro = s.node("system", subtype="microcompact_boundary", microcompactMetadata=meta)
    s.answer(2, [said("b")], _B)
    s.write(folder)
    tables = {
        "tools": {"dropped_by": [micro]},
        "compactions": {"kind": ["micro"]},
        "blocks": {"cleared_by": [None, None, micro, None]},
        "sessions": {"micro": [1], "compactions": [0]},
    }
    return expected(_A, _B, tables=tables)


def boundary_before_earlier_timestamps(folder: Path) -> Expected:
    """26: lines after a boundary may carry earlier times; the order of lines holds."""
    s = _compacted()
    s.user("next", seconds=-30)
    s.answer(2, [said("b")], _B)
    s.write(folder)
    calls: list[Buckets] = [(10, 400, 90_000, 0, 60_000), _B]
    return expected(*calls, tables={"calls": {"epoch": [0, 1]}})


def interrupted_in_the_middle_of_tools(folder: Path) -> Expected:
    """31, 32: a person stops the turn; the call has no result."""
    s = Script()
    s.user("go")
    s.answer(1, [use("Bash", 1, command="sleep 100")], _A)
    s.user([said("[Request interrupted by user for tool use]")])
    s.write(folder)
    tables = {
        "turns": {"end": ["interrupted"]},
        "tools": {"answered": [False]},
        "sessions": {"interrupts": [1], "turns": [1]},
    }
    return expected(_A, tables=tables)


def orphan_and_duplicate_results(folder: Path) -> Expected:
    """33, 34: a result nobody asked for, and a second result of one call."""
    s = Script()
    s.user("go")
    s.answer(1, [use("Bash", 1, command="ls")], _A)
    s.result(1, "first", error=True)
    s.result(1, "second, longer")
    s.result(99, "stray")
    s.write(folder)
    found = {"orphan_result": 1, "duplicate_result": 1}
    tools = {"result_chars": [5], "is_error": [True], "is_error_explicit": [True]}
    return expected(_A, issues=found, tables={"tools": tools})
