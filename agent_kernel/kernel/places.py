"""Places: where this notebook's session lies: the log beside the notebook, its branches, the next new one.

May not create or remove a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUFFIX = ".agent.jsonl"


def notebook_path(space: Mapping[str, Any], env: Mapping[str, str], folder: Path) -> Path | None:
    """Return the notebook's path as VS Code or Jupyter say it, None where nobody does."""
    for said in (space.get("__vsc_ipynb_file__"), env.get("JPY_SESSION_NAME")):
        if isinstance(said, str) and said.endswith(".ipynb"):
            return Path(os.path.abspath(folder / said))
    return None


def log_path(notebook: Path | None, folder: Path) -> Path:
    """Return the log of a notebook, else the working directory's `session.agent.jsonl`."""
    if notebook is None:
        return folder / f"session{SUFFIX}"
    return notebook.with_name(notebook.stem + SUFFIX)


def stem_of(log: Path) -> Path:
    """Return the path of a session's log without its suffix; a branch has its session's."""
    if log.parent.name == "branches":
        return log.parent.parent.with_suffix("")
    name = log.name.removesuffix(".jsonl").removesuffix(".agent")
    return log.with_name(name)


def branch_files(log: Path) -> list[Path]:
    """Return the branch files of the session of `log`, by name."""
    folder = stem_of(log).with_name(stem_of(log).name + ".agent") / "branches"
    return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []


def head_of(log: Path) -> Path:
    """Return the file of this session written last: where a restarted kernel goes on."""
    files = [path for path in (log, *branch_files(log)) if path.is_file()]
    return max(files, key=lambda path: path.stat().st_mtime, default=log)


def next_log(log: Path) -> Path:
    """Return the free path of a new session beside `log`: `<stem>.agent.<n>.jsonl`."""
    stem = stem_of(log)
    stem = stem.with_name(stem.name.partition(".agent.")[0])
    n = 2
    while (path := stem.with_name(f"{stem.name}.agent.{n}.jsonl")).exists():
        n += 1
    return path


def shown(path: Path | None, folder: Path) -> str:
    """Return a path as people read it: relative to the working directory where it is inside."""
    if path is None:
        return "in memory"
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
