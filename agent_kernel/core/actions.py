"""Actions: the few things the loop can do next.

May not do any of them: `query.advance` does.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_kernel.core.compaction import Trigger
from agent_kernel.core.events import TurnReason
from agent_kernel.core.messages import Json


@dataclass(frozen=True)
class Drain:
    """Put the waiting inbox items on the surface; `items` are their seqs in order."""

    items: tuple[int, ...]


@dataclass(frozen=True)
class Attach:
    """Attach the context sections that changed."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Compact:
    """Shorten the surface first."""

    trigger: Trigger


@dataclass(frozen=True)
class Call:
    """Send the next request."""


@dataclass(frozen=True)
class Ask:
    """Wait for a person's decision on one call."""

    id: str


@dataclass(frozen=True)
class RunBatch:
    """Judge and run these calls."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class Wait:
    """Wait until one of these background agents ends: the cell answers what they found."""

    tasks: tuple[str, ...]


@dataclass(frozen=True)
class End:
    """Nothing is left to do; `reason` None = no turn is open."""

    reason: TurnReason | None
    detail: Json | str | None = None


Action = Drain | Attach | Compact | Call | Ask | RunBatch | Wait | End
