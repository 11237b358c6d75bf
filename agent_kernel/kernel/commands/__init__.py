"""Commands: every `%agent` command, one file an area; ALL keeps the documented order.

May not be more than a table: what a command does is in its file.
"""

from __future__ import annotations

from agent_kernel.kernel.command import Command
from agent_kernel.kernel.commands.again import AGAIN
from agent_kernel.kernel.commands.breaks import BREAKS
from agent_kernel.kernel.commands.calls import CALLS
from agent_kernel.kernel.commands.cells import CELLS
from agent_kernel.kernel.commands.context import CONTEXT
from agent_kernel.kernel.commands.edit import EDITS
from agent_kernel.kernel.commands.extend import EXTEND
from agent_kernel.kernel.commands.recall import RECALL
from agent_kernel.kernel.commands.record import RECORD
from agent_kernel.kernel.commands.see import SEE
from agent_kernel.kernel.commands.status import STATUS
from agent_kernel.kernel.commands.tasks import TASKS
from agent_kernel.kernel.commands.time import TIME
from agent_kernel.kernel.commands.turn import TURN

ALL: dict[str, Command] = {
    command.name: command
    for area in (
        *(STATUS, TURN, BREAKS, SEE, CALLS, EDITS),
        *(CONTEXT, EXTEND, RECALL, TASKS, TIME, AGAIN, CELLS, RECORD),
    )
    for command in area
}
