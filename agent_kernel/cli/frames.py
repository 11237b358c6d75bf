"""Frames verb: one table of any session logs.

May not do anything but hand over to the room.
"""

from agent_kernel.frames.cli_frames import add_arguments, main

__all__ = ["add_arguments", "main"]
