"""Globs: path patterns as regular expressions that cannot backtrack for long.

May not touch the disk and may import nothing but the stdlib: the search worker loads it by path.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_BRACES = 100


def expand(pattern: str) -> list[str]:
    """Return the patterns `{a,b}` stands for, at most 100. Raises ValueError above that."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        each = todo.pop()
        found = re.search(r"(?<!\\)\{([^{}]*,[^{}]*)\}", each)
        if found is None:
            done.append(each)
        else:
            head, tail = each[: found.start()], each[found.end() :]
            todo.extend(head + choice + tail for choice in reversed(found[1].split(",")))
        if len(done) + len(todo) > MAX_BRACES:
            raise ValueError(
                f"pattern {pattern!r} stands for over {MAX_BRACES} patterns; use fewer"
            )
    return done


def _class(text: str, at: int) -> tuple[str, int]:
    """The regex of the bracket that opens at `at`, and where it ends; a lone `[` is itself."""
    end = text.find("]", at + 2 if text[at + 1 : at + 2] in ("!", "^") else at + 1)
    if end == at + 1 or (end > 0 and text[at + 1 : end] in ("!", "^")):
        end = text.find("]", end + 1)
    if end < 0:
        return re.escape("["), at + 1
    body = text[at + 1 : end]
    negated = body[0] in "!^"
    body = (body[1:] if negated else body).replace("\\", "\\\\").replace("[", "\\[")
    body = body.replace("&&", "&\\&").replace("||", "|\\|").replace("~~", "~\\~")
    return (f"(?!/)[{'^' if negated else ''}{body}]"), end + 1


def part(text: str) -> str:
    """Return the regex of one path part: `*`, `?`, `[…]`, `\\` before a literal."""
    pieces: list[str] = [""]  # split at `*`
    at = 0
    while at < len(text):
        char = text[at]
        if char == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
            at += 1
        elif char == "[":
            regex, at = _class(text, at)
            pieces[-1] += regex
        elif char == "\\" and at + 1 < len(text):
            pieces[-1] += re.escape(text[at + 1])
            at += 2
        else:
            pieces[-1] += "[^/]" if char == "?" else re.escape(char)
            at += 1
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    # The leftmost place of a middle piece is always good enough, so it need not be given back.
    return first + "".join(f"(?>[^/]*?{each})" for each in middle) + f"[^/]*{last}"


def path_regex(pattern: str) -> str:
    """Return the regex of a whole relative path: `**` is any number of folders, none included."""
    groups: list[list[str]] = [[]]  # runs of parts, split at `**`
    for each in pattern.split("/"):
        if each != "**":
            groups[-1].append(part(each))
        elif groups[-1] or len(groups) == 1:
            groups.append([])
    if len(groups) == 1:
        return "/".join(groups[0])
    first, *middle, last = groups
    out = "".join(each + "/" for each in first)
    for group in middle:
        out += f"(?>(?:[^/]+/)*?{'/'.join(group)}/)"
    return out + "(?:[^/]+/)*" + ("/".join(last) if last else "[^/]+")


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return whether a relative path (parts joined by `/`) fits. Raises ValueError on a bad one."""
    try:
        regexes = [re.compile(path_regex(each), re.DOTALL) for each in expand(pattern)]
    except re.error as error:
        raise ValueError(f"pattern {pattern!r} does not compile: {error}") from None
    return lambda path: any(regex.fullmatch(path) for regex in regexes)


def name_or_path(pattern: str) -> Callable[[str], bool]:
    """Return the matcher of grep's `glob`: without `/` it fits names at any depth."""
    return matcher(pattern.removeprefix("./") if "/" in pattern else f"**/{pattern}")
