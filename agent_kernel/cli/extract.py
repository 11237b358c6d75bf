"""Extract verb: a notebook's embedded log written back beside it.

May not overwrite a log that differs unless told to.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agent_kernel.cli.notebooks import NotebookError, read_notebook
from agent_kernel.core.files import DISK, write_whole
from agent_kernel.kernel.notebook import extracted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("notebook", type=Path, metavar="NB")
    parser.add_argument("--force", action="store_true", help="overwrite a log that differs")


def main(args: argparse.Namespace) -> int:
    """Write the log and print its name; return 2 when there is none or another stands there."""
    try:
        name, data = extracted(read_notebook(args.notebook))
        log = args.notebook.with_name(name)
        if log.exists() and log.read_bytes() != data and not args.force:
            raise NotebookError(f"{name!r} is there and differs; move it, or use --force")
        write_whole(DISK, log, data)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"agent-kernel extract: {error}\n")
        return 2
    sys.stdout.write(f"{name}: {len(data):,} bytes\n")
    return 0
