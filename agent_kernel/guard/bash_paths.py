"""Bash paths: the files the words and redirects of a bash text name, against rules and facts.

It serves deny and ask; a word that names no path costs nothing.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from agent_kernel.guard.calls import Context, Verdict
from agent_kernel.guard.path_stage import kept_from, rule_verdicts
from agent_kernel.guard.paths import Problem, Target, protected, resolve
from agent_kernel.guard.readonly import Look, look
from agent_kernel.guard.rules import Rules
from agent_kernel.guard.shell_find import Found
from agent_kernel.guard.writes import all_written, folders

_MOST_MATCHES = 500
_MOST_FILES = 20_000
_NO_FILES = frozenset("echo printf : true false".split())


def path_verdicts(
    found: Found, rules: Rules, context: Context, parts: tuple[str, ...]
) -> Iterator[Verdict]:
    """The verdicts on every path the text names; equal ones once."""
    places, _ = folders(found, context.cwd, context.home)
    seen: set[tuple[str, str]] = set()
    for verdict in (
        *_writes(found, rules, context, places, parts),
        *_mentions(found, rules, context, places),
    ):
        if (verdict.verdict, verdict.reason) not in seen:
            seen.add((verdict.verdict, verdict.reason))
            yield verdict


def _writes(
    found: Found, rules: Rules, context: Context, places: Sequence[str], parts: tuple[str, ...]
) -> Iterator[Verdict]:
    for text in all_written(found):
        for target in _targets(text, places, context):
            if isinstance(target, Problem):
                if target.verdict == "deny":
                    yield Verdict("deny", target.why, "path", parts=parts)
                continue
            yield from rule_verdicts("Edit", target, rules, context)
            why = kept_from(target, context, writing=True)
            if why:
                yield Verdict("deny", why, "path", parts=parts)
            risk = protected(target, context.notebook)
            if risk:
                yield Verdict("ask", risk, "path", parts=parts, risk=risk)


def _mentions(
    found: Found, rules: Rules, context: Context, places: Sequence[str]
) -> Iterator[Verdict]:
    """Deny and ask rules on any word that names their path, and the session's own files."""
    if not (rules.narrowing("Read", "Edit") or context.denied or context.blobs):
        return
    for text, reader in _words(found):
        for target in _targets(text, places, context):
            if isinstance(target, Problem):
                continue
            for verdict in rule_verdicts("Edit", target, rules, context):
                read_rule = verdict.rule.casefold().startswith("read")
                if read_rule or not reader:
                    yield verdict
            why = kept_from(target, context, writing=False)
            if why:
                yield Verdict("deny", why, "path", parts=(text,))
    if rules.narrowing("Read"):
        yield from _below(found, rules, context, places)


def _below(
    found: Found, rules: Rules, context: Context, places: Sequence[str]
) -> Iterator[Verdict]:
    """Asks where a recursive reader would also read what a Read rule keeps from it."""
    for argv in found.argvs:
        seen = look(argv, places[0])
        if argv[:2] == ("git", "grep"):
            seen = Look(paths=(".",), deep=True)
        if not seen.deep:
            continue
        for folder in dict.fromkeys(os.path.join(p, path) for p in places for path in seen.paths):
            why = _kept_below(folder, argv, rules, context)
            if why:
                yield Verdict("ask", why, "path", parts=(" ".join(argv),))


def _kept_below(folder: str, argv: Sequence[str], rules: Rules, context: Context) -> str:
    hidden = argv[0] != "rg" or any(
        re.match(r"-\w*[u.]|--hidden|--unrestricted|--no-ignore", word) for word in argv[1:]
    )
    for count, path in enumerate(_files(folder, hidden)):
        if count > _MOST_FILES:
            return f"{folder!r} holds too many files to see whether a Read rule covers one"
        target = Target(path, path, path, "file", True)
        for verdict in rule_verdicts("Read", target, rules, context):
            return f"{argv[0]!r} would read {path!r} too: {verdict.reason}"
    return ""


def _files(folder: str, hidden: bool) -> Iterator[str]:
    for place, below, names in os.walk(os.path.normpath(folder)):
        below[:] = [name for name in below if name != ".git" and (hidden or name[0] != ".")]
        yield from (os.path.join(place, name) for name in names if hidden or name[0] != ".")


def _words(found: Found) -> Iterator[tuple[str, bool]]:
    """Every piece of a word that may be a path, and whether its command only reads."""
    for text in found.reads:
        yield text, True
    for argv in found.argvs:
        name = posixpath.basename(argv[0])
        if name in _NO_FILES:
            continue
        reader = not look((name, *argv[1:]), "/").why
        for word in argv:
            for piece in _pieces(word):
                yield piece, reader


def _pieces(word: str) -> Iterator[str]:
    yield word
    pieces = re.split(r"[=:@,]", word)
    if len(pieces) > 1:
        yield from filter(None, pieces)
    if re.match(r"-[A-Za-z].", word):
        yield word[2:]
    if word.startswith("file://"):
        yield word[7:]


def _targets(text: str, places: Sequence[str], context: Context) -> Iterator[Target | Problem]:
    if not text:
        return
    for place in places:
        yield resolve(text, place, context.roots, context.home)
        if re.search(r"[*?\[{]", text):
            pattern = os.path.join(place, re.sub(r"\{[^{}]*\}", "*", text))
            for match in islice(glob.iglob(pattern, include_hidden=True), _MOST_MATCHES):
                yield resolve(match, place, context.roots, context.home)
