"""Readonly: whether one command only reads, by the table, and which paths it then reads.

It may not allow anything: it names the paths that still have to pass as Read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agent_kernel.guard.commands import (
    BUILTINS,
    EXACT,
    FIND_PLAIN,
    FIND_VALUE,
    READ_ONLY,
    Entry,
)
from agent_kernel.guard.options import Options, spells, split
from agent_kernel.guard.paths import secret, within

_SED = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$))?p)*")
_JQ_READS = re.compile(r"\b(?:import|include|modulemeta)\b|\$ENV|(?<![.\w$])env\b")
_PATTERN_BOOLEANS: Final = frozenset("abcEFGhHiIlLnoPpqrRsTuUvVwxyzZ0SN.")


@dataclass(frozen=True, slots=True)
class Look:
    """Why a command is not known to read only ('' when it is), and the paths it reads.

    `deep` says that contents below its folders are read too, `follows` also through links there.
    """

    why: str = ""
    paths: tuple[str, ...] = ()
    deep: bool = False
    follows: bool = False


def look(argv: Sequence[str], cwd: str) -> Look:
    """What the read-only table says of a command; git and cd are judged elsewhere."""
    name, words = argv[0], list(argv[1:])
    entry = READ_ONLY.get(name)
    if entry is None:
        return Look(f"{name!r} is not in the read-only table")
    return _SHAPES[entry.shape](entry, name, words, cwd)


def shadowed(name: str, path: str, roots: Sequence[str]) -> bool:
    """Whether the child's PATH finds `name` inside the workspace, where a project put it."""
    if name in BUILTINS:
        return False
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, name)
        if folder.startswith("/") and os.access(candidate, os.X_OK):
            real = os.path.realpath(candidate)
            reals = [os.path.realpath(root) for root in roots]
            return within(candidate, roots) or within(real, reals)
    return False


def names_file(word: str, cwd: str) -> bool:
    """Whether an operand has to pass as a path: by its form, its name, or because it exists."""
    if "/" in word or ".." in word or secret(word):
        return True
    try:
        return os.path.lexists(os.path.join(cwd, word))
    except (OSError, ValueError):
        return True


def _flags(entry: Entry, name: str, words: list[str]) -> tuple[Options, str]:
    options = split(words, entry.values, entry.long)
    for flag in options.flags:
        if entry.only is not None and flag.name not in entry.only:
            return options, f"{name} {flag.name} is not in the read-only table"
        refused = spells(flag.name, entry.never)
        if refused:
            return options, f"{name} {refused} can do more than read"
    return options, ""


def _read(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    options, why = _flags(entry, name, words)
    paths = _files(entry, options, options.words, cwd)
    if name == "strings" and any(word.startswith("@") for word in options.words):
        why = why or "strings @FILE reads its options from a file"
    if name == "tail" and any(re.fullmatch(r"\+\d*[bcl]?f", word) for word in options.words):
        why = why or "tail +f follows the file"
    deep = _follows(name, {flag.name for flag in options.flags})
    return Look(why, paths or (("./",) if deep and name != "diff" else ()), deep, deep)


def _follows(name: str, flags: set[str]) -> bool:
    """Whether the command walks below its folders and through the links it meets there."""
    if name == "diff":
        return bool(flags & {"-r", "--recursive"})
    if name == "ls":
        return _any(flags, "-R", "--recursive") and _any(flags, "-L", "--dereference")
    if name == "du":
        return _any(flags, "-L", "--dereference")
    return name == "tree" and "-l" in flags


def _any(flags: set[str], short: str, long: str) -> bool:
    return short in flags or any(spells(flag, (long + "*",)) for flag in flags)


def _files(entry: Entry, options: Options, operands: Sequence[str], cwd: str) -> tuple[str, ...]:
    values = [
        flag.value
        for flag in options.flags
        if flag.value and flag.name not in entry.free and names_file(flag.value, cwd)
    ]
    return (*(word for word in operands if word != "-" and names_file(word, cwd)), *values)


def _free(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    return Look()


def _none(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    options, why = _flags(entry, name, words)
    if options.operands and not why:
        why = f"{name} with an operand can change the machine"
    return Look(why)


def _one(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    options, why = _flags(entry, name, words)
    if len(options.operands) > 1 and not why:
        why = f"{name} writes to its second operand"
    return Look(why, _files(entry, options, options.words, cwd))


def _pattern(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    options, why = _flags(entry, name, words)
    operands = list(options.operands)
    if name == "rg" and any(flag.name == "--files" for flag in options.flags):
        follows = any(flag.name in ("-L", "--follow") for flag in options.flags)
        paths = _files(entry, options, options.words, cwd)
        return Look(why, paths or (("./",) if follows else ()), follows, follows)
    given = any(
        flag.name in ("-e", "-f") or flag.name.startswith(("--re", "--fil", "--type-list"))
        for flag in options.flags
    )
    if operands and not given and _no_value_before(words, operands[0][0]):
        operands = operands[1:]
    files = [word for _, word in operands]
    deep = name == "rg" or any(
        flag.name in ("-r", "-R", "-d") or flag.name.startswith(("--r", "--de", "--di"))
        for flag in options.flags
    )
    follows = any(
        flag.name in (("-L", "--follow") if name == "rg" else ("-R",))
        or flag.name.startswith("--de")
        for flag in options.flags
    )
    paths = _files(entry, options, files, cwd)
    return Look(why, paths or (("./",) if deep else ()), deep, follows)


def _no_value_before(words: Sequence[str], at: int) -> bool:
    """Whether the word before place `at` surely takes no value, so that the place is a pattern."""
    before = words[at - 1] if at else ""
    if not before.startswith("-") or before == "--":
        return True
    return not before.startswith("--") and set(before[1:]) <= _PATTERN_BOOLEANS


def _filter(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("--arg", "--argjson"):
            next(rest, None)
            next(rest, None)
        elif word == "--indent":
            next(rest, None)
        elif word == "--":
            return Look("jq reads `--` differently from version to version")
        elif word.startswith("--"):
            if spells(word.partition("=")[0], entry.never):
                return Look(f"{name} {word} reads code or files by name")
        elif word.startswith("-") and len(word) > 1:
            if set(word[1:]) & set("fL"):
                return Look(f"{name} {word} reads code from a file")
        else:
            operands.append(word)
    if operands and _JQ_READS.search(operands[0]):
        return Look("the jq filter loads a module or reads the environment")
    return Look("", tuple(word for word in operands[1:] if names_file(word, cwd)))


def _sed(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    options, why = _flags(entry, name, words)
    if not options.operands or not _SED.fullmatch(options.words[0]):
        why = why or "the sed script is more than printing lines by number"
    return Look(why, _files(entry, options, options.words[1:], cwd))


def _find(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    paths: list[str] = []
    at = 0
    while at < len(words) and not words[at].startswith("-") and words[at] not in ("(", "!", ")"):
        paths.append(words[at])
        at += 1
    while at < len(words):
        word = words[at]
        if word in FIND_PLAIN:
            at += 1
            continue
        if word not in FIND_VALUE:
            return Look(f"find {word} is not in the read-only table", tuple(paths))
        if word == "-newer" and at + 1 < len(words):
            paths.append(words[at + 1])
        at += 2
    return Look("", tuple(paths))


def _date(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    options, why = _flags(entry, name, words)
    plain = [flag.name for flag in options.flags]
    if "-I" in plain:  # -Iseconds is read as a cluster
        why = "" if all(re.fullmatch(r"[+].*|-[uRI]|-I\w+|-d", word) for word in words) else why
    if any(not word.startswith("+") for word in options.words):
        why = why or "date with an operand sets the clock"
    return Look(why)


def _printf(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    if any(word.startswith("-v") for word in words):
        return Look("printf -v evaluates an array subscript")
    if any(re.search(r"%[^A-Za-z%]*[hjlLqtz]*n", word) for word in words):
        return Look("printf %n sets a variable")
    return Look()


def _test(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    if any(word in ("-v", "-R") for word in words):
        return Look(f"{name} -v evaluates an array subscript")
    return Look()


def _exact(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    if (name, *words) in EXACT:
        return Look()
    return Look(f"only `{name} --version` is in the read-only table")


def _elsewhere(entry: Entry, name: str, words: list[str], cwd: str) -> Look:
    return Look(f"{name} is judged with its folder")


_SHAPES: Final[dict[str, Callable[[Entry, str, list[str], str], Look]]] = {
    "read": _read,
    "free": _free,
    "none": _none,
    "one": _one,
    "pattern": _pattern,
    "filter": _filter,
    "sed": _sed,
    "find": _find,
    "date": _date,
    "printf": _printf,
    "test": _test,
    "exact": _exact,
    "git": _elsewhere,
    "cd": _elsewhere,
}
