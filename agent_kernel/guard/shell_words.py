"""Shell words: the words of known programs that are themselves code or a program to run.

It serves the finder; it reads one argv and may not decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

GIT_NETWORK: Final = frozenset("push fetch pull clone ls-remote submodule".split())

_GIT_VALUES: Final = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env")
_GIT_CODE: Final = frozenset(
    "--exec -x --upload-pack --receive-pack --tree-filter --index-filter --msg-filter --env-filter "
    "--commit-filter".split()
)
_GIT_KEYS = re.compile(
    r"^alias\.|command|pager|editor|hook|external|fsmonitor|textconv|program|proxy|helper",
    re.IGNORECASE,
)
_PROGRAM_OPTIONS: Final = frozenset(
    "-I -F -C -e --to-command --use-compress-program --pre --rsh --compress-program "
    "--hostname-bin --info-script --rsh-command".split()
)
_RUN_PROGRAMS: Final = frozenset("tar rg rsync sort mapfile readarray compgen complete".split())
_SSH = re.compile(
    r"(?:-o)?(?:ProxyCommand|LocalCommand|KnownHostsCommand)[= ](.*)", re.IGNORECASE | re.DOTALL
)


def code_words(name: str, texts: Sequence[str]) -> Iterator[str]:
    """The code that the words of a program hold: aliases, hooks, filters, proxy commands."""
    if name == "git":
        yield from _git(texts)
    elif name == "ssh":
        yield from (match[1] for match in map(_SSH.fullmatch, texts[1:]) if match)
    elif name in _RUN_PROGRAMS:
        yield from _programs(texts)


def git_plain(argv: Sequence[str]) -> list[str]:
    """The words after git's own options, so that `git -C x push` is a push."""
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in _GIT_VALUES else 1
    return list(argv[at:])


def _git(texts: Sequence[str]) -> Iterator[str]:
    for before, text in zip(("", *texts), texts, strict=False):
        key, _, value = text.partition("=")
        if before in ("-c", "--config") and _GIT_KEYS.search(key):
            yield value.lstrip("!")
        if before in _GIT_CODE or (before == "-u" and "clone" in texts):
            yield text
        if "grep" in texts and re.match(r"-O.|--open-files-in-pager=", text):
            yield re.sub(r"-O|--open-files-in-pager=", "", text, count=1)
        elif key in _GIT_CODE and value:
            yield value
        if text.startswith("ext::"):
            yield text.removeprefix("ext::").replace("% ", " ")
    rest = git_plain(texts)
    if rest[:2] in (["submodule", "foreach"], ["bisect", "run"]):
        yield " ".join(word for word in rest[2:] if not word.startswith("-"))


def _programs(texts: Sequence[str]) -> Iterator[str]:
    for text, following in zip(texts, (*texts[1:], ""), strict=True):
        key, _, value = text.partition("=")
        if text.startswith("--checkpoint-action=exec="):
            yield text.removeprefix("--checkpoint-action=exec=")
        elif key in _PROGRAM_OPTIONS and (value or following):
            yield value or following
