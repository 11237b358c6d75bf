"""Logfile: one log's file on the disk: its lock, its records written whole, its repair, its heirs.

May not know what a record means, and never says that something is on the disk when it may not be.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_kernel.core.files import (
    FULL,
    NOT_WRITABLE,
    Files,
    Lock,
    free_bytes,
    make_folder,
    write_all,
    write_whole,
)
from agent_kernel.core.reading import Loaded, read_log

LOCK_SECONDS = 2.0
OPEN_AGAIN = "another process wrote to it after it was read; open it again"


class LogError(Exception):
    """A log that cannot be written or opened: names the file, what happened and what to do."""


class ReadOnly(LogError):
    """A log this process may not write to, for as long as it has it open; `why` says why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"log {str(path)!r} is read-only: {why}")
        self.why = why


class LogFile:
    """The file of a log: `read`, then `append` from one thread and `sync` from another.

    Reading writes nothing: the file, its lock and the repair of a torn tail come with the first
    append. `notices` get a line for all a person should know.
    """

    def __init__(self, path: Path, files: Files, notices: list[str], required: bool) -> None:
        self.path = path
        self.memory_only = False  # the folder takes no file
        self._files = files
        self._notices = notices
        self._required = required
        self._lock: Lock | None = None
        self._fd: int | None = None
        self._swap = threading.Lock()  # held while the descriptor is synced, closed or replaced
        self.suspect = False  # a write or sync failed: never written to again
        self._size = 0
        self._inode: tuple[int, int] | None = None
        self._good_end = 0
        self._torn = 0

    # ---- reading ---------------------------------------------------------------------------------

    def read(self, previous: bytes, first_seq: int) -> Loaded:
        """Return what the file holds, nothing when it is missing. Raises LogError."""
        name = str(self.path)
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return Loaded(last_hash=previous)
        except OSError as error:
            raise LogError(f"log {name!r} cannot be opened: {error.strerror}") from error
        if not stat.S_ISREG(found.st_mode):
            raise LogError(f"{name!r} is not a regular file; give the log's own path")
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise LogError(f"log {name!r} cannot be opened: {error.strerror}") from error
        with os.fdopen(fd, "rb", buffering=0) as file:
            loaded = read_log(file, previous, first_seq)
            mine = os.fstat(fd)
        self._inode = (mine.st_dev, mine.st_ino)
        self._size, self._good_end = loaded.good_end + loaded.torn, loaded.good_end
        self._torn = loaded.torn
        return loaded

    # ---- writing ---------------------------------------------------------------------------------

    def ready(self, again: Callable[[], Iterable[bytes]]) -> None:
        """Have a file to append to; `again` gives the records before, should they be written anew.

        Raises LogError, ReadOnly when this process may not write to it.
        """
        if self.memory_only:
            return
        if self.suspect or not self._still_ours():
            self._write_anew(again)
        elif self._fd is None:
            self._open()

    def append(self, data: bytes) -> None:
        """Write one record whole or not at all, after `ready`.

        Raises LogError; then nothing of the record is in the file, or the file is never used again.
        """
        if self._fd is None:
            return  # in memory only
        try:
            write_all(self._files, self._fd, data)
        except OSError as error:
            if error.errno in FULL:
                self._cut_back()
                raise self._full(error) from error
            raise self._failed(error) from error
        self._size += len(data)

    def _still_ours(self) -> bool:
        """Tell whether the name leads to our file, and nobody else wrote to it or cut it."""
        try:
            there = self.path.lstat()
        except FileNotFoundError:
            return not self._size
        if self._fd is None:
            return True  # `_take` looks, once the lock is held
        mine = os.fstat(self._fd)
        return os.path.samestat(mine, there) and mine.st_size == self._size

    def _cut_back(self) -> None:
        """Take away the part of a record that was written."""
        assert self._fd is not None
        try:
            self._files.truncate(self._fd, self._size)
        except OSError as error:
            raise self._failed(error) from error

    def _full(self, error: OSError) -> LogError:
        if error.errno not in FULL:
            return self._failed(error)
        room, name = free_bytes(self.path), str(self.path)
        return LogError(f"disk full: {room} free for {name!r}; free space, then go on")

    def _failed(self, error: OSError) -> LogError:
        self.suspect = True
        return LogError(
            f"log {str(self.path)!r} could not be written: {error.strerror}; it is left as it is, "
            "and the session goes on in a new file from memory"
        )

    # ---- opening ---------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            make_folder(self._files, self.path.parent)
            self._lock_it()
            fd = self._files.open_append(self.path)
        except OSError as error:
            if self._required or error.errno not in NOT_WRITABLE:
                name, why = str(self.path), error.strerror
                raise LogError(f"log {name!r} cannot be opened for writing: {why}") from error
            self._notices.append(
                f"{str(self.path)!r} cannot be written ({error.strerror}): "
                "the session is in memory only"
            )
            self.memory_only = True
            self._unlock()
            return
        try:
            self._take(fd)
        except (OSError, LogError) as error:
            self._files.close(fd)
            self._unlock()
            raise (self._full(error) if isinstance(error, OSError) else error) from error
        self._fd = fd

    def _take(self, fd: int) -> None:
        """Look whether the file is what was read, make a new one durable, repair a torn one."""
        found = os.fstat(fd)
        inode = (found.st_dev, found.st_ino)
        if not stat.S_ISREG(found.st_mode):
            raise LogError(f"{str(self.path)!r} is not a regular file; give the log's own path")
        if found.st_size != self._size or (self._inode not in (None, inode) and self._size):
            raise ReadOnly(self.path, OPEN_AGAIN)
        self._inode = inode
        if not found.st_size:
            self._files.sync(fd)
            self._files.sync_folder(self.path.parent)
        if self._torn:
            self._cut_torn_tail(fd)

    def _lock_it(self) -> None:
        lock = self._lock or Lock(self.path.with_name(self.path.name + ".lock"))
        until = time.monotonic() + LOCK_SECONDS
        while not lock.take():
            if time.monotonic() > until:
                raise ReadOnly(self.path, f"another kernel holds it ({lock.holder()})")
            time.sleep(0.05)
        self._lock = lock

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _cut_torn_tail(self, fd: int) -> None:
        """Move what follows the last whole line to `.damaged`, on disk, before anything is
        appended."""
        aside = self.path.with_name(self.path.name + ".damaged")
        new = not aside.exists()
        out = self._files.open_append(aside)
        try:
            with self.path.open("rb") as file:
                file.seek(self._good_end)
                while piece := file.read(1 << 20):
                    write_all(self._files, out, piece)
            write_all(self._files, out, b"\n")
            self._files.sync(out)
        finally:
            self._files.close(out)
        if new:
            self._files.sync_folder(aside.parent)
        self._files.truncate(fd, self._good_end)
        self._notices.append(f"{self._torn} damaged bytes were moved to {aside.name!r}")
        self._size, self._torn = self._good_end, 0

    def _write_anew(self, again: Callable[[], Iterable[bytes]]) -> None:
        """Write the records before this one anew: the file was deleted, replaced, or failed."""
        why = "failed" if self.suspect else "was deleted, replaced or changed"
        path = self.path
        try:
            make_folder(self._files, path.parent)
            if self.suspect or path.exists():
                path = self._heir()
            else:
                self._lock_it()
            write_whole(self._files, path, again())
            fd = self._files.open_append(path)
        except OSError as error:
            self.suspect = self.suspect or path != self.path
            if error.errno in FULL:
                raise self._full(error) from error
            text = f"log {str(path)!r} could not be written anew: {error.strerror}"
            raise LogError(f"{text}; the events so far are in memory only") from error
        with self._swap:
            old, self._fd, self.path = self._fd, fd, path
            self.suspect = False
            found = os.fstat(fd)
            self._size, self._inode = found.st_size, (found.st_dev, found.st_ino)
            if old is not None:
                self._files.close(old)
        self._notices.append(f"the log file {why}; it is written anew as {path.name!r}")

    def _heir(self) -> Path:
        """Return `<stem>.<n>.jsonl` for the first n from 2 that is free, its lock taken."""
        n = 2
        while True:
            path = self.path.with_name(f"{self.path.stem}.{n}{self.path.suffix}")
            lock = Lock(path.with_name(path.name + ".lock"))
            if self._lock is not None and self._lock.path == lock.path:
                lock = self._lock  # of an heir that could not be written
            if not path.exists() and lock.take():
                if lock is not self._lock:
                    self._unlock()
                self._lock = lock
                return path
            n += 1

    # ---- durability ------------------------------------------------------------------------------

    def sync(self) -> None:
        """Return once every record written before is on the disk. Raises LogError; the records then
        count as lost, and the next one goes with them to a new file."""
        with self._swap:
            if self._fd is None:
                return
            if self.suspect:  # asked again the disk might say yes to lost data
                raise LogError(f"log {str(self.path)!r} failed before; it is to be written anew")
            try:
                self._files.sync(self._fd)
            except OSError as error:
                raise self._failed(error) from error

    def heal(self, again: Callable[[], Iterable[bytes]]) -> None:
        """Write the records anew, on the disk, when a write or sync failed. Raises LogError."""
        if self.suspect:
            self._write_anew(again)

    def close(self) -> None:
        """Close the descriptor and give the lock back."""
        with self._swap:
            if self._fd is not None:
                self._files.close(self._fd)
                self._fd = None
        self._unlock()
