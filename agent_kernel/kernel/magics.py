"""Magics: `%agent COMMAND …` finds its command in the table and runs it.

May not know what a command does: each has its own file in `commands/`.
"""

from __future__ import annotations

from typing import Any

from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.commands import ALL
from agent_kernel.kernel.parse import UsageError, nearest, words_of
from agent_kernel.kernel.running import drive, drive_blocking
from agent_kernel.kernel.workbench import Workbench


def find(line: str) -> tuple[Command, list[str]]:
    """Return the command a line names, and its other words. Raises UsageError with the nearest."""
    words = words_of(line) or ["status"]
    name, *rest = words
    command = ALL.get(name)
    if command is None:
        raise UsageError(f"%agent has no command {name!r}{nearest(name, ALL)}")
    return command, rest


def run_line(bench: Workbench, line: str) -> Any:
    """Run a command from blocking code and return what it returns."""
    command, words = find(line)
    made = command.run(bench, words)
    if not isinstance(made, Work):
        return made
    return made.after(drive_blocking(bench, made.coroutine, turn=made.turn))


async def run_line_async(bench: Workbench, line: str) -> Any:
    """Run a command from a cell of nothing but `%agent` lines: the main thread stays free."""
    command, words = find(line)
    made = command.run(bench, words)
    if not isinstance(made, Work):
        return made
    return made.after(await drive(bench, made.coroutine, turn=made.turn))
