"""Frames: session logs as tables, from files or from a live session.

May not read a format itself but our own log; readers join by the group `agent_kernel.transcripts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import agent_kernel.frames.fleet as fleet
import agent_kernel.frames.frames as frames
import agent_kernel.frames.metrics as metrics
from agent_kernel.frames.builders import BUILDERS
from agent_kernel.frames.frames import Frames, Live
from agent_kernel.frames.reader import Reader, Readers
from agent_kernel.frames.scan import Paths
from agent_kernel.frames.texts import StaleSource

ALL = BUILDERS


def load(
    paths: Paths,
    source: str = "auto",
    *,
    cache: bool = True,
    workers: int | None = None,
    readers: Readers | None = None,
    prices: Sequence[Mapping[str, Any]] = (),
) -> Frames:
    """Return the frames of all session files below `paths`: a file, a folder, a glob, or a list.

    `source` forces one reader by name; `cache` keeps what was read as Parquet for the next load
    (with the extra parquet); `workers` None means as many processes as help; `readers` replaces the
    installed ones; `prices` are rows with the columns of the table `prices` and win over the list.
    Raises FileNotFoundError for a path that is not there, ValueError for an unknown source.
    """
    return frames.load(
        paths,
        source,
        cache=cache,
        workers=workers,
        readers=readers,
        prices=prices,
        tables=ALL,
    )


def of(session_or_log: Any, *, prices: Sequence[Mapping[str, Any]] = ()) -> Frames:
    """Return the frames of a live session or log; equal to `load` of its file but for places.

    Raises TypeError when it has neither `events` nor a `log` with `events`.
    """
    return frames.of(session_or_log, prices=prices, tables=ALL)


__all__ = ["ALL", "Frames", "Live", "Reader", "StaleSource", "fleet", "load", "metrics", "of"]
