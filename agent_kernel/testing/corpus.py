"""Corpus: a synthetic folder of Claude Code sessions whose totals are known by construction.

May not copy a real session: sizes and the mix of line types are like real ones, words are made up.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.testing.script import Buckets, Script, dollars, said, tokens, total, use

WORDS = "the parser reads every line and keeps what it cannot read beside it with a note ".split()


@dataclass
class Corpus:
    """What was written: files, bytes, calls, buckets and dollars (Opus 4.5 at list price)."""

    files: int
    bytes: int
    calls: int
    buckets: Buckets
    usd: float


def write(folder: Path, megabytes: float, seed: int = 1, session_kb: int = 1200) -> Corpus:
    """Write sessions of about `session_kb` until the folder holds `megabytes`; return the totals.

    By bytes: user lines about 60 %, progress 21 %, assistant 18 %, as in real sessions.
    """
    pick = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    calls: list[Buckets] = []
    size, number = 0, 0
    while size < megabytes * 1e6:
        script = Script(f"{seed:04d}{number:06d}-0000-4000-8000-000000000000")
        _session(script, pick, session_kb * 1000, f"{seed:04d}{number:06d}", calls)
        size += script.write(folder, f"{script.session}.jsonl").stat().st_size
        number += 1
    return Corpus(number, size, len(calls), total(*calls), dollars(*calls))


def _session(
    script: Script, pick: random.Random, size: int, name: str, calls: list[Buckets]
) -> None:
    written, step, read = 0, 0, 20_000
    while written < size:
        before = len(script.lines)
        if step % 12 == 0:
            script.user(_text(pick, 300), seconds=pick.randrange(5, 900))
        step += 1
        fresh = pick.randrange(200, 4_000)
        short, long = (fresh, 0) if pick.random() < 0.5 else (0, fresh)
        call: Buckets = (pick.randrange(1, 12), pick.randrange(2, 900), short, long, read)
        calls.append(call)
        key = f"msg_01Corpus{name}{step:08d}"
        early = tokens((call[0], 1, short, long, read))
        script.answer(step, [said(_text(pick, 200))], early, id=key, requestId=f"req_{name}{step}")
        block = use("Read", 0, file_path=f"/home/dev/project/src/file{pick.randrange(90)}.py")
        block["id"] = f"toolu_{name}{step:06d}"
        script.answer(step, [block], call, id=key, requestId=f"req_{name}{step}")
        if pick.random() < 0.5:
            data = {"type": "bash_progress", "output": _text(pick, 1800), "fullOutput": ""}
            script.node("progress", data=data, toolUseID="bash-progress-0")
        result = {"type": "tool_result", "tool_use_id": block["id"], "content": _text(pick, 2600)}
        script.user([result], toolUseResult={"stdout": _text(pick, 1500)}, seconds=2)
        read += fresh
        if read > 150_000:
            script.boundary(pre=read)
            script.summary(_text(pick, 4000))
            read = 25_000
        written += sum(len(line) for line in script.lines[before:])


def _text(pick: random.Random, size: int) -> str:
    length = max(1, int(pick.expovariate(1 / size)))
    start = pick.randrange(len(WORDS))
    words = [WORDS[(start + n * 7 + n // 13) % len(WORDS)] for n in range(length // 5 + 1)]
    return " ".join(words)[:length]
