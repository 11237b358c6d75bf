"""Logs: a log opened for a verb that only reads it.

May not write: a torn tail stays where it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agent_kernel.cli.notebooks import NotebookError, read_notebook, sidecar_of
from agent_kernel.core.branches import open_log, session_folder
from agent_kernel.core.files import Blobs
from agent_kernel.core.log import Log, LogError


def opened(name: str, verb: str) -> Log | None:
    """Return the log of a file or of a notebook, or None after one line on stderr."""
    path = Path(name)
    try:
        if path.suffix == ".ipynb":
            path = sidecar_of(path, read_notebook(path))
        if not path.is_file():
            raise LogError(f"{str(path)!r} is not there; give a session's .jsonl or its notebook")
        log = open_log(path)
        if not log.events:
            raise LogError(f"{str(path)!r} holds no event of an agent-kernel log")
    except (LogError, NotebookError, OSError) as error:
        sys.stderr.write(f"agent-kernel {verb}: {error}\n")
        return None
    return log


def blobs_of(log: Log) -> Blobs:
    """Return the blobs beside a log."""
    return Blobs(session_folder(log.path) / "blobs" if log.path else None)
