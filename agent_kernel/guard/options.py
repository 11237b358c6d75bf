"""Options: a command's words split into flags, their values and operands.

It knows GNU spelling (clusters, attached values, abbreviated long names), not any command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One option as written: `-x` or `--name`, and its value when it has one."""

    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """The flags, the operands with their places in the words, and whether `--` was met."""

    flags: tuple[Flag, ...]
    operands: tuple[tuple[int, str], ...]
    ended: bool

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for _, word in self.operands)


def split(words: Sequence[str], values: str = "", long: Iterable[str] = ()) -> Options:
    """The options of `words` (without the command's name), read as GNU getopt would."""
    flags: list[Flag] = []
    operands: list[tuple[int, str]] = []
    takes = frozenset(long)
    at = 0
    while at < len(words):
        word = words[at]
        follower = words[at + 1] if at + 1 < len(words) else None
        if word == "--":
            rest = enumerate(words[at + 1 :], at + 1)
            return Options(tuple(flags), (*operands, *rest), True)
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            taken = not equals and name in takes
            flags.append(Flag(name, value if equals else follower if taken else None))
            at += taken
        elif word.startswith("-") and len(word) > 1:
            cluster, taken = _cluster(word, values, follower)
            flags += cluster
            at += taken
        else:
            operands.append((at, word))
        at += 1
    return Options(tuple(flags), tuple(operands), False)


def spells(name: str, forbidden: Iterable[str], shortest: int = 3) -> str:
    """The forbidden flag that `name` spells: itself, a prefix of it, or `flag*` made longer; or ''.

    Long names count as abbreviations from `shortest` characters on.
    """
    for flag in forbidden:
        base = flag.rstrip("*")
        if name == base or (flag.endswith("*") and name.startswith(base)):
            return base
        if name.startswith("--") and len(name) >= shortest and base.startswith(name):
            return base
    return ""


def _cluster(word: str, values: str, follower: str | None) -> tuple[list[Flag], bool]:
    flags: list[Flag] = []
    for at, letter in enumerate(word[1:], 1):
        if letter in values:
            rest = word[at + 1 :]
            flags.append(Flag("-" + letter, rest or follower))
            return flags, not rest
        flags.append(Flag("-" + letter))
    return flags, False
