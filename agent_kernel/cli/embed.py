"""Embed verb: a notebook carries its whole log.

May not change anything but the notebook's own metadata.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agent_kernel.cli.notebooks import NotebookError, read_notebook, sidecar_of, write_notebook
from agent_kernel.kernel.notebook import embedded, fold_metadata


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("notebook", type=Path, metavar="NB")


def main(args: argparse.Namespace) -> int:
    """Embed and print the size; return 2 when there is no log or no agent turn."""
    try:
        nb = fold_metadata(read_notebook(args.notebook))
        log = sidecar_of(args.notebook, nb)
        if not log.is_file():
            raise NotebookError(f"{log.name!r} is missing beside {args.notebook.name!r}")
        data = log.read_bytes()
        write_notebook(args.notebook, embedded(nb, data))
    except ValueError as error:
        sys.stderr.write(f"agent-kernel embed: {error}\n")
        return 2
    sys.stdout.write(f"{log.name}: {len(data):,} bytes embedded in {args.notebook.name}\n")
    return 0
