"""Doctor verb: examines session logs with the tables of frames, which it hands to the room.

May not change a file it was given.
"""

from __future__ import annotations

import argparse
import sys

import agent_kernel.frames.detect as detect
from agent_kernel.frames import load
from agent_kernel.frames.scan import walk
from agent_kernel.frames.unpack import opened
from agent_kernel.transcripts import doctor
from agent_kernel.transcripts.doctor import add_arguments

__all__ = ["add_arguments", "main"]


def main(args: argparse.Namespace) -> int:
    """Print the findings of files and folders; return 0 clean, 1 with findings, 2 unreadable."""
    try:
        args.files = walk(args.files)
    except FileNotFoundError as error:
        sys.stderr.write(f"agent-kernel doctor: {error}\n")
        return 2
    if not args.files:
        sys.stderr.write("agent-kernel doctor: no session file was found there\n")
        return 2
    return doctor.main(args, load, lambda f: detect.table(f.load), lambda path: opened(path)[0])
