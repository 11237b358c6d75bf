"""Cells: the Python an agent ran, offered to the person as cells of their own.

May not write into the notebook: the code stands in the next cell, to be run or thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_kernel.core.session import Session
from agent_kernel.kernel import keeping
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.parse import Option, UsageError, parse
from agent_kernel.kernel.turns import Recorded, recorded, turn_number
from agent_kernel.kernel.workbench import Workbench


def cells(bench: Workbench, words: list[str]) -> Work | None:
    """Offer a turn's successful Python as a cell; --check runs it in a fresh process first."""
    given, rest = parse(words, (Option(("--check",), None, "run it in a fresh process"),), most=1)
    session = bench.session
    turn = _turn(session, rest[0] if rest else None)
    found = keeping.worked(session, turn)
    kept = keeping.cells(found)
    if not kept:
        raise UsageError(f"no Python call of turn {turn.number} succeeded")
    bench.shell.set_next_input(source(turn, kept))
    left = len(found) - len(kept)
    more = f"; {left} that only looked, or led nowhere, are left out" if left else ""
    print(f"{len(kept)} of {len(found)} Python calls of turn {turn.number} stand below{more}.")
    if not given.get("check"):
        return None
    return Work(_check(bench, kept), print)


def _turn(session: Session, word: str | None) -> Recorded:
    if word is not None:
        try:
            return turn_number(session, int(word) if word.isdigit() else -1)
        except KeyError as error:
            raise UsageError(str(error.args[0])) from error
    turns = [turn for turn in recorded(session) if keeping.worked(session, turn)]
    if not turns:
        raise UsageError("no Python call of this session succeeded; there is nothing to keep")
    return turns[-1]


def source(turn: Recorded, kept: Sequence[keeping.Kept]) -> str:
    """Return the code as one cell, each call under a line that names its event."""
    parts = [f"# turn {turn.number}, seq {each.seq}\n{each.code}" for each in kept]
    return "\n\n".join(parts)


async def _check(bench: Workbench, kept: Sequence[keeping.Kept]) -> str:
    import asyncio

    verdict, why = await asyncio.to_thread(keeping.check, kept, bench.settings.folder)
    return f"in a fresh process: {verdict}{f' ({why})' if why else ''}"


CELLS = (
    Command("cells", "evidence", "[T] [--check]", "the Python of a turn as a cell of yours", cells),
)
