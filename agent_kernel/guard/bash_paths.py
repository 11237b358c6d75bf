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
from agent_kernel.guard.readonly import look
from agent_kernel.guard.rules import Rules
from agent_kernel.guard.shell_find import Found
from agent_kernel.guard.writes import all_written, folders

_MOST_MATCHES = 500
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
    for piece in re.split(r"[=:@,]", word)[1:]:
        if piece:
            yield piece
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
