"""Writes: which operands a write command writes to, and where a text's `cd` may lead.

It reads argvs the finder found; it may not look at disk.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from agent_kernel.guard.options import split
from agent_kernel.guard.shell_find import Found

_ALL = frozenset("tee truncate touch mkdir rm rmdir unlink shred mkfifo mknod mv sponge".split())
_AFTER_FIRST = frozenset("chmod chown chgrp".split())
_LAST = frozenset("cp install ln rsync scp".split())
_OUTPUT_FLAGS = {
    "sort": ("-o", "--output"),
    "curl": ("-o", "--output"),
    "wget": ("-O", "--output-document", "-o", "--output-file"),
    "tree": ("-o",),
    "iconv": ("-o", "--output"),
    "gcc": ("-o",),
    "go": ("-o",),
    "unzip": ("-d",),
    "patch": ("-o", "--output"),
    "split": (),
}
_VALUES = {
    "truncate": "sr",
    "touch": "drt",
    "mkdir": "mZ",
    "install": "mogtS",
    "cp": "tS",
    "mv": "tS",
    "ln": "tS",
    "split": "blnaC",
    "csplit": "fbn",
    "tee": "",
    "shred": "ns",
}


def written(argv: Sequence[str]) -> tuple[str, ...]:
    """The paths an argv writes to, as far as its words show it; empty for other commands."""
    name = posixpath.basename(argv[0])
    words = argv[1:]
    if name == "dd":
        return tuple(word[3:] for word in words if word.startswith("of="))
    if name in ("sed", "perl", "ruby") and any(
        re.match(r"-\w*i|--in-place", word) for word in words
    ):
        return split(words).words[1:] or tuple(words)
    own = _OWN.get(name)
    if own:
        return own(words)
    options = split(words, _VALUES.get(name, "o"))
    operands = options.words
    named = _OUTPUT_FLAGS.get(name, ())
    outputs = tuple(flag.value or "" for flag in options.flags if flag.name in named)
    if name in _ALL:
        return operands
    if name in _AFTER_FIRST:
        return operands[1:]
    if name in _LAST:
        folder = next(
            (f.value for f in options.flags if f.name in ("-t", "--target-directory")), ""
        )
        return (folder,) if folder else operands[-1:]
    if name == "split":
        return operands[1:2]
    if name == "csplit":
        return tuple(flag.value or "" for flag in options.flags if flag.name == "-f")
    return tuple(output for output in outputs if output and output != "-")


def all_written(found: Found) -> tuple[str, ...]:
    """Every path the text writes to, by redirects and by write commands."""
    paths = dict.fromkeys(found.writes)
    for argv in found.argvs:
        paths.update(dict.fromkeys(written(argv)))
    return tuple(path for path in paths if path)


def folders(found: Found, cwd: str, home: str) -> tuple[tuple[str, ...], bool]:
    """Every folder the text may stand in, and whether one of them is known at run time only."""
    places: dict[str, None] = {cwd: None}
    unknown = False
    for target in _cd_targets(found.argvs):
        if target is None or re.search(r"[$`*?]", target) or target == "-":
            unknown = True
            continue
        target = home + target[1:] if target == "~" or target.startswith("~/") else target
        for place in list(places)[:16]:
            places.setdefault(os.path.normpath(os.path.join(place, target)))
    return tuple(places), unknown


def _cd_targets(argvs: Iterable[Sequence[str]]) -> Iterable[str | None]:
    for argv in argvs:
        if argv[0] in ("cd", "pushd"):
            operands = [word for word in argv[1:] if not word.startswith("-") or word == "-"]
            yield operands[0] if operands else "~" if argv[0] == "cd" else None
        elif argv[0] == "popd":
            yield None


def _tar(words: Sequence[str]) -> tuple[str, ...]:
    flags = words[0].lstrip("-") if words else ""
    folder = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-C", "--directory")]
    if re.match(r"[a-zA-Z]*[cru]", flags) and "f" in flags and len(words) > 1:
        return (words[1],)
    if re.match(r"[a-zA-Z]*x", flags) or "--extract" in words:
        return tuple(folder) or (".",)
    return ()


_CONFIG_READS = re.compile(
    r"--(?:get|list|name-only|null|show-|includes|no-includes|default|type|bool|int|path|expiry)"
    r"|-[lz]$"
)


def _git(words: Sequence[str]) -> tuple[str, ...]:
    """What git writes besides the work tree: its configuration, and a file given to --output."""
    if words[:1] and words[0] == "config":
        return _git_config(words[1:])
    outputs = (flag.value or "" for flag in split(words, "o").flags if flag.name == "--output")
    return tuple(filter(None, outputs))


def _second(words: Sequence[str]) -> tuple[str, ...]:
    return split(words, "fswcglo").words[1:2]


def _git_config(words: Sequence[str]) -> tuple[str, ...]:
    """The configuration that `git config` changes; nothing when it only reads."""
    operands = [word for word in words if not word.startswith("-")]
    reads = any(re.match(r"--get|--list|-l$", word) for word in words)
    if reads or operands[:1] in (["get"], ["list"]):
        return ()
    flags = [word for word in words if word.startswith("-") and not _CONFIG_READS.match(word)]
    if len(operands) < 2 and not set(flags) - {"--global", "--system", "--local"}:
        return () if operands[:1] != ["edit"] else (".git/config",)
    if "--global" in flags:
        return ("~/.gitconfig",)
    return ("/etc/gitconfig",) if "--system" in flags else (".git/config",)


_OWN: Final[Mapping[str, Callable[[Sequence[str]], tuple[str, ...]]]] = {
    "tar": _tar,
    "bsdtar": _tar,
    "git": _git,
    "uniq": _second,
    "xxd": _second,
}
