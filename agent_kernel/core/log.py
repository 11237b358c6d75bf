"""Log: an append-only list of events and its JSONL file, one write a record, hash-chained and
locked.

May not change or drop an event, and may not know what any event means.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_kernel.core.events import Event, event_of
from agent_kernel.core.files import DISK, Files, Lock
from agent_kernel.core.messages import Json
from agent_kernel.core.reading import GENESIS, Loaded, line_of, read_log
from agent_kernel.core.writer import Writer

Redact = Callable[[Json], Json]
Listener = Callable[[Event], None]
LOCK_SECONDS = 2.0


class LogError(Exception):
    """A log that cannot be written or opened: names the file, what happened and what to do."""


class Log:
    """All events of a session in order; `Log(path)` reads what is there and appends after it.

    Without a path it lives in memory. Opening writes nothing: the file, its lock and the repair of
    a
    torn tail come with the first append. Raises LogError when the path is a link, device or folder.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        redact: Redact | None = None,
        files: Files = DISK,
        parent: tuple[list[Event], list[bytes]] | None = None,
    ) -> None:
        self.path = Path(path) if path is not None else None
        self.redact = redact
        self.listeners: list[Listener] = []
        self.notices: list[str] = []
        self.read_only: str | None = None
        self._files = files
        self._lock: Lock | None = None
        self._fd: int | None = None
        self._suspect = False  # a write or sync failed: never written to again
        self._size = 0
        self._synced = -1
        self._writer: Writer | None = None
        self._guard = threading.RLock()
        events, hashes = parent or ([], [])
        self._events: list[Event] = list(events)
        self._hashes: list[bytes] = list(hashes)
        self.inherited = len(self._events)
        self.loaded = self._load()
        self._index = {event.seq: at for at, event in enumerate(self._events)}

    # ---- reading ---------------------------------------------------------------------------------

    def _load(self) -> Loaded:
        if self.path is None or not self.path.exists():
            return Loaded()
        if self.path.is_symlink() or not self.path.is_file():
            raise LogError(f"{str(self.path)!r} is not a regular file; give the log's own path")
        first = self._events[-1].seq + 1 if self._events else 0
        loaded = read_log(self.path.read_bytes(), self.head_hash, first)
        self._events.extend(loaded.events)
        self._hashes.extend(loaded.hashes)
        self.read_only = loaded.read_only
        return loaded

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    @property
    def events(self) -> Sequence[Event]:
        """All events in order; a list that only grows, to be read, never changed."""
        return self._events

    @property
    def own_events(self) -> Sequence[Event]:
        """The events of this file alone, without those a fork inherits."""
        return self._events[self.inherited :]

    def get(self, seq: int) -> Event:
        """Return the event of `seq`. Raises KeyError naming the log's range."""
        at = self._index.get(seq)
        if at is None:
            raise KeyError(
                f"no event has seq {seq}; the log holds {self.next_seq} (0 to {self.next_seq - 1})"
            )
        return self._events[at]

    def hash_at(self, seq: int) -> str:
        """Return the chain hash of the event of `seq`, in hex."""
        self.get(seq)
        return self._hashes[self._index[seq]].hex()

    @property
    def next_seq(self) -> int:
        """The seq the next event gets."""
        return self._events[-1].seq + 1 if self._events else 0

    @property
    def head_hash(self) -> bytes:
        """The hash of the last event, b"" for an empty log."""
        return self._hashes[-1] if self._hashes else GENESIS

    # ---- writing ---------------------------------------------------------------------------------

    def append_all(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Append events as contiguous lines in one write; return them as stored, seq stamped,
        redacted.

        Raises LogError, changing nothing in memory or on disk, when the log is read-only or the
        write fails.
        """
        given = list(events)
        if self.path is None:
            with self._guard:
                stored = self._store(given)
        else:
            stored = self._run(lambda: self._store(given))
        return stored

    def _run(self, job: Callable[[], Any]) -> Any:
        if self._writer is None:
            self._writer = Writer(f"log-{self.path.name if self.path else ''}", self._sync_idle)
        return self._writer.submit(job).result()

    def _store(self, given: list[Event]) -> tuple[Event, ...]:
        if self.read_only:
            raise LogError(f"log {str(self.path)!r} is read-only: {self.read_only}")
        stored: list[Event] = []
        lines: list[bytes] = []
        hashes: list[bytes] = []
        previous = self.head_hash
        for seq, event in enumerate(given, self.next_seq):
            stamped = self._stamp(event, seq)
            line, previous = line_of(stamped, previous)
            stored.append(stamped)
            lines.append(line)
            hashes.append(previous)
        if self.path is not None:
            self._write(b"".join(lines))
        for event, h in zip(stored, hashes, strict=True):
            self._index[event.seq] = len(self._events)
            self._events.append(event)
            self._hashes.append(h)
        for event in stored:
            self._tell(event)
        return tuple(stored)

    def _tell(self, event: Event) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - the event is stored; a view may not undo that
                self.listeners.remove(listener)
                self.notices.append(f"a view failed on seq {event.seq} and was detached: {error!r}")

    def _stamp(self, event: Event, seq: int) -> Event:
        stamp: Json = {"seq": seq, "time": event.time or round(time.time(), 6)}
        stamped = event.model_copy(update=stamp)
        if self.redact is None:
            return stamped
        wire = stamped.wire()
        clean = self.redact(wire)
        return stamped if clean == wire else event_of(clean)

    def _write(self, data: bytes) -> None:
        fd = self._writable()
        if fd is None:
            return
        try:
            wrote = self._files.write(fd, data)
        except OSError as error:
            raise self._failed(error) from error
        if wrote < len(data):
            self._files.truncate(fd, self._size)
            raise LogError(
                f"disk full: {_free(self.path)} free for {str(self.path)!r}; free space, then go on"
            )
        self._size += wrote
        if self._writer is not None:
            self._writer.dirty = True

    def _failed(self, error: OSError) -> LogError:
        name = str(self.path)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return LogError(
                f"disk full: {_free(self.path)} free for {name!r}; free space, then go on"
            )
        self._suspect = True
        return LogError(
            f"log {name!r} could not be written: {error.strerror}; it is left as it is, "
            "and the session goes on in a new file from memory"
        )

    # ---- the file --------------------------------------------------------------------------------

    def _writable(self) -> int | None:
        """Return the descriptor to write to, None when the folder takes no file: memory only."""
        if self.path is None:
            return None
        if self._fd is None and not self._suspect:
            self._open()
        elif self._suspect or not self._still_ours():
            self._rewrite()
        return self._fd

    def _still_ours(self) -> bool:
        assert self.path is not None
        assert self._fd is not None
        mine = os.fstat(self._fd)
        try:
            there = self.path.lstat()
        except FileNotFoundError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def _open(self) -> None:
        assert self.path is not None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._fd = self._files.open_append(self.path)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EROFS, errno.EPERM):
                raise LogError(f"log {str(self.path)!r} cannot be opened: {error}") from error
            self.notices.append(
                f"{str(self.path)!r} cannot be written; the session is in memory only"
            )
            self.path = None
            return
        self._size = os.fstat(self._fd).st_size
        if self._size == 0:
            self._files.sync(self._fd)
            self._files.sync_folder(self.path.parent)
        self._cut_torn_tail()

    def _take_lock(self) -> None:
        assert self.path is not None
        lock = Lock(self.path.with_name(self.path.name + ".lock"))
        until = time.monotonic() + LOCK_SECONDS
        while not lock.take():
            if time.monotonic() > until:
                self.read_only = f"another kernel holds it ({lock.holder()})"
                raise LogError(f"log {str(self.path)!r} is read-only: {self.read_only}")
            time.sleep(0.05)
        self._lock = lock

    def _cut_torn_tail(self) -> None:
        """Move what follows the last whole line to `.damaged`, on disk, before anything is
        appended."""
        assert self.path is not None
        assert self._fd is not None
        torn = self.loaded.torn
        if not torn or self._size != self.loaded.good_end + len(torn):
            return
        aside = self.path.with_name(self.path.name + ".damaged")
        fd = self._files.open_append(aside)
        try:
            self._files.write(fd, torn + b"\n")
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.truncate(self._fd, self.loaded.good_end)
        self._size = self.loaded.good_end
        self.notices.append(f"{len(torn)} damaged bytes were moved to {aside.name!r}")

    def _rewrite(self) -> None:
        """Write this log's own events anew: the file was deleted, replaced, or failed under us."""
        assert self.path is not None
        assert self._fd is not None
        self._files.close(self._fd)
        self._fd, why = None, "failed" if self._suspect else "was deleted or replaced"
        if self.path.exists() or self._suspect:
            self.path = _next_free(self.path)
            if self._lock is not None:
                self._lock.release()
            self._take_lock()
        self._suspect = False
        self.notices.append(f"the log file {why}; it is written anew as {self.path.name!r}")
        self._fd = self._files.open_append(self.path)
        previous = self._hashes[self.inherited - 1] if self.inherited else GENESIS
        lines: list[bytes] = []
        for event in self.own_events:
            line, previous = line_of(event, previous)
            lines.append(line)
        data = b"".join(lines)
        self._files.write(self._fd, data)
        self._files.sync(self._fd)
        self._size = len(data)

    # ---- durability ------------------------------------------------------------------------------

    def _sync_now(self) -> None:
        if self._writer is not None:
            self._writer.dirty = False
        if self._fd is None:
            return
        last = self.next_seq - 1
        try:
            self._files.sync(self._fd)
        except OSError as error:
            raise self._failed(error) from error
        self._synced = last

    def _sync_idle(self) -> None:
        """Sync what no one waits for; a failure is said, and the next append goes to a new file."""
        try:
            self._sync_now()
        except LogError as error:
            self.notices.append(str(error))

    def sync(self) -> None:
        """Return once everything appended is on the disk. Raises LogError when it cannot be."""
        if self.path is not None and self._synced < self.next_seq - 1:
            self._run(self._sync_now)

    async def commit(self) -> None:
        """Like `sync()`, off the event loop: a slow disk does not freeze the cell."""
        if self.path is None or self._synced >= self.next_seq - 1 or self._writer is None:
            return
        await asyncio.wrap_future(self._writer.submit(self._sync_now))

    def close(self) -> None:
        """Sync, end the writer thread and give the lock back; the events stay readable."""
        if self._writer is not None:
            if self._fd is not None and self.read_only is None:
                self.sync()
            self._writer.close()
            self._writer = None
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _free(path: Path | None) -> str:
    if path is None:
        return "0 bytes"
    stat = os.statvfs(path.parent)
    return f"{stat.f_bavail * stat.f_frsize:,} bytes"


def _next_free(path: Path) -> Path:
    """Return `<stem>.<n>.jsonl` for the first n from 2 that is free."""
    n = 2
    while (found := path.with_name(f"{path.stem}.{n}{path.suffix}")).exists():
        n += 1
    return found
