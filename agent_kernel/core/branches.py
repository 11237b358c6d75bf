"""Branches: a fork's file, whose prefix is read from its parent and never copied.

May not change a parent, and opens no file outside the session's own folder.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_kernel.core.events import Event
from agent_kernel.core.files import DISK, Blobs, Files
from agent_kernel.core.log import Log, LogError, Redact
from agent_kernel.core.messages import Json

DEPTH = 50  # forks of forks; a longer chain is a cycle


def session_folder(path: Path) -> Path:
    """Return the folder of a log: `a.agent.jsonl` and `a.agent/branches/x.jsonl` share
    `a.agent/`."""
    if path.parent.name == "branches":
        return path.parent.parent
    return path.with_name(path.name.removesuffix(".jsonl"))


def blobs_of(path: Path | None, files: Files) -> Blobs:
    """Return the blobs of a log: in its session's folder, also in that of the log it took over
    from."""
    if path is None:
        return Blobs(None, files)
    folder = session_folder(path)
    first = re.sub(r"(\.agent)\.\d+$", r"\1", folder.name)  # a.agent.2.jsonl: of a.agent.jsonl
    elders = [folder.with_name(first) / "blobs"] if first != folder.name else []
    return Blobs(folder / "blobs", files, elders)


def open_log(
    path: Path,
    *,
    redact: Redact | None = None,
    files: Files = DISK,
    required: bool = False,
    depth: int = 0,
) -> Log:
    """Return the log at `path`; a branch reads its prefix from its parent, once (log.md §4).

    Raises LogError when the parent is missing or no longer holds the event that was forked.
    """
    origin = _forked_from(path)
    if origin is None:
        return Log(path, redact=redact, files=files, required=required)
    if depth > DEPTH:
        raise LogError(f"{str(path)!r} forks from itself; open its parent instead")
    parent = open_log(_parent_path(path, origin), depth=depth + 1)
    prefix = _prefix(parent, path, origin)
    return Log(path, redact=redact, files=files, parent=prefix, required=required)


def _forked_from(path: Path) -> Json | None:
    try:
        if not path.is_file() or path.is_symlink():
            return None
    except OSError:
        return None  # no such name can be: opening it as a log says why
    with path.open("rb") as file:
        line = file.readline(1 << 20)
    try:
        header = json.loads(line)
    except ValueError:
        return None  # a damaged first line: read as a log of its own, which reports it
    origin = header.get("forked_from") if isinstance(header, dict) else None
    return origin if isinstance(origin, dict) else None


def _parent_path(path: Path, origin: Json) -> Path:
    """Return where the parent lies: by bare name, in the branches folder or beside the
    session's."""
    name = str(origin.get("file"))
    if Path(name).name != name:
        raise LogError(
            f"{str(path)!r} names the parent {name!r}; only a bare file name is followed"
        )
    folder = session_folder(path)
    for place in (folder / "branches" / name, folder.parent / name):
        if place.is_file() and place != path:
            return place
    raise LogError(
        f"{str(path)!r} is a branch of {name!r}, which is missing; put it beside {folder.name!r}"
    )


def _prefix(parent: Log, path: Path, origin: Json) -> tuple[list[Event], list[bytes]]:
    at = int(origin["seq"])
    events = [event for event in parent.events if event.seq <= at]
    if not events or events[-1].seq != at or parent.hash_at(at) != origin.get("h"):
        raise LogError(
            f"{str(path)!r} forks from seq {at} of {origin['file']!r}, which was changed"
        )
    return events, [bytes.fromhex(parent.hash_at(event.seq)) for event in events]


def fork_header(log: Log, session: str, at: int) -> Json:
    """Return the `forked_from` of a branch that begins after seq `at`."""
    name = log.path.name if log.path else None
    return {"session": session, "file": name, "seq": at, "h": log.hash_at(at)}


def fork_log(log: Log, at: int, name: str | None, folder: Path | None) -> Log:
    """Return the empty log of a new branch after seq `at`.

    Raises KeyError on an unknown seq, ValueError when the name is taken or is no bare file name.
    """
    log.get(at)
    events = [event for event in log.events if event.seq <= at]
    parent = (events, [bytes.fromhex(log.hash_at(event.seq)) for event in events])
    if folder is None:
        return Log(None, redact=log.redact, files=log.files, parent=parent)
    place = folder / "branches"
    chosen = name or _free_name(place, at)
    if Path(chosen).name != chosen or not chosen.strip("."):
        raise ValueError(f"branch name {chosen!r} must be a bare file name")
    path = place / f"{chosen}.jsonl"
    if path.exists():
        raise ValueError(
            f"branch {chosen!r} exists; choose another name, or %agent switch {chosen}"
        )
    log.sync()
    return Log(path, redact=log.redact, files=log.files, parent=parent)


def _free_name(place: Path, at: int) -> str:
    n = 1
    while (place / f"at{at}-{n}.jsonl").exists():
        n += 1
    return f"at{at}-{n}"
