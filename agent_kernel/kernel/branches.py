"""Branches: the files of a session as people name them, and going from one to another.

May not fork by itself: cells and commands ask for it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from agent_kernel.core.log import LogError
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.kernel import places
from agent_kernel.kernel.parse import UsageError, nearest
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import tree


def branch_name(session: Session) -> str:
    """Return the name people call a session's branch by: main, or its file's stem."""
    path = session.log.path
    return "main" if path is None or path.parent.name != "branches" else path.stem


def files_of(session: Session) -> dict[str, Path]:
    """Return the session's files by branch name, main first."""
    path = session.log.path
    if path is None:
        return {}
    main = places.main_log(path)
    return {"main": main, **{each.stem: each for each in places.branch_files(main)}}


def switch(bench: Workbench, name: str) -> Session:
    """Open another branch of the session and go on there. Raises UsageError on an unknown name."""
    known = files_of(bench.session)
    if name not in known:
        raise UsageError(f"no branch is called {name!r}{nearest(name, known)}")
    if known[name] == bench.session.log.path:
        return bench.session
    try:
        made = bench.open(known[name])
    except LogError as error:
        raise UsageError(str(error)) from error
    os.utime(known[name])  # a restarted kernel goes on in the file touched last
    return made


def tree_of(session: Session) -> list[tree.Node]:
    """Return the branches of a session as nodes, each under the file it was forked from."""
    files = files_of(session)
    parents: dict[str, str] = {}
    notes: dict[str, str] = {}
    for name, path in files.items():
        origin = _origin(path)
        if origin is not None:
            parent = str(origin.get("file"))
            parents[name] = "main" if parent == files["main"].name else Path(parent).stem
            notes[name] = f"after seq {origin.get('seq')}"
    here = branch_name(session)

    def node(name: str) -> tree.Node:
        below = [node(each) for each, parent in parents.items() if parent == name]
        return tree.Node(name, notes.get(name, ""), name == here, tuple(below))

    return [node("main")]


def _origin(path: Path) -> Json | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        try:
            header = json.loads(file.readline(1 << 20))
        except ValueError:
            return None
    found = header.get("forked_from") if isinstance(header, dict) else None
    return found if isinstance(found, dict) else None
