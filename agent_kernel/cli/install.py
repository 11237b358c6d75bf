"""Install verb: the kernelspec of this Python.

May not touch any other kernelspec.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agent_kernel.kernel.install import install


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="into your own Jupyter folder")
    where.add_argument("--prefix", type=Path, help="into the environment with this root")


def main(args: argparse.Namespace) -> int:
    """Write the kernelspec and print where it lies."""
    try:
        folder = install(args.prefix, user=args.user)
    except OSError as error:
        sys.stderr.write(f"agent-kernel install: {error}; try --user\n")
        return 2
    sys.stdout.write(f"{folder}\n")
    return 0
