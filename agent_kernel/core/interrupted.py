"""Interrupted: the error result of a call whose end nobody saw, with what can be seen of its file.

May not run a call again; reads the log's events and at most one file, whose hash it says.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent_kernel.core.events import Event, FileChanged, FileObserved, ToolResultEvent
from agent_kernel.core.messages import Json, blocks_of
from agent_kernel.core.state import CallState


def unanswered(
    state: CallState, why: str, events: Sequence[Event] = (), folder: Path | None = None
) -> ToolResultEvent:
    """Return the error result of a call without one: not run, or its outcome unknown.

    With the workspace's `folder` it says the hash of the call's `path` before, as the log has it,
    and now, so that a repeat is judged first.
    """
    if state.started is None:
        meta: Json = {"error_kind": "not_started"}
        content = blocks_of(f"not run: {why}.")
        return ToolResultEvent(id=state.call.id, content=content, is_error=True, meta=meta)
    text = (
        f"interrupted, outcome unknown: {why}. The call had started and may have had its effect; "
        "look at what it would have changed before you repeat it."
    )
    if folder is not None:
        text += _target(state.call.input.get("path"), state.started.seq, events, folder)
    meta = {"error_kind": "outcome_unknown"}
    return ToolResultEvent(id=state.call.id, content=blocks_of(text), is_error=True, meta=meta)


def _target(path: object, started: int, events: Iterable[Event], folder: Path) -> str:
    """Return a sentence on the file a call names, "" when it names none."""
    if not isinstance(path, str) or not path or "\0" in path:
        return ""
    place = Path(os.path.normpath(folder / path))
    now = _hash_now(place)
    if not now:
        return ""
    names = {path, str(place), os.path.relpath(place, folder)}
    before = "not seen in this session"
    for event in events:
        if event.seq > started:
            break
        if isinstance(event, FileObserved) and event.path in names:
            before = f"sha256 {event.sha256}"
        elif isinstance(event, FileChanged) and event.path in names:
            before = f"sha256 {event.after}" if event.after else "removed"
    same = ", the same" if before == now else ""
    return f" {path!r} before the call: {before}; now: {now}{same}."


def _hash_now(place: Path) -> str:
    """Return what a file is now, "" for what is no regular file."""
    try:
        fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return "not there"
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
