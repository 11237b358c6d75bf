"""Shell programs: what bash dispatches against what the scanner and the finder read.

May not accept a guess: bash itself is asked, with stubs for commands, and tree-sitter-bash second.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agent_kernel.guard.bash_grant import Place, expanded
from agent_kernel.guard.calls import Call, Context
from agent_kernel.guard.evaluate import evaluate
from agent_kernel.guard.rules import parse_rules
from agent_kernel.guard.shell import Opaque, Program, scan
from agent_kernel.guard.shell_find import find
from tests.guard.places import bubblewrap
from tests.long import _shell_driver as driver
from tests.long._shell_grammar import program

SLICE = 500
RULES = parse_rules("allow Bash(alpha:*), Bash(beta:*), Bash(gamma:*)")
COUNTED = (
    "steps", "accepted", "allowed", "dispatched", "wrong", "omissions", "doubted", "unauthorised"
)  # fmt: skip


def run(seed: int = 1, start: int = 0, steps: int = 2_000, until: float = 0.0) -> dict[str, int]:
    """Counts over programs `start` to `start + steps` of a seed.

    `accepted` programs the scanner read, `allowed` those the guard allows under RULES;
    `violations` the sum of `unauthorised` (an allowed program ran a command that the guard does
    not allow by itself), `wrong` (argvs differ from bash's), `omissions` (a dispatched name
    neither found nor covered by dynamic) and `doubted` (tree-sitter-bash reads other commands, not
    by a known misreading of its own).
    """
    counts = dict.fromkeys((*COUNTED, "violations"), 0)
    while counts["steps"] < steps and not (until and time.monotonic() > until):
        size = min(SLICE, steps - counts["steps"])
        first = start + counts["steps"]
        texts = [
            program(random.Random(f"{seed}:{number}")) for number in range(first, first + size)
        ]
        for problem in judge(texts, counts):
            print(problem, file=sys.stderr)
        counts["steps"] += size
    counts["violations"] = sum(
        counts[name] for name in ("wrong", "omissions", "doubted", "unauthorised")
    )
    return counts


def judge(texts: Sequence[str], counts: dict[str, int]) -> Iterator[str]:
    """Adds what bash and tree-sitter say of the texts to the counts; yields each disagreement."""
    asked = [(text, status) for text in texts for status in statuses(text)]
    with tempfile.TemporaryDirectory() as folder:
        answers = dispatch(asked, Path(folder))
        driver.furnish(Path(folder) / "sample")  # what every program saw when it began
        sample = Place(Context(cwd=f"{folder}/sample"), (f"{folder}/sample",), False)
        seen: set[str] = set()
        for (text, status), argvs in zip(asked, answers, strict=True):
            counts["dispatched"] += len(argvs)
            yield from _found(text, argvs, counts)
            yield from _authorised(text, argvs, sample.context, text not in seen, counts)
            read = scan(text)
            if isinstance(read, Opaque):
                continue
            yield from _exact(text, read, status, argvs, sample, counts)
            if text not in seen:
                seen.add(text)
                counts["accepted"] += 1
                yield from _second(text, read, counts)


def statuses(text: str) -> tuple[str, ...]:
    """How the stubs end: each way once where the text is read, any way where it is not."""
    if isinstance(scan(text), Opaque):
        return ("any",)
    return ("0", "1") if "||" in text else ("0",)


def dispatch(asked: Sequence[tuple[str, str]], folder: Path) -> list[list[list[str]]]:
    """The argvs bash dispatches for each (text, status of every stub)."""
    confined = _confined(str(folder))
    words = [*confined, sys.executable, "-I", str(Path(driver.__file__).resolve())]
    job = json.dumps({"programs": asked, "folder": str(folder)})
    done = subprocess.run(words, input=job, stdout=subprocess.PIPE, text=True, check=True)
    answers: list[list[list[str]]] = json.loads(done.stdout)
    return answers


def _confined(folder: str) -> list[str]:
    if bubblewrap() is None:
        return []
    return [
        *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--bind", folder, folder, "--unshare-pid", "--unshare-net", "--die-with-parent"),
    ]


def _found(text: str, argvs: list[list[str]], counts: dict[str, int]) -> Iterator[str]:
    found = find(text)
    missed = {argv[0] for argv in argvs} - found.names
    if missed and not found.dynamic:
        counts["omissions"] += 1
        yield f"omitted {sorted(missed)} in {text!r}"


def _authorised(
    text: str, argvs: list[list[str]], context: Context, first: bool, counts: dict[str, int]
) -> Iterator[str]:
    """Of an allowed program: every command that bash ran must be allowed by itself."""
    if evaluate(Call("Bash", text), RULES, "ask", context).verdict != "allow":
        return
    counts["allowed"] += first
    for argv in argvs:
        alone = evaluate(Call("Bash", shlex.join(argv)), RULES, "ask", context)
        if alone.verdict != "allow":
            counts["unauthorised"] += 1
            yield f"allowed {text!r}, which runs {argv}: {alone.reason}"


def _exact(
    text: str,
    read: Program,
    status: str,
    argvs: list[list[str]],
    place: Place,
    counts: dict[str, int],
) -> Iterator[str]:
    known = {*driver.FILES, "s", "/dev/null"}
    if any(path not in known for command in read.commands for path in command.reads):
        return  # bash runs nothing where the input is missing
    expected = Counter(argv for argv in _expected(read, status, place) if "/" not in argv[0])
    got = Counter(tuple(argv) for argv in argvs)
    for argv in [argv for argv in got if argv[0] == "command"]:
        del got[argv]
    expected = Counter(
        {argv: count for argv, count in expected.items() if argv[0] not in ("command", "builtin")}
    )
    inner = {command.argv[0] for command in read.commands} & {"command", "builtin"}
    if not inner and expected != got:
        counts["wrong"] += 1
        yield f"read {sorted(expected)} but bash ran {sorted(got)} in {text!r}"


def _expected(read: Program, status: str, place: Place) -> Iterator[tuple[str, ...]]:
    """The argvs bash dispatches when every command ends with `status`."""
    runs = True
    for at, command in enumerate(read.commands):
        join = read.joins[at - 1] if at else ";"
        if join in (";", "\n"):
            runs = True
        elif join != "|":  # every status is equal, so a skipped pipeline changes nothing
            runs = (status == "0") == (join == "&&")
        if runs:
            yield _words(command, place)


def _words(command: Any, place: Place) -> tuple[str, ...]:
    """The one argv of a command: `expanded` also keeps a pattern that bash drops."""
    argv = list(next(expanded(command, place)))
    for word in command.words:
        alone = type(command)((command.words[0], word), (), "")
        if word.globs and len(next(expanded(alone, place))) > 2:
            argv.remove(word.text)
    return tuple(argv)


@cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _second(text: str, read: Program, counts: dict[str, int]) -> Iterator[str]:
    """Tree-sitter's count of commands, where it reads the text without an error."""
    tree = _parser().parse(text.encode())
    if tree.root_node.has_error:
        return
    names = [_text(node) for node in _nodes(tree.root_node)]
    ours = [command.argv[0] for command in read.commands]
    across = any("\n" in name for name in names)  # one command over a line end: never so in bash
    if len(names) != len(ours) and not across and not misread(text):
        counts["doubted"] += 1
        yield f"read {ours} but tree-sitter reads {names} in {text!r}"


def misread(text: str) -> bool:
    """Whether tree-sitter-bash is known to misread a form in the text without saying so.

    It reads redirects, operators and line ends between `[` and `]` as part of the test, `coproc`
    and `time` as commands, CR as a blank, braces as plain words, and (seen by `_second`) the line
    end after a pipeline as a blank.
    """
    return (
        re.search(r"\[\s[^\]]*[<>|&;\n]|\b(?:coproc|time)\b|\r|(?:^|\s)[{}](?:\s|$)", text)
        is not None
    )


def _nodes(node: Any) -> Iterator[Any]:
    if node.type in ("command", "test_command", "declaration_command", "unset_command"):
        yield node
    for child in node.children:
        yield from _nodes(child)


def _text(node: Any) -> str:
    return str(node.text.decode(errors="replace"))
