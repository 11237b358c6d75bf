"""Working: synthetic sessions of an agent at work, compacted on the way, for the compaction lab.

May not copy a real session: names and words are made up, only the statistics are like real ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from agent_kernel.testing.script import Buckets, Json, Script, said, tokens

# Of the measured corpus (design of the lab): context at a compaction and after it, steps a prompt,
# share of pauses over five minutes, how often a name comes back.
FULL, AFTER, BASE = 155_000, 50_000, 18_000
PAUSE, AGAIN = 0.04, 0.75
_PARTS = "order stock price cart ledger parcel route depot label batch scan quota".split()
_DOES = "load save merge check split count parse route build trim rank match".split()
_SAYS = (
    "Please make the {a} handling work for empty input.",
    "Never change the public names of the {a} module in this task.",
    "Make sure that {a} keeps its order, and add a test for it.",
    "We should always log the {a} id instead of the whole record.",
    "The {a} report looks wrong, find out why.",
)


@dataclass
class _Work:
    """What the made-up agent knows: files and names it met, the newest last."""

    pick: random.Random
    files: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def file(self) -> str:
        """Return a file: mostly one it met lately."""
        return self._again(self.files) or self._new(self.files, self._path())

    def name(self) -> str:
        """Return an identifier: mostly one it met lately."""
        return self._again(self.names) or self._new(self.names, self._identifier())

    def _again(self, known: list[str]) -> str | None:
        if not known or self.pick.random() > AGAIN:
            return None
        at = min(len(known) - 1, int(self.pick.expovariate(1 / 14)))
        return self._new(known, known[-1 - at])

    def _new(self, known: list[str], value: str) -> str:
        if value in known:
            known.remove(value)
        known.append(value)
        return value

    def _path(self) -> str:
        one, two = self.pick.choice(_PARTS), self.pick.choice(_PARTS)
        return f"/home/dev/project/src/{one}/{two}_{self.pick.choice(_DOES)}.py"

    def _identifier(self) -> str:
        words = [self.pick.choice(_DOES), self.pick.choice(_PARTS), self.pick.choice(_PARTS)]
        return words[0] + "".join(word.title() for word in words[1:])


def write(folder: Path, sessions: int = 8, seed: int = 1, steps: int = 220) -> list[Path]:
    """Write synthetic sessions of about so many requests; return their files.

    Token counts are those of real sessions, texts are shorter: a step's growth is what counts.
    """
    return [_session(folder, random.Random(f"{seed}:{at}"), at, steps) for at in range(sessions)]


def _session(folder: Path, pick: random.Random, number: int, steps: int) -> Path:
    script = Script(f"{number:08d}-5e55-4000-8000-000000000000")
    work, context, cached = _Work(pick), BASE, 0
    many = int(steps * pick.uniform(0.6, 1.4))
    for step in range(1, many + 1):
        pause = 1_200 if pick.random() < PAUSE else pick.randrange(4, 40)
        if step % 14 == 1:
            said_now = pick.choice(_SAYS).format(a=pick.choice(_PARTS))
            work.said.append(said_now)
            script.user(said_now, seconds=pause)
            context, pause = context + 400, 1
        cached = 0 if pause > 300 else cached
        call = (3, pick.randrange(40, 900), context - cached, 0, cached)
        _step(script, work, number * 10_000 + step, call, pause)
        cached = context
        context += call[1] + int(pick.lognormvariate(6.5, 1.0))
        if context > FULL:
            script.boundary(pre=context)
            script.summary(_summary(work))
            context, cached = AFTER - pick.randrange(0, 9_000), BASE
    return script.write(folder)


def _step(script: Script, work: _Work, number: int, call: Buckets, pause: int) -> None:
    path, name, other = work.file(), work.name(), work.name()
    kind = work.pick.choices(("Read", "Edit", "Grep", "Bash"), (4, 3, 2, 2))[0]
    given: dict[str, Json] = {
        "Read": {"file_path": path},
        "Edit": {"file_path": path, "old_string": f"{name}(x)", "new_string": f"{name}({other})"},
        "Grep": {"pattern": name, "path": "/home/dev/project/src"},
        "Bash": {"command": f"pytest -q {path.replace('/src/', '/tests/')}"},
    }
    block = {"type": "tool_use", "id": f"toolu_{number:08d}", "name": kind, "input": given[kind]}
    key = f"msg_01Working{number:011d}"
    script.answer(number, [said(f"I look at {name}."), block], tokens(call), id=key, seconds=pause)
    failed = kind == "Bash" and work.pick.random() < 0.3
    lines = [f"def {work._identifier()}(): ...  # {n}" for n in range(work.pick.randrange(2, 12))]
    text = f"E   {name} failed at line {number % 97}" if failed else "\n".join([*lines, other])
    result: Json = {"type": "tool_result", "tool_use_id": block["id"], "content": text}
    if failed:
        result["is_error"] = True
    script.user([result], seconds=2)


def _summary(work: _Work) -> str:
    """Return a summary as a model writes it: names of late, a word of the person's at times."""
    files = [f for f in work.files[-22:] if work.pick.random() < 0.9]
    names = [n for n in work.names[-40:] if work.pick.random() < 0.8]
    lines = [*(f"- {path}: changed" for path in files), *(f"- `{name}`" for name in names)]
    if work.said and work.pick.random() < 0.6:
        lines.append(f"- The person said: {work.said[-1]}")
    return "\n".join(["## Files and Code", *lines, "## Next Step", "Go on with the tests."])
