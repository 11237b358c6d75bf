"""Path rules: gitignore globs with four anchors, matched against both readings of a path.

It may not touch the disk; it takes what paths.py resolved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from agent_kernel.guard.calls import Context
from agent_kernel.guard.paths import Target, fold, within
from agent_kernel.guard.rules import Rule


def allows_path(rule: Rule, target: Target, context: Context) -> bool:
    """Whether an allow rule on paths covers the target by both of its readings.

    A whole-tool rule covers the workspace only; a pattern without `/` covers `cwd` only.
    """
    if rule.whole:
        return target.inside
    anchor, pattern = anchored(rule.spec or "", rule, context)
    if anchor is None:
        anchor, pattern = context.cwd, "/" + pattern
    regex = _compiled(pattern.strip("/"))
    return _below(regex, target.lexical, anchor) and _below(
        regex, target.real, os.path.realpath(anchor)
    )


def forbids_path(rule: Rule, target: Target, context: Context) -> bool:
    """Whether a deny or ask rule on paths covers the target by either reading, without case."""
    if rule.whole:
        return True
    anchor, pattern = anchored(rule.spec or "", rule, context)
    regex = _compiled(fold(pattern.strip("/")))
    anchors = [anchor] if anchor is not None else ["/"]
    if anchor == context.cwd:
        anchors += context.roots
    return any(
        _meets(regex, fold(path), fold(place), anchor is None)
        for path in {target.lexical, target.real}
        for base in anchors
        for place in {base, os.path.realpath(base)}
    )


def anchored(spec: str, rule: Rule, context: Context) -> tuple[str | None, str]:
    """The folder a pattern starts from and the rest; None when it may match at any depth."""
    if spec.startswith("//"):
        return "/", spec[2:]
    if spec.startswith("~/"):
        return context.home, spec[2:]
    if spec.startswith("/"):
        return rule.base or context.settings or context.roots[0], spec[1:]
    if spec.startswith("./"):
        return context.cwd, spec[2:]
    if spec.startswith("../"):
        return os.path.dirname(context.cwd), spec[3:]
    if "/" in spec.rstrip("/"):
        return context.cwd, spec
    return None, spec


def _below(regex: re.Pattern[str], path: str, anchor: str) -> bool:
    return within(path, (anchor,)) and regex.fullmatch(_relative(path, anchor)) is not None


def _meets(regex: re.Pattern[str], path: str, anchor: str, any_depth: bool) -> bool:
    if not within(path, (anchor,)):
        return False
    relative = _relative(path, anchor)
    if any_depth:
        return any(regex.fullmatch(part) for part in relative.split("/")) or bool(
            regex.fullmatch(relative)
        )
    return any(regex.fullmatch(parent) for parent in _ancestors(relative))


def _ancestors(relative: str) -> Iterator[str]:
    parts = relative.split("/")
    for size in range(len(parts), 0, -1):
        yield "/".join(parts[:size])


def _relative(path: str, anchor: str) -> str:
    return path[len(anchor.rstrip("/")) :].strip("/")


@lru_cache(maxsize=4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_regex(pattern), re.DOTALL)


def _regex(pattern: str) -> str:
    out, place = "", 0
    while place < len(pattern):
        rest = pattern[place:]
        if rest.startswith("**/"):
            out, place = out + "(?:.*/)?", place + 3
        elif rest.startswith("/**") and len(rest) == 3:
            out, place = out + "(?:/.*)?", place + 3
        elif rest.startswith("**"):
            out, place = out + ".*", place + 2
        else:
            piece, size = _piece(rest)
            out, place = out + piece, place + size
    return out


def _piece(rest: str) -> tuple[str, int]:
    char = rest[0]
    if char == "*":
        return "[^/]*", 1
    if char == "?":
        return "[^/]", 1
    if char == "\\" and len(rest) > 1:
        return re.escape(rest[1]), 2
    if char == "[":
        end = rest.find("]", 2)
        if end > 0:
            body = rest[1:end].replace("\\", "\\\\").replace("[", "\\[")
            body = "^" + body[1:] if body.startswith(("!", "^")) else body
            return f"(?!/)[{body}]", end + 1
    return re.escape(char), 1
