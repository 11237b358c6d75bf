"""Effects of git: which git commands lose work or show it to others.

It may not decide: effects.py collects what it says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_kernel.guard.options import split

_FOREVER = "; it cannot be undone"


def git_effect(name: str, words: Sequence[str]) -> str:
    """What a git command destroys or publishes, in words, or ''."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c", "--git-dir", "--work-tree") else rest[1:]
    if not rest:
        return ""
    verb, options = rest[0], split(rest[1:])
    flags = {flag.name for flag in options.flags}
    if verb == "push":
        return _push(flags, options.words)
    if verb == "reset" and any(flag.startswith("--h") for flag in flags):
        return f"throws away every uncommitted change of the work tree{_FOREVER}"
    if verb == "clean" and (flags & {"-f"} or any(flag.startswith("--f") for flag in flags)):
        return f"deletes every untracked file of the work tree{_FOREVER}"
    if verb == "branch":
        return _branch(flags, options.words)
    if verb in ("checkout", "switch", "restore"):
        return _checkout(verb, flags, options.words, options.ended)
    if verb == "rm" and "-r" in flags:
        return f"deletes {', '.join(map(repr, options.words))} and everything below"
    return _rest(verb, rest, flags)


def _push(flags: set[str], words: Sequence[str]) -> str:
    where = " ".join(words) or "the remote"
    forced = flags & {"-f"} or any(flag.startswith("--force") for flag in flags)
    if forced or any(word.startswith("+") for word in words):
        return f"overwrites the history at {where!r} by --force, which others share{_FOREVER}"
    if flags & {"-d", "--delete", "--mirror", "--prune"} or any(w.startswith(":") for w in words):
        return f"deletes branches or tags at {where!r}, which others share{_FOREVER}"
    return f"publishes commits to {where!r}, where others see them; it cannot be undone quietly"


def _branch(flags: set[str], words: Sequence[str]) -> str:
    forced = "-D" in flags or (bool(flags & {"-d", "--delete"}) and bool(flags & {"-f", "--force"}))
    if forced:
        return f"deletes the branch {' '.join(words)!r} even where it is not merged{_FOREVER}"
    return ""


def _checkout(verb: str, flags: set[str], words: Sequence[str], ended: bool) -> str:
    paths = verb == "restore" and "--staged" not in flags and "-S" not in flags
    if paths or ended or "." in words or flags & {"-f", "--force", "--discard-changes"}:
        return f"throws away uncommitted changes: git {verb} {' '.join(words)!r}{_FOREVER}"
    return ""


def _rest(verb: str, rest: Sequence[str], flags: set[str]) -> str:
    text = " ".join(rest)
    if re.match(
        r"stash (?:drop|clear)|reflog (?:expire|delete)|filter-branch|filter-repo|"
        r"update-ref -d|gc .*--prune|worktree remove .*(?:-f|--force)|tag (?:-d|--delete)|"
        r"remote (?:remove|rm|set-url)|prune|submodule deinit",
        text,
    ):
        return f"deletes from the repository: {text[:80]!r}{_FOREVER}"
    if verb == "config" and flags & {"--global", "--system"} and len(rest) > 3:
        return f"changes git for every repository of this machine: {text[:80]!r}"
    return ""
