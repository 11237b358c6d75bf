"""Repository: whether git, run here, only reads; its subcommand, its flags, its configuration.

It reads git's own files (`config`, `HEAD`, `index`) and may not run git.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from agent_kernel.guard.commands import EXACT, GIT, GIT_EXECUTES, GIT_NEVER, Git
from agent_kernel.guard.options import Options, spells, split
from agent_kernel.guard.paths import secret
from agent_kernel.guard.readonly import Look

_SECTION = re.compile(r'\s*\[\s*([\w.\-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)')
_KEY = re.compile(r"\s*([A-Za-z][\w\-]*)\s*(?:=\s*(.*))?")
_LARGEST = 1_000_000  # bytes; a larger config is not read, so not trusted
_GITLINK = b"\x00\x00\xe0\x00"  # the mode 160000 of a submodule in an index entry


def look_git(words: Sequence[str], cwd: str, root: str, trusted: bool) -> Look:
    """What the read-only table says of `git` + words, and the operands that are paths."""
    if ("git", *words) in EXACT:
        return Look()
    if not words or words[0].startswith("-"):
        return Look("git with an option before its subcommand")
    table = GIT.get(words[0])
    if table is None:
        return Look(f"'git {words[0]}' is not in the read-only table")
    options = split(words[1:], table.values)
    why = _flags(words[0], table, options) or _operands(words[0], table, options)
    why = why or ("" if trusted else unsafe(cwd, root))
    return Look(why, tuple(_paths(options, cwd)), words[0] == "grep")


def refused_flag(words: Sequence[str], extra: Sequence[str] = ()) -> str:
    """The flag of `git` + words that may write or run a program, or ''."""
    if not words or words[0].startswith("-"):
        return words[0] if words else ""
    table = GIT.get(words[0])
    options = split(words[1:], table.values if table else "")
    for flag in options.flags:
        found = spells(flag.name, (*GIT_NEVER, *extra), 4)
        if found and not (found == "-O" and words[0] not in ("grep", "diff", "log", "show")):
            return found
    return ""


def unsafe(cwd: str, root: str) -> str:
    """Why git may run more than itself when it reads in `cwd`, or ''."""
    if os.path.realpath(cwd) != os.path.realpath(root):
        return "git is read-only at the workspace's root alone"
    top, folder = _git_folder(os.path.realpath(cwd))
    if folder is None:
        return ""
    if top != os.path.realpath(root):
        return f"the repository starts above the workspace, at {top!r}"
    for config in _configs(folder):
        why = _config_problem(config, *_stamp(config))
        if why:
            return why
    if os.path.lexists(os.path.join(folder, "hooks", "post-index-change")):
        return "the repository has a hook that runs when git looks at it"
    shared = [name for name in _names(folder) if name.startswith("sharedindex.")]
    for index in (os.path.join(folder, name) for name in ("index", *shared)):
        if _has_submodules(index, *_stamp(index)):
            return "the repository has submodules: git would obey their configuration too"
    return ""


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _flags(name: str, table: Git, options: Options) -> str:
    names = [flag.name for flag in options.flags]
    for flag in names:
        found = spells(flag, GIT_NEVER)
        if found and (flag != "-O" or name in ("grep", "diff", "log", "show")):
            return f"git {name} {found} can write or run a program"
        number = re.fullmatch(r"-\d", flag)
        if table.only is not None and flag not in table.only and not number:
            return f"'git {name} {flag}' is not in the read-only table"
    if table.needs and not table.needs & set(names):
        return f"git {name} reads only with one of {', '.join(sorted(table.needs))}"
    return ""


def _operands(name: str, table: Git, options: Options) -> str:
    words = options.words
    if table.first is not None:
        first = words[0] if words else ""
        if first not in table.first:
            return f"'git {name} {first}' is not in the read-only table".replace(" '", "'")
        words = words[1:]
    listing = any(flag.name in ("--list", "-l") for flag in options.flags)
    if words and not table.operands and not listing:
        return f"git {name} with an operand writes"
    if any("::" in word for word in words):
        return f"git {name} with '::' names a program for a transport"
    return _signed(name, options)


def _signed(name: str, options: Options) -> str:
    """Why git would run gpg, which may ask a key server: by a flag or by `%G` in a format."""
    for flag in options.flags:
        if spells(flag.name, ("--show-signature",), 8) or "%G" in (flag.value or ""):
            return f"git {name} {flag.name} runs gpg"
    if any("%G" in word for word in options.words):
        return f"git {name} with %G runs gpg"
    return ""


def _paths(options: Options, cwd: str) -> Iterator[str]:
    """The words that are paths: by their form, by a secret's name, or because they exist."""
    for word in (*options.words, *(flag.value or "" for flag in options.flags)):
        formed = word.startswith(("/", "~")) or ".." in word.split("/") or secret(word)
        if formed or (word and _exists(os.path.join(cwd, word))):
            yield word
        elif secret(word.rpartition(":")[2]):  # HEAD:.env
            yield word.rpartition(":")[2]


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return True


def _git_folder(folder: str) -> tuple[str, str | None]:
    """The work tree's top and the git folder git would find from `folder`, as git looks for it."""
    while True:
        marker = os.path.join(folder, ".git")
        if os.path.isfile(marker):
            return folder, _linked(marker, folder)
        if os.path.lexists(os.path.join(marker, "HEAD")):
            return folder, marker
        if _is_git(folder):
            return "", folder  # a bare repository lying in the tree
        parent = os.path.dirname(folder)
        if parent == folder:
            return "", None
        folder = parent


def _is_git(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, "HEAD")) and all(
        os.path.isdir(os.path.join(folder, name)) for name in ("objects", "refs")
    )


def _linked(marker: str, folder: str) -> str:
    text = Path(marker).read_bytes()[:4_096].decode(errors="replace")
    target = text.partition("gitdir:")[2].strip()
    return os.path.normpath(os.path.join(folder, target)) if target else marker


def _configs(folder: str) -> Iterator[str]:
    yield os.path.join(folder, "config")
    yield os.path.join(folder, "config.worktree")
    common = os.path.join(folder, "commondir")
    if os.path.isfile(common):
        target = Path(common).read_bytes()[:4_096].decode(errors="replace").strip()
        yield os.path.join(folder, target, "config")


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=256)
def _config_problem(path: str, stamp: int, size: int) -> str:
    """The executing key of a git config, or why it cannot be read, or ''; cached by its stamp."""
    if not stamp:
        return ""
    if size > _LARGEST:
        return f"{path!r} is too large to be read"
    for key in _keys(Path(path).read_text(errors="replace")):
        name, _, value = key.partition("=")
        if name == "core.fsmonitor" and value.strip().lower() in ("false", "no", "off", "0"):
            continue
        if any(fnmatch.fnmatchcase(name, shape) for shape in GIT_EXECUTES):
            return f"{path!r} sets {name!r}, which makes git run a program"
    return ""


def _keys(text: str) -> Iterator[str]:
    section = ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        head = _SECTION.match(line)
        if head:
            name = head[1].lower()
            section = f"{name}.{head[2]}" if head[2] is not None else name
            line = head[3]
        key = _KEY.match(line)
        if key and section:
            yield f"{section}.{key[1].lower()}={key[2] or ''}"
        elif line.strip() and line.strip()[0] not in "#;":
            yield "include.unread=" + line


@lru_cache(maxsize=256)
def _has_submodules(path: str, stamp: int, size: int) -> bool:
    if not stamp:
        return False
    return size > 200_000_000 or _GITLINK in Path(path).read_bytes()
