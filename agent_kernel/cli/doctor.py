"""Doctor verb: examines session logs with the tables of frames, which it hands to the room.

May not change a file it was given.
"""

from __future__ import annotations

import argparse

from agent_kernel.frames import load
from agent_kernel.transcripts import doctor
from agent_kernel.transcripts.doctor import add_arguments

__all__ = ["add_arguments", "main"]


def main(args: argparse.Namespace) -> int:
    """Print the findings; return 0 clean, 1 with findings, 2 when nothing can be read."""
    return doctor.main(args, load)
