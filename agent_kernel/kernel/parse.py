"""Parse: a magic line's options and arguments; what is unknown is an error naming the nearest.

May not do anything: it returns values or raises UsageError.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.kernel.settings import MODES, read_budget

budget = read_budget


class UsageError(ValueError):
    """A line nobody understood: one readable sentence with the nearest match; nothing was done."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a traceback."""
        return [f"UsageError: {self}"]


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` for the nearest of `known`, else the list of them."""
    names = [*known]
    near = difflib.get_close_matches(word, names, 1, 0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"


def words_of(line: str) -> list[str]:
    """Return the words of a line, quotes taken off. Raises UsageError on an open quote."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{line.strip()!r}: {error}; close the quote") from error


@dataclass(frozen=True)
class Option:
    """One option: its spellings, and how its value is read; None = a flag without a value."""

    names: tuple[str, ...]
    read: Callable[[str], Any] | None = None
    doc: str = ""

    @property
    def key(self) -> str:
        """The name its value has: the longest spelling."""
        return max(self.names, key=len).lstrip("-").replace("-", "_")


def parse(
    words: Sequence[str], options: Sequence[Option], *, most: int = 0
) -> tuple[Json, list[str]]:
    """Return (options by key, other words). Raises UsageError on what is unknown or over `most`."""
    by_name = {name: option for option in options for name in option.names}
    found: Json = {}
    rest: list[str] = []
    queue = [*words]
    while queue:
        word = queue.pop(0)
        name, eq, value = word.partition("=")
        if not word.startswith("-") or word == "-" or re.fullmatch(r"-\d+(\.\d+)?", word):
            rest.append(word)
            continue
        option = by_name.get(name)
        if option is None:
            raise UsageError(f"unknown option {name!r}{nearest(name, by_name)}")
        found[option.key] = _read(option, name, value if eq else None, queue)
    if len(rest) > most:
        raise UsageError(f"{rest[most]!r} is not understood here; see %agent help all")
    return found, rest


def _read(option: Option, name: str, value: str | None, queue: list[str]) -> Any:
    if option.read is None:
        if value is not None:
            raise UsageError(f"{name} takes no value, got {value!r}")
        return True
    if value is None:
        if not queue:
            raise UsageError(f"{name} needs a value")
        value = queue.pop(0)
    try:
        return option.read(value)
    except ValueError as error:
        raise UsageError(f"{name} cannot be {value!r}: {error}") from error


def mode(text: str) -> str:
    """Return a permission mode. Raises ValueError naming the nearest."""
    if text not in MODES:
        raise ValueError(nearest(text, MODES).removeprefix("; "))
    return text


def count(text: str) -> int:
    """Return a whole number above 0. Raises ValueError."""
    if not text.isdigit() or int(text) < 1:
        raise ValueError("give a whole number above 0")
    return int(text)


def identifier(text: str) -> str:
    """Return a Python name. Raises ValueError."""
    if not text.isidentifier():
        raise ValueError("give a Python name")
    return text


def place(text: str) -> tuple[int, int | None]:
    """Return (turn, step) of `T` or `T.S`. Raises ValueError."""
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ValueError("give a turn like 3, or a step like 3.2")
    return int(match[1]), int(match[2]) if match[2] else None


def options_doc(options: Mapping[str, Option] | Sequence[Option]) -> list[str]:
    """Return one line an option for help."""
    each = options.values() if isinstance(options, Mapping) else options
    return [f"  {', '.join(o.names):24} {o.doc}" for o in each]
