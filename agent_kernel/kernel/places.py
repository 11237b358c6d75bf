"""Places: where this notebook's session lies: the log beside it, its branches, the next new one.

May not create or remove a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUFFIX = ".agent.jsonl"


def notebook_path(space: Mapping[str, Any], env: Mapping[str, str], folder: Path) -> Path | None:
    """Return the notebook's path as VS Code or Jupyter say it, None where nobody does."""
    for said in (space.get("__vsc_ipynb_file__"), env.get("JPY_SESSION_NAME")):
        if isinstance(said, str) and said.endswith(".ipynb"):
            return (folder / said).absolute()
    return None


def log_path(notebook: Path | None, folder: Path) -> Path:
    """Return the log of a notebook, else the working directory's `session.agent.jsonl`."""
    if notebook is None:
        return folder / f"session{SUFFIX}"
    return notebook.with_name(notebook.stem + SUFFIX)


def main_log(log: Path) -> Path:
    """Return the main log of the session `log` belongs to: itself, unless it is a branch."""
    if log.parent.name != "branches":
        return log
    folder = log.parent.parent
    return folder.with_name(f"{folder.name}.jsonl")


def branch_files(log: Path) -> list[Path]:
    """Return the branch files of the session of `log`, by name."""
    main = main_log(log)
    folder = main.with_name(main.name.removesuffix(".jsonl")) / "branches"
    return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []


def head_of(log: Path) -> Path:
    """Return the file of this session written last: where a restarted kernel goes on."""
    files = [path for path in (log, *branch_files(log)) if path.is_file()]
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=log)


def next_log(log: Path) -> Path:
    """Return the free path of a new session beside `log`: `<stem>.agent.<n>.jsonl`."""
    stem = main_log(log).name.removesuffix(".jsonl").partition(".agent")[0]
    n = 2
    while (path := main_log(log).with_name(f"{stem}.agent.{n}.jsonl")).exists():
        n += 1
    return path


def newest_log(log: Path) -> Path:
    """Return the session a kernel opens: of `log` and its successors the one written last."""
    if not log.parent.is_dir():
        return log
    stem = re.escape(log.name.removesuffix(SUFFIX))
    named = re.compile(rf"{stem}\.agent(\.\d+)?\.jsonl")
    found = [path for path in log.parent.iterdir() if named.fullmatch(path.name)]
    heads = [head_of(path) for path in found if path.is_file()]
    return max(heads, key=lambda path: path.stat().st_mtime_ns, default=log)


def shown(path: Path | None, folder: Path) -> str:
    """Return a path as people read it: relative to the working directory where it is inside."""
    if path is None:
        return "in memory"
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
