"""Shapes of costs: cache events, silent drops, thrash, spirals, duplicates, reads made again.

May not hold a line of a real session.
"""

from __future__ import annotations

from pathlib import Path

from agent_kernel.testing.script import Buckets, Expected, Script, expected, said, use


def _calls(script: Script, *calls: Buckets, gaps: tuple[int, ...] = ()) -> None:
    for number, call in enumerate(calls):
        seconds = gaps[number] if number < len(gaps) else 1
        script.user(f"prompt {number}", seconds=seconds)
        script.answer(number, [said("answer")], call, seconds=0)


def cache_events(folder: Path) -> Expected:
    """65: cold, hit, expired after 5 minutes and after an hour, prefix change, model switch."""
    s = Script()
    calls: list[Buckets] = [
        (5, 30, 50_000, 0, 0),  # cold
        (5, 30, 1_000, 0, 50_000),  # hit
        (5, 30, 51_000, 0, 0),  # expired: six minutes after a 5-minute write
        (5, 30, 0, 52_000, 0),  # prefix_change: at once, and nothing was read
        (5, 30, 0, 1_000, 52_000),  # hit: 50 minutes after a 1-hour write
        (5, 30, 0, 53_000, 0),  # expired: 70 minutes after a 1-hour write
    ]
    _calls(s, *calls, gaps=(1, 60, 360, 1, 3_000, 4_200))
    last: Buckets = (5, 30, 54_000, 0, 0)
    s.user("switch")
    s.answer(9, [said("answer")], last, model="claude-opus-4-5")
    s.write(folder)
    events = ["cold", "hit", "expired", "prefix_change", "hit", "expired", "model_switch"]
    table = {
        "cache_event": events,
        "rewritten": [0, 0, 51_000, 51_000, 0, 53_000, 53_000],
        "rewrite_usd": [0, 0, 0.29325, 0.4845, 0, 0.5035, 0.30475],
    }
    return expected(*calls, last, tables={"calls": table})


def silent_drop(folder: Path) -> Expected:
    """60: the context falls by more than a fifth and no boundary says so."""
    s = Script()
    calls: list[Buckets] = [(5, 30, 90_000, 0, 0), (5, 30, 0, 0, 90_000), (5, 30, 0, 0, 60_000)]
    _calls(s, *calls)
    s.write(folder)
    return expected(*calls)


def thrash_of_prefixes(folder: Path) -> Expected:
    """61: the prefix changes twice in a row, each time paid again."""
    s = Script()
    calls: list[Buckets] = [(5, 30, 50_000, 0, 0)] * 3
    _calls(s, *calls)
    s.write(folder)
    return expected(*calls)


def spiral_of_compactions(folder: Path) -> Expected:
    """62, 63: a compaction after two calls, and one after which the context is larger."""
    s = Script()
    first: list[Buckets] = [(5, 30, 100_000, 0, 0)]
    _calls(s, *first)
    s.boundary(pre=100_005)
    s.summary()
    s.user("on")
    s.answer(10, [said("b")], (5, 30, 40_000, 0, 0))
    s.boundary(pre=60_000)
    s.summary()
    s.user("on")
    s.answer(11, [said("c")], (5, 30, 70_000, 0, 0))
    s.write(folder)
    calls: list[Buckets] = [*first, (5, 30, 40_000, 0, 0), (5, 30, 70_000, 0, 0)]
    return expected(*calls, tables={"compactions": {"post_wire": [40_005, 70_005]}})


def reinjected_duplicate(folder: Path) -> Expected:
    """64: the same attachment is attached again."""
    s = Script()
    s.user("go")
    for _ in range(2):
        s.node("attachment", attachment={"type": "memory", "content": "always be brief"})
    call: Buckets = (5, 30, 1000, 0, 0)
    s.answer(1, [said("a")], call)
    s.write(folder)
    return expected(call)


def read_again_after_a_compaction(folder: Path) -> Expected:
    """66: two files are read again after a compaction, one of them edited in between."""
    s = Script()
    s.user("go")
    number, calls = 0, []
    for path in ("/a.py", "/b.py"):
        number += 1
        calls.append((5, 30, 1000, 0, 0))
        s.answer(number, [use("Read", number, file_path=path)], (5, 30, 1000, 0, 0))
        s.result(number, "x" * 275)
    s.boundary()
    s.summary()
    for name, path in (("Read", "/a.py"), ("Edit", "/b.py"), ("Read", "/b.py"), ("Read", "/c.py")):
        number += 1
        calls.append((5, 30, 1000, 0, 0))
        s.answer(number, [use(name, number, file_path=path)], (5, 30, 1000, 0, 0))
        s.result(number, "y" * 275)
    s.write(folder)
    row = {"rereads": [2], "reread_tokens": [200]}
    reread = [None, None, "toolu_000001", None, "toolu_000002", None]
    return expected(*calls, tables={"compactions": row, "tools": {"reread_of": reread}})


def carried_result(folder: Path) -> Expected:
    """A result is paid when it is written to the cache and at every later read of it."""
    s = Script()
    s.user("go")
    calls: list[Buckets] = [(5, 30, 1000, 0, 0), (5, 30, 200, 0, 1000), (5, 30, 50, 0, 1200)]
    s.answer(1, [use("Read", 1, file_path="/a.py")], calls[0])
    s.result(1, "z" * 275)
    s.answer(2, [said("short")], calls[1])
    s.answer(3, [said("done")], calls[2])
    s.write(folder)
    return expected(*calls, tables={"tools": {"carried_calls": [2]}})


def facts_around_a_compaction(folder: Path) -> Expected:
    """67: values are facts and keys are not; a relative path is the same path; one fact is lost."""
    s = Script()
    s.user("fix it")
    call: Buckets = (5, 30, 1000, 0, 0)
    s.answer(1, [use("Grep", 1, path="/home/dev/project/src/app.py", output_mode="count")], call)
    s.result(1, "in parseConfig and readBytes, status in_progress")
    s.boundary()
    s.summary("We worked on src/app.py and parseConfig.")
    s.answer(2, [use("Edit", 2, file_path="src/app.py", new_string="parseConfig readBytes")], call)
    s.result(2, "done")
    s.write(folder)
    table = {
        "kind": ["path", "identifier", "identifier"],
        "value": ["src/app.py", "parseConfig", "readBytes"],
        "in_summary": [True, True, False],
        "used_after": [True, True, True],
        "lost": [False, False, True],
    }
    row = {"fur": [2 / 3]}
    return expected(call, call, tables={"facts": table, "compactions": row})
