"""Bash stage: the verdicts on a bash text, part by part.

Only the scanner's reading may allow; the finder's serves deny, ask and the broad rule's limits.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Iterator, Sequence

from agent_kernel.guard.bash_grant import Place, cd_target, expanded, grant
from agent_kernel.guard.bash_paths import path_verdicts
from agent_kernel.guard.calls import Context, Mode, Verdict
from agent_kernel.guard.commands import READ_ONLY, WRITERS
from agent_kernel.guard.effects import effects
from agent_kernel.guard.paths import Problem, protected, resolve
from agent_kernel.guard.rules import Rule, Rules, match_words
from agent_kernel.guard.shell import Opaque, Program, scan
from agent_kernel.guard.shell_find import Found, find
from agent_kernel.guard.writes import all_written, folders

# They run nothing they are given, or the finder knows by which flags they do.
_NO_LAUNCHERS = (
    frozenset(READ_ONLY)
    | WRITERS
    | frozenset(
        "apt apt-get aptitude brew dnf yum apk pacman pip pip3 conda cargo go gem man whatis "
        "apropos kill pkill killall pgrep export unset alias awk python python3 curl wget gh "
        "docker for".split()
    )
)
_MOST_WORDS = 40


def judge_bash(text: str, rules: Rules, mode: Mode, context: Context) -> list[Verdict]:
    """Every stage's verdict on running `text`."""
    program, found = scan(text), find(text)
    parts = _parts(program, text)
    return [
        _base(program, found, rules, mode, context, parts),
        *_rule_verdicts(text, found, rules, parts),
        *(
            Verdict("ask", why, "risk", parts=parts, risk=why)
            for why in effects(found, text, context.roots)
        ),
        *path_verdicts(found, rules, context, parts),
        *_taint(found, context, parts),
    ]


def _parts(program: Program | Opaque, text: str) -> tuple[str, ...]:
    if isinstance(program, Opaque):
        return (text,)
    return tuple(command.text for command in program.commands)


def _base(
    program: Program | Opaque,
    found: Found,
    rules: Rules,
    mode: Mode,
    context: Context,
    parts: tuple[str, ...],
) -> Verdict:
    if isinstance(program, Opaque) and program.hidden:
        return Verdict("ask", f"the command {program.why}", "base", parts=parts)
    if mode == "plan":
        why = _uncovered(program, Rules(), mode, context)
        if why:
            return Verdict("deny", f"plan mode only looks: {why}", "base", parts=parts)
        return Verdict("allow", "every part only reads", "base", parts=parts)
    why = _uncovered(program, rules, mode, context)
    if not why:
        return Verdict("allow", "every part is covered", "base", parts=parts)
    broad = next((rule for rule in rules.allow if rule.tool == "Bash" and rule.whole), None)
    if broad is None and mode != "bypass":
        return Verdict("ask", why, "base", parts=parts)
    limit = _limit(program, found, rules, context, mode == "bypass")
    name = broad.text if broad else ""
    if limit:
        return Verdict("ask", limit, "base", name, parts)
    return Verdict("allow", f"covered by {name or mode!r}", "base", name, parts)


def _uncovered(program: Program | Opaque, rules: Rules, mode: Mode, context: Context) -> str:
    """The first part that neither the read-only table nor a rule covers, with its reason, or ''."""
    if isinstance(program, Opaque):
        return f"the command {program.why}: it cannot be allowed part by part"
    place = Place(context, (context.cwd,), moved=False)
    for at, command in enumerate(program.commands):
        if command.argv[0] == "cd":
            target, why = cd_target(command.argv, at, program.joins, context)
            if why:
                return f"{command.text!r}: {why}"
            place = Place(context, target, moved=True)
            continue
        for variant in expanded(command, place):
            why = grant(command, variant, rules, mode, place)
            if why:
                return why
    return ""


def _limit(
    program: Program | Opaque, found: Found, rules: Rules, context: Context, bypass: bool
) -> str:
    """Why a broad allow does not cover the text, or ''."""
    if found.dynamic:
        return "a command name or code is known only at run time"
    if rules.narrowing("Bash", "Read", "Edit"):
        if isinstance(program, Opaque):
            return f"the command {program.why} while deny or ask rules are loaded"
        if found.code:
            return "code can do what the loaded deny and ask rules forbid"
    return next(_leaving(found, context, bypass), "")


def _leaving(found: Found, context: Context, bypass: bool) -> Iterator[str]:
    places, unknown = folders(found, context.cwd, context.home)
    targets = all_written(found)
    if targets and unknown and not bypass:
        yield "it writes in a folder known only at run time"
    for text in targets:
        for place in places:
            target = resolve(text, place, context.roots, context.home)
            if isinstance(target, Problem):
                yield target.why
            elif not target.inside and not bypass and target.real != "/dev/null":
                yield f"it writes {text!r} outside the workspace"
            elif protected(target, context.notebook):
                yield protected(target, context.notebook)


def _rule_verdicts(
    text: str, found: Found, rules: Rules, parts: tuple[str, ...]
) -> Iterator[Verdict]:
    for rule in rules.deny:
        if rule.tool != "Bash":
            continue
        if _meets(rule, text, found):
            yield Verdict("deny", f"denied by {rule.text!r}", "deny", rule.text, parts)
        elif _may_run(rule, found):
            why = f"it may run what {rule.text!r} denies"
            yield Verdict("ask", why, "deny", rule.text, parts)
    for rule in rules.ask:
        if rule.tool == "Bash" and _meets(rule, text, found):
            yield Verdict("ask", f"asks by {rule.text!r}", "ask", rule.text, parts)


def _meets(rule: Rule, text: str, found: Found) -> bool:
    """The wide reading: any found argv, its name also without case, or the raw text."""
    if rule.whole:
        return True
    if any(match_words(rule, argv, True) for argv in _cases(found.argvs)):
        return True
    return not rule.words and fnmatch.fnmatchcase(text, f"*{rule.spec}*")


def _may_run(rule: Rule, found: Found) -> bool:
    """Whether a program we do not know is given words that the rule covers."""
    head = rule.words[0].text.casefold() if rule.words else ""
    for argv in found.argvs:
        if posixpath.basename(argv[0]) in _NO_LAUNCHERS:
            continue
        for at, word in enumerate(argv[1:_MOST_WORDS], 1):
            if head not in word.casefold() and not re.search(r"['\"\\$`]", word):
                continue  # it cannot name the program, not even in pieces
            inner = find(word).argvs if re.search(r"\s", word.strip()) else ()
            if any(match_words(rule, words, True) for words in (argv[at:], *inner)):
                return True
    return False


def _cases(argvs: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for argv in argvs:
        yield argv
        if not argv[0].islower():
            yield (os.path.normcase(argv[0]).lower(), *argv[1:])


def _taint(found: Found, context: Context, parts: tuple[str, ...]) -> Iterator[Verdict]:
    if context.tainted and (found.network or found.code or found.dynamic):
        why = "untrusted text is in view and the command may reach the network"
        yield Verdict("ask", why, "taint", parts=parts)
