"""Command: what every `%agent` command is: its name, words, and what it does when run.

May not run anything by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_kernel.kernel.workbench import Workbench


@dataclass(frozen=True)
class Work:
    """What a command starts on the runtime; `after` makes the value of the line from its result.

    `turn` says that it goes on with a turn, so that no other may meanwhile.
    """

    coroutine: Coroutine[Any, Any, Any]
    after: Callable[[Any], Any] = lambda _result: None
    turn: bool = False


@dataclass(frozen=True)
class Command:
    """One `%agent` command: `run(workbench, words)` prints, returns a value, or returns Work.

    `usage` is what follows the name; `doc` is one line; the area groups it in `%agent help all`.
    """

    name: str
    area: str
    usage: str
    doc: str
    run: Callable[[Workbench, list[str]], Any]
