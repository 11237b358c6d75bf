"""Given: what the roof hands to the lab from other rooms: a loader, facts, the ledger, the layers.

May not import those rooms; the shapes below are all the lab knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from agent_kernel.core.compaction import Strategy
from agent_kernel.core.events import Event

Columns = Mapping[str, Sequence[Any]]


class Tables(Protocol):
    """Frames of a load: the columns of one table by name, as plain lists."""

    def columns(self, name: str) -> Columns:
        """Return one table's columns."""
        ...


class Fact(Protocol):
    """One value of a history: its kind, its value, what two spellings share, where it was said."""

    kind: Any
    value: str
    norm: str
    places: Any


class Said(Protocol):
    """One block of a history: its event, its number, who said it, its text."""

    @property
    def seq(self) -> int:
        """The event."""
        ...

    @property
    def block(self) -> int:
        """Its number among the history's blocks."""
        ...

    @property
    def role(self) -> Any:
        """Who said it."""
        ...

    @property
    def text(self) -> str:
        """The text."""
        ...


class Written(Protocol):
    """A ledger: its text and the facts it lists."""

    @property
    def text(self) -> str:
        """The whole text."""
        ...


Rank = Callable[[Sequence[Any], int], Sequence[float]]


@dataclass(frozen=True)
class Given:
    """The functions of other rooms; each is documented where it is defined."""

    load: Callable[[Any], Tables]
    opened: Callable[[str], tuple[BinaryIO, Any]]
    said: Callable[[Iterable[Event]], Iterator[Any]]
    facts_of: Callable[[Iterable[Any]], list[Any]]
    found_in: Callable[[str], Iterator[tuple[Any, str]]]
    norm_of: Callable[[Any, str], str]
    values: Callable[[Any], Iterator[str]]
    holds: Callable[[str], Callable[[Any], bool]]
    constraints: Callable[[Iterable[Event]], list[Any]]
    survives: Callable[[str, str], bool]
    ledger: Callable[..., Any]
    standing: Callable[[list[Any]], list[str]]
    ranks: Rank
    untuned: Rank
    ranking: Callable[[Mapping[str, float]], Rank]
    weights: Mapping[str, float]
    strategies: tuple[Strategy, ...]
