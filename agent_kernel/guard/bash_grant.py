"""Bash grant: whether one scanned command is covered, by the read-only table or by a rule.

It may only narrow what the table and the rules say; each reason it gives is shown to a person.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_kernel.guard.calls import Context, Mode, join
from agent_kernel.guard.commands import NETWORK, READ_ONLY, WRITERS, Entry
from agent_kernel.guard.flags import (
    FORBIDDEN,
    FROM_INPUT,
    ONE_DASH,
    SECOND_IS_OUTPUT,
    UNKNOWN_FORBIDDEN,
    UNKNOWN_LONG,
    WORDS,
    WORDS_OF_ANY,
)
from agent_kernel.guard.options import spells, split
from agent_kernel.guard.path_stage import Access, covered, judge_path
from agent_kernel.guard.paths import Problem, protected, resolve
from agent_kernel.guard.readonly import Look, look, names_file, shadowed
from agent_kernel.guard.repository import look_git, refused_flag
from agent_kernel.guard.rules import Rule, Rules, match_words
from agent_kernel.guard.shell import Command, Word
from agent_kernel.guard.wrappers import WRAPPERS

_LOOKED = frozenset("printf test [ uniq hostname date jq".split())  # the table reads their words
_MOST_MATCHES = 1_000
_MOST_FILES = 20_000
_SED_PLAIN = re.compile(
    r"(?:[\d,$]*p|s([/|#,!])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gip\d]*)"
    r"(?:;[\d,$]*p)*"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs: the folders it may stand in, and whether a `cd` came first."""

    context: Context
    folders: tuple[str, ...]
    moved: bool


def grant(command: Command, argv: Sequence[str], rules: Rules, mode: Mode, place: Place) -> str:
    """Why the command is not covered, or ''; `argv` is it with its patterns expanded."""
    why = _by_table(argv, rules, mode, place) or _reads(command, rules, mode, place)
    if not why:
        return ""
    for rule in rules.allow:
        if rule.tool == "Bash" and not rule.whole and match_words(rule, argv):
            refusal = _by_rule(rule, argv, rules, mode, place) or _reads(
                command, rules, mode, place
            )
            if not refusal:
                return ""
            why = refusal
    return f"{command.text!r} is not covered by a rule: {why}"


def cd_target(
    argv: Sequence[str], at: int, joins: Sequence[str], context: Context
) -> tuple[tuple[str, ...], str]:
    """The folders the commands after a leading `cd` stand in, or why it is not covered."""
    words = [word for word in argv[1:] if word != "--"]
    if at or len(words) != 1 or words[0].startswith("-") or not words[0]:
        return (), "cd is read only once, first, with one literal folder"
    if joins[:1] == ("|",):
        return (), "cd inside a pipeline changes nothing"
    target = resolve(words[0], context.cwd, context.roots, context.home)
    if isinstance(target, Problem):
        return (), target.why
    if not target.inside or words[0].startswith("~"):
        return (), f"{words[0]!r} is outside the workspace"
    here = (target.real,) if target.lexical == target.real else (target.real, target.lexical)
    sure = target.kind == "folder" or all(join == "&&" for join in joins)
    return (here if sure else (*here, context.cwd)), ""


def expanded(command: Command, place: Place) -> Iterator[tuple[str, ...]]:
    """The argv with its patterns replaced by what they match, once per folder."""
    if not any(word.globs for word in command.words):
        yield command.argv
        return
    for folder in place.folders:
        words: list[str] = []
        for word in command.words:
            words += _matches(word, folder) if word.globs else [word.text]
        yield tuple(words)


def _matches(word: Word, folder: str) -> list[str]:
    """What a pattern in the last path part stands for: its matches, or itself without any."""
    lead, _, _ = word.text[: word.globs[0]].rpartition("/")
    start = len(lead) + 1 if "/" in word.text[: word.globs[0]] else 0
    regex = "".join(
        (".*" if char == "*" else ".") if at in word.globs else re.escape(char)
        for at, char in enumerate(word.text)
        if at >= start
    )
    try:
        names = os.listdir(os.path.join(folder, word.text[:start] or "."))
    except OSError:
        names = []
    dotted = word.text[start : start + 1] == "."
    names += [".", ".."] if dotted else []
    found = [
        word.text[:start] + name
        for name in sorted(names)
        if (dotted or not name.startswith(".")) and _like(regex, name)
    ]
    return [*found, word.text][:_MOST_MATCHES]


def _like(regex: str, name: str) -> bool:
    """Whether the name matches as characters or as bytes: bash's locale decides which."""
    as_bytes = os.fsencode(name).decode("latin-1")
    return bool(re.fullmatch(regex, name, re.DOTALL) or re.fullmatch(regex, as_bytes, re.DOTALL))


def _by_table(argv: Sequence[str], rules: Rules, mode: Mode, place: Place) -> str:
    context, name = place.context, argv[0]
    if "/" in name or name not in READ_ONLY:
        return f"{name!r} is not in the read-only table"
    if shadowed(name, context.path, context.roots):
        return f"{name!r} is found inside the workspace"
    for folder in place.folders:
        if name == "git":
            if place.moved and len(argv) > 1 and argv[1] != "--version":
                return "git after cd may obey another repository"
            seen = look_git(argv[1:], folder, context.roots[0], context.trusted)
        else:
            seen = look(argv, folder)
        why = seen.why or _paths_pass(seen, rules, mode, context, folder)
        if why:
            return why
    return ""


def _reads(command: Command, rules: Rules, mode: Mode, place: Place) -> str:
    seen = Look(paths=command.reads)
    for folder in place.folders:
        why = _paths_pass(seen, rules, mode, place.context, folder)
        if why:
            return why
    return ""


def _paths_pass(seen: Look, rules: Rules, mode: Mode, context: Context, folder: str) -> str:
    for path in dict.fromkeys(seen.paths):
        verdict = join(judge_path("Read", path, rules, mode, context, folder))
        if verdict.verdict != "allow":
            return verdict.reason
        if seen.follows:
            why = _link_below(os.path.join(folder, path), context)
            if why:
                return why
    return ""


def _link_below(folder: str, context: Context) -> str:
    """Why a reader that follows links may leave the workspace from `folder`, or ''."""
    count = 0
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            count += 1
            path = os.path.join(place, name)
            if count > _MOST_FILES:
                return f"{folder!r} holds too many files to see whether a link leads out"
            if os.path.islink(path):
                target = resolve(path, folder, context.roots, context.home)
                if isinstance(target, Problem) or not target.inside:
                    return f"it follows the link {path!r}, which leads out of the workspace"
    return ""


def _by_rule(rule: Rule, argv: Sequence[str], rules: Rules, mode: Mode, place: Place) -> str:
    """Why a matching rule does not cover these words after all, or ''."""
    size = len(rule.words) if rule.prefix else len(argv)
    name = posixpath.basename(argv[0])
    if name in NETWORK and rule.prefix and len(argv) > size:
        return f"a rule on {name!r} covers its exact words only"
    if name == "git" and place.moved:
        return "git after cd may obey another repository"
    fixed = rule.fixed
    for words in _nested(argv):
        if rule.prefix and posixpath.basename(words[0]) in FROM_INPUT:
            return f"{words[0]!r} takes more words from its input: a rule covers exact words only"
        flag = _forbidden(words, fixed)
        if flag:
            return f"{flag} can write or run a program: a rule must spell it out"
    extra = [word for at, word in enumerate(argv) if at >= size or rule.words[at].globs]
    return _operands_pass(argv, extra, rules, mode, place)


def _nested(argv: Sequence[str]) -> Iterator[Sequence[str]]:
    """The argv and the commands its wrappers run."""
    words = list(argv)
    for _ in range(8):
        if not words:
            return
        yield words
        wrapper = WRAPPERS.get(posixpath.basename(words[0]))
        if wrapper is None:
            return
        words = wrapper.inner(words)


def _forbidden(argv: Sequence[str], fixed: Sequence[str]) -> str:
    """The flag of these words that no prefix grants and the rule's fixed words do not spell."""
    name, words = posixpath.basename(argv[0]), list(argv[1:])
    if name == "git":
        return _forbidden_git(words, fixed)
    if name in _LOOKED and not set(words) <= set(fixed):
        return look((name, *words), "/").why
    if name == "tar" and words and not words[0].startswith("-"):
        words[0] = "-" + words[0]  # the old form: a first word of letters alone
    entry = READ_ONLY.get(name)
    entry = None if entry and entry.shape == "exact" else entry
    named = (*(entry.never if entry else ()), *FORBIDDEN.get(name, ()))
    if entry is None and name not in FORBIDDEN:
        named = UNKNOWN_FORBIDDEN
    if name == "find":
        return next((w for w in words if w not in fixed and _one_dash(w, named)), "")
    values = entry.values if entry else ""
    for word in words:
        if word not in fixed and (_spelled(word, named, values) or _runs(name, word, entry)):
            return word
    if name == "sed":
        return _sed_script(words, fixed)
    return _output(name, [word for word in words if word not in fixed])


def _runs(name: str, word: str, entry: Entry | None) -> bool:
    """Whether a word that is no flag in the tables still names what is run."""
    shape = WORDS.get(name)
    if shape and shape.fullmatch(word):
        return True
    if entry is not None or name in WRITERS:
        return False
    long = word.partition("=")[0]
    return bool(WORDS_OF_ANY.fullmatch(word) or UNKNOWN_LONG.fullmatch(long))


def _output(name: str, words: Sequence[str]) -> str:
    """The operand a command writes to although no flag says so, or ''."""
    operands = split(words, "iprBFVYzD" if name == "patch" else "").words
    if name in SECOND_IS_OUTPUT and len(operands) > 1:
        return f"{name} writes to {operands[1]!r}, which"
    if name == "patch" and not operands:
        return "patch without a file operand, which"
    return ""


def _spelled(word: str, named: Sequence[str], values: str) -> bool:
    """Whether a word spells one of the flags: alone, attached, clustered or abbreviated."""
    if not word.startswith("-") or word == "-":
        return False
    if named is UNKNOWN_FORBIDDEN and word.partition("=")[0] in ONE_DASH:
        return False
    flags = split([word], values).flags
    return _one_dash(word, named) or any(spells(flag.name, named) for flag in flags)


def _one_dash(word: str, named: Sequence[str]) -> bool:
    """Whether a one-dash long option such as `-exec` or `-delete` is spelled."""
    return any(
        word == flag or (flag.endswith("*") and word.startswith(flag[:-1]))
        for flag in named
        if not flag.startswith("--") and len(flag) > 2
    )


def _forbidden_git(words: Sequence[str], fixed: Sequence[str]) -> str:
    flag = refused_flag([w for w in words if w not in fixed], ("--receive-pack*", "-x"))
    before = words[0] if words else ""
    if before.startswith("-") and before not in fixed:
        return before
    if flag and flag != before:
        return flag
    for phrase in (("submodule", "foreach"), ("bisect", "run")):
        if all(word in words for word in phrase) and phrase[1] not in fixed:
            return phrase[1]
    return next((word for word in words if "::" in word and word not in fixed), "")


def _sed_script(words: Sequence[str], fixed: Sequence[str]) -> str:
    operands = split(words).words
    script = operands[0] if operands else ""
    if script in fixed or _SED_PLAIN.fullmatch(script):
        return ""
    return f"the sed script {script!r}"


def _operands_pass(
    argv: Sequence[str], extra: Sequence[str], rules: Rules, mode: Mode, place: Place
) -> str:
    """Why a path among the words beyond the rule's own is not covered, or ''."""
    name = posixpath.basename(argv[0])
    writer, known = name in WRITERS, name in WRITERS or name in READ_ONLY
    words = argv[1:] if writer else extra
    for folder in place.folders:
        for word in words:
            for path in _path_texts(word, folder, writer):
                access: Access = "Edit" if writer else "Read"
                why = _path_passes(path, access, rules, mode, place.context, folder)
                why = why or ("" if known else _guarded(path, place.context, folder))
                if why:
                    return why
    return ""


def _path_texts(word: str, folder: str, writer: bool) -> Iterator[str]:
    value = word.partition("=")[2]
    if word.startswith("-"):
        attached = value or ("" if word.startswith("--") else word[2:])
        if attached and names_file(attached, folder):
            yield attached
    elif "://" not in word and word and (writer or names_file(word, folder)):
        yield word
        if value and names_file(value, folder):
            yield value


def _guarded(path: str, context: Context, folder: str) -> str:
    """Why a program we do not know may not be given the path: it could write there."""
    target = resolve(path, folder, context.roots, context.home)
    return "" if isinstance(target, Problem) else protected(target, context.notebook)


def _path_passes(
    path: str, access: Access, rules: Rules, mode: Mode, context: Context, folder: str
) -> str:
    target = resolve(path, folder, context.roots, context.home)
    if isinstance(target, Problem):
        return target.why
    if not target.inside and not covered(access, target, rules, context):
        return f"{path!r} is outside the workspace"
    verdicts = judge_path(access, path, rules, mode, context, folder)
    worst = join(verdicts[1:]) if len(verdicts) > 1 else None
    return worst.reason if worst and worst.verdict != "allow" else ""
