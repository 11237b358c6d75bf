"""Report verb: one page of what sessions cost, why counters differ and what to change.

May not do anything but hand over to the room.
"""

from agent_kernel.frames.cli_report import add_arguments, main

__all__ = ["add_arguments", "main"]
