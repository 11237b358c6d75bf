"""Files: how tools find, open, read, replace and note the files of a workspace.

May not decide what is allowed; a path is resolved once, and check and use share one descriptor.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.core.events import FileChanged, FileObserved
from agent_kernel.core.tool import ToolContext, ToolError
from agent_kernel.guard import paths

EDITABLE = 64 << 20  # bytes: larger files are read in part, never hashed or changed
NAMES = 5000  # names of a folder compared for the nearest one


@dataclass(frozen=True)
class Place:
    """A file's target, and its name as shown and logged: relative to the workspace when inside."""

    target: paths.Target
    name: str

    @property
    def real(self) -> Path:
        """The absolute path with every link followed."""
        return Path(self.target.real)


@dataclass(frozen=True)
class Loaded:
    """A file's bytes, as one open descriptor gave them."""

    data: bytes
    info: os.stat_result

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes, in hex."""
        return hashlib.sha256(self.data).hexdigest()


def root(ctx: ToolContext) -> Path:
    """Return the workspace without links."""
    return Path(os.path.realpath(ctx.workspace))


def name_of(ctx: ToolContext, real: Path) -> str:
    """Return how a real path is shown and logged: relative to the workspace when inside."""
    base = root(ctx)
    return real.relative_to(base).as_posix() if real.is_relative_to(base) else str(real)


def locate(ctx: ToolContext, text: str) -> Place:
    """Return where `text` leads. Raises ToolError when the guard would not even resolve it."""
    base = str(root(ctx))
    target = paths.resolve(text, base, [base])
    if isinstance(target, paths.Problem):
        raise ToolError(target.why)
    return Place(target, name_of(ctx, Path(target.real)))


def folder(ctx: ToolContext, text: str) -> tuple[Path, str]:
    """Return a folder's real path and its name. Raises ToolError when there is no such folder."""
    place = locate(ctx, text)
    if place.target.kind == "folder":
        return place.real, place.name
    if place.target.kind == "missing":
        raise ToolError(missing(ctx, place, "folder"))
    raise ToolError(f"{text!r} is a file; give its folder")


def missing(ctx: ToolContext, place: Place, kind: str = "file") -> str:
    """Return the words for a path that does not exist, with the nearest name beside it."""
    text = f"no {kind} {place.name!r} in {ctx.workspace.name!r}"
    if not place.real.parent.is_dir():
        return f"{text}: its folder does not exist either; look with glob"
    names = sorted(each.name for each in place.real.parent.iterdir())[:NAMES]
    if near := difflib.get_close_matches(place.real.name, names, 1):
        return f"{text}; there is {name_of(ctx, place.real.with_name(near[0]))!r}"
    return f"{text}; look with glob"


@contextlib.contextmanager
def opened(ctx: ToolContext, place: Place) -> Iterator[int]:
    """Yield a descriptor of the regular file at `place`, reached without following any link.

    Raises ToolError when it is missing, no regular file, or was swapped for a link meanwhile.
    """
    if place.target.kind == "folder":
        raise ToolError(f"{place.name!r} is a folder; list it with glob")
    try:
        fd = paths.open_target(place.target)
    except FileNotFoundError:
        raise ToolError(missing(ctx, place)) from None
    except OSError as error:
        raise ToolError(f"{place.name!r} cannot be opened: {error.strerror or error}") from None
    try:
        yield fd
    finally:
        os.close(fd)


def read_all(fd: int) -> bytes:
    """Return the rest of an open file."""
    chunks = []
    while chunk := os.read(fd, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def load(ctx: ToolContext, place: Place) -> Loaded:
    """Return the whole file. Raises ToolError when it is missing, no file, or over 64 MiB."""
    with opened(ctx, place) as fd:
        info = os.fstat(fd)
        if info.st_size > EDITABLE:
            raise ToolError(
                f"{place.name!r} has {info.st_size:,} bytes, over {EDITABLE:,}; change it with bash"
            )
        return Loaded(read_all(fd), info)


def observe(ctx: ToolContext, name: str, sha256: str, by: str) -> None:
    """Note in the log that this agent has seen the file `name` as it is now."""
    if ctx.session.observed(ctx.agent, name) != sha256:
        ctx.session.append(FileObserved(path=name, sha256=sha256, by=by), agent=ctx.agent)


def need_observed(ctx: ToolContext, place: Place, found: Loaded, reader: str = "read") -> None:
    """Raise ToolError unless this agent has seen exactly these bytes of this file (F4.11)."""
    seen = ctx.session.observed(ctx.agent, place.name)
    if seen is None:
        raise ToolError(f"you have not read {place.name!r} yet; {reader} it first, then change it")
    if seen != found.sha256:
        raise ToolError(f"{place.name!r} has changed since you read it; {reader} it again")


@dataclass(frozen=True)
class Change:
    """A file that was replaced: what it held before (None = it is new) and what it holds now."""

    place: Place
    before: bytes | None
    after: bytes

    def note(self, ctx: ToolContext) -> None:
        """Keep both states as blobs and note the change in the log: so it can be taken back."""
        before = None if self.before is None else ctx.session.keep(self.before)
        event = FileChanged(
            path=self.place.name,
            before=before,
            after=ctx.session.keep(self.after),
            tool_call=ctx.call_id,
        )
        ctx.session.append(event, agent=ctx.agent)


def replace(ctx: ToolContext, place: Place, data: bytes, found: Loaded | None) -> Change:
    """Put `data` in the place of `found` (None = a new file) in one step, mode bits kept.

    Missing folders are made. Raises ToolError, leaving the file as it is, when it is no longer the
    one that was found, or cannot be written.
    """
    if found is None and os.path.lexists(place.real):
        raise ToolError(f"{place.name!r} was made meanwhile by someone else; read it first")
    if found is not None:
        with opened(ctx, place) as fd:
            if _stamp(os.fstat(fd)) != _stamp(found.info):
                raise ToolError(f"{place.name!r} changed just now; read it again")
    try:
        paths.write_target(place.target, data, parents=True)
    except OSError as error:
        raise ToolError(f"{place.name!r} cannot be written: {error.strerror or error}") from None
    return Change(place, None if found is None else found.data, data)


def _stamp(info: os.stat_result) -> tuple[int, int, int, int]:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns
