"""Asked: how often a person would be asked about the Bash calls recorded in real sessions.

`python -m bench.asked [FOLDER] [--examples N]`: every distinct command of the transcripts in FOLDER
(default: the corpus beside this repository) through the read-only table alone, in each call's own
folder, beside a whitelist in the manner of Codex on the same calls. It prints figures only, keeps
nothing, and may not run a command.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_kernel.guard import Call, Context, evaluate, parse_rules
from agent_kernel.guard.shell import Opaque, Program, scan
from agent_kernel.guard.shell_find import find

CORPUS = Path(__file__).resolve().parents[2] / "shared/corpus"
_TOOLS = ("Bash", "bash", "shell", "exec_command", "shell_command", "local_shell")
_LOOKS = frozenset(
    "ls cat head tail grep rg find wc sed tree file stat du df which pwd echo jq sort uniq cut "
    "diff awk less date env printenv ps type test [ nl tr xargs basename dirname realpath".split()
)
_WRITES = frozenset("rm mv cp mkdir touch chmod ln tee install rmdir kill pkill".split())
_NETWORK = frozenset("curl wget ssh scp rsync gh ping nc".split())
_CODE = frozenset("python python3 node ruby perl bash sh php deno bun uv".split())
_GIT_LOOKS = frozenset(
    "status diff log show branch rev-parse ls-files blame remote config tag stash grep".split()
)
# Why the table does not cover a call: the first pattern that its reason holds names the class.
REASONS = (
    ("a file is written by a redirect", r"redirects to a file|input form"),
    ("double quotes hold $, a backtick, a backslash or !", r"double-quoted"),
    ("a substitution or variable: what runs is not what is read", r"live '[$`]'"),
    ("a loop, group, function or assignment", r"shell word|live '[(){}]'|command name that is not"),
    ("a pattern outside the operands of the few readers", r"live '[*?\[~]'|pattern"),
    ("an escape that bash reads in its own way, or a hidden character", r"backslash|character"),
    (
        "a high-risk act, told in words (F12.2)",
        r"cannot be undone|on the server|others share|work tree",
    ),
    ("leaves the workspace", r"outside the workspace"),
    ("cd elsewhere, or git after cd", r"\bcd\b|git after"),
    ("a git subcommand, flag or operand that may write or run", r"git"),
    ("an interpreter or compiler beyond --version", r"only `\S+ --version`"),
    ("a reader's flag or word that does more than read", r"can do more|sed script|NAME|table:"),
    ("a program that is no reader", r"'[^']*' is not in the read-only table"),
    ("a reader's flag that the table does not know", r"is not in the read-only table"),
)


def main(argv: Sequence[str]) -> int:
    """Print the tables; returns 1 when there is no transcript."""
    parser = argparse.ArgumentParser(prog="bench.asked", description="How often a person is asked.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--examples", type=int, default=0, help="refused commands shown per class")
    options = parser.parse_args(argv)
    calls = distinct(options.folder)
    if not calls:
        print(f"no Bash call in {str(options.folder)!r}", file=sys.stderr)
        return 1
    verdicts = {text: judged(text, cwd) for text, cwd in calls.items()}
    by_class(verdicts)
    refusals(verdicts, options.examples)
    return 0


def distinct(folder: Path) -> dict[str, str]:
    """Every distinct command in the transcripts below `folder`, and its first call's folder."""
    found: dict[str, str] = {}
    for file in sorted(folder.rglob("*.jsonl*")):
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if any(tool in line for tool in _TOOLS):
                    for text, cwd in _calls(line):
                        found.setdefault(text, cwd)
    return found


def _calls(line: str) -> Iterator[tuple[str, str]]:
    try:
        record = json.loads(line)
    except ValueError:
        return
    cwd = record.get("cwd") if isinstance(record, dict) else None
    for text in _commands(record):
        yield text, cwd if isinstance(cwd, str) and cwd.startswith("/") else "/home/a/project"


def _commands(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if value.get("name") in _TOOLS:
            yield from _command(value.get("input") or value.get("arguments"))
        for inner in value.values():
            yield from _commands(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _commands(inner)


def _command(given: Any) -> Iterator[str]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return
    text = given.get("command") or given.get("cmd") if isinstance(given, dict) else None
    if isinstance(text, list) and text[:2] in (["bash", "-lc"], ["bash", "-c"]):
        text = text[2] if len(text) > 2 else None
    if isinstance(text, str) and text.strip() and "[REDACTED" not in text:
        yield text


def judged(text: str, cwd: str) -> tuple[bool, bool, str]:
    """Whether the table allows it, whether the whitelist does, and why the table does not."""
    context = Context(cwd=cwd, roots=(cwd,), home="/home/a", path="/usr/bin:/bin")
    verdict = evaluate(Call("Bash", text), parse_rules("RO"), "ask", context)
    allowed = verdict.verdict == "allow"
    return allowed, whitelisted(text), "" if allowed else verdict.reason


def class_of(text: str) -> str:
    """What a call is for: its heaviest program decides."""
    found = find(text)
    names = {argv[0].rsplit("/", 1)[-1] for argv in found.argvs} - {"cd", "true", "false", ":"}
    git = {argv[1] for argv in found.argvs if argv[0] == "git" and len(argv) > 1}
    if git - _GIT_LOOKS:
        return "git that changes"
    if names & _NETWORK:
        return "network"
    if names & _WRITES or found.writes:
        return "writes files"
    rest = names - _LOOKS - {"git"}
    if not rest:
        return "git that looks" if git else "looks at files"
    return "runs code" if rest & _CODE else "builds, tests, other programs"


def by_class(verdicts: dict[str, tuple[bool, bool, str]]) -> None:
    """Print the share allowed by class, ours beside the whitelist's."""
    classes: dict[str, list[tuple[bool, bool, str]]] = {}
    for text, verdict in verdicts.items():
        classes.setdefault(class_of(text), []).append(verdict)
    print(
        f"{'class of call':32}{'calls':>7}{'allowed':>9}{'share':>8}{'whitelist':>11}{'share':>8}"
    )
    rows = sorted(classes.items(), key=lambda pair: -len(pair[1]))
    for name, found in [*rows, ("all", list(verdicts.values()))]:
        ours, theirs = sum(v[0] for v in found), sum(v[1] for v in found)
        print(
            f"{name:32}{len(found):7}{ours:9}{ours / len(found):8.1%}"
            f"{theirs:11}{theirs / len(found):8.1%}"
        )
    both = Counter((ours, theirs) for ours, theirs, _ in verdicts.values())
    print(f"only ours: {both[True, False]}; only the whitelist's: {both[False, True]}")


def refusals(verdicts: dict[str, tuple[bool, bool, str]], examples: int) -> None:
    """Print how many calls each reason keeps from being allowed."""
    counts: Counter[str] = Counter()
    shown: dict[str, list[str]] = {}
    for text, (allowed, listed, why) in verdicts.items():
        if not allowed:
            name = reason_class(why)
            counts[name] += 1
            shown.setdefault(name, []).append(
                f"{'W ' if listed else ''}{text[:150]!r}: {why[:150]}"
            )
    print(f"\n{'why a person is asked':62}{'calls':>7}{'share':>8}")
    for name, count in counts.most_common():
        print(f"{name:62}{count:7}{count / len(verdicts):8.1%}")
        for one in sorted(shown[name])[:examples]:
            print(f"    {one}")


def reason_class(why: str) -> str:
    """The class of a reason."""
    stripped = why.rpartition(" is not covered by a rule: ")[2].removeprefix("the command ")
    for name, pattern in REASONS:
        if re.search(pattern, stripped):
            return name
    return "other"


_SAFE = frozenset(
    "cat cd cut echo expr false grep head id ls nl paste pwd rev seq stat tail tr true uname uniq "
    "wc which whoami numfmt tac".split()
)


def whitelisted(text: str) -> bool:
    """A whitelist as Codex keeps one: plain words joined by && || ; |, each a known reader."""
    read = scan(text)
    if isinstance(read, Opaque) or not _plain(read, text):
        return False
    return all(_safe(list(command.argv)) for command in read.commands)


def _plain(read: Program, text: str) -> bool:
    globs = any(word.globs for command in read.commands for word in command.words)
    return not globs and not re.search(r"(?<!['\"])[<>]", re.sub(r"'[^']*'|\"[^\"]*\"", "", text))


def _safe(argv: list[str]) -> bool:
    name, words = argv[0], argv[1:]
    if name in _SAFE:
        return True
    if name == "git":
        return words[:1] in ([w] for w in ("status", "log", "diff", "show", "branch"))
    if name == "find":
        return not any(
            re.match(r"-(?:exec|execdir|ok|okdir|delete|fls|fprint\w*)$", word) for word in words
        )
    if name == "rg":
        return not any(re.match(r"--pre\b|--hostname-bin|--search-zip|-z", w) for w in words)
    if name == "sed":
        return (
            len(words) in (2, 3)
            and words[0] == "-n"
            and bool(re.fullmatch(r"\d+(?:,\d+)?p", words[1]))
        )
    return name == "cargo" and words[:1] == ["check"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
