"""Files: the few disk operations a log needs, in one layer that tests replace to inject faults.

May not know what it writes; every call is one system call, or one and its retry after a signal.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

NOT_WRITABLE = (errno.EACCES, errno.EROFS, errno.EPERM)
FULL = (errno.ENOSPC, errno.EDQUOT)


class Files:
    """The real disk. Each method raises OSError as the system gives it."""

    def open_append(self, path: Path) -> int:
        """Return a descriptor that appends to `path`, made with mode 0600 when missing.

        A FIFO does not block it; whoever opens looks at what it is.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags | os.O_NONBLOCK, 0o600)

    def open_temp(self, folder: Path, name: str) -> tuple[int, Path]:
        """Return a descriptor and the path of a new, empty file beside `name`, of mode 0600."""
        fd, path = tempfile.mkstemp(dir=folder, prefix=f".{name[:100]}.")
        return fd, Path(path)

    def write(self, fd: int, data: bytes) -> int:
        """Return how many bytes one write took; fewer than given on a full disk."""
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Put the descriptor's data on the disk."""
        os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(fd, size)

    def replace(self, source: Path, target: Path) -> None:
        """Rename `source` over `target` in one step."""
        source.replace(target)

    def sync_folder(self, path: Path) -> None:
        """Put a folder's entries on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def close(self, fd: int) -> None:
        """Close the descriptor."""
        os.close(fd)


DISK = Files()


def write_all(files: Files, fd: int, data: bytes) -> None:
    """Write all of `data`, however many writes that takes. Raises OSError, part of it written."""
    view = memoryview(data)
    while view:
        took = files.write(fd, bytes(view[: 1 << 24]))
        if not took:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[took:]


def _large(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of about a MiB: one system call for many lines."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= 1 << 20:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def make_folder(files: Files, path: Path) -> None:
    """Make a folder and those above it, each entry on the disk."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        files.sync_folder(each.parent)


def write_whole(files: Files, path: Path, data: bytes | Iterable[bytes], mode: int = 0o600) -> None:
    """Write `path` by temp file, sync and rename, so that a crash leaves the old file or the new
    one."""
    make_folder(files, path.parent)
    fd, temp = files.open_temp(path.parent, path.name)
    try:
        os.fchmod(fd, mode)
        for piece in (data,) if isinstance(data, bytes) else _large(data):
            write_all(files, fd, piece)
        files.sync(fd)
        files.replace(temp, path)
        files.sync_folder(path.parent)
    finally:
        files.close(fd)
        temp.unlink(missing_ok=True)


def free_bytes(path: Path) -> str:
    """Return how much room the disk of a file has, in words."""
    stat = os.statvfs(next(each for each in path.absolute().parents if each.exists()))
    return f"{stat.f_bavail * stat.f_frsize:,} bytes"


def sha256_of(data: bytes) -> str:
    """Return the name of a blob: the SHA-256 of its bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


class Lock:
    """The right to write one log: `flock` on a file beside it, for as long as the object is
    open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._pid = os.getpid()

    def take(self) -> bool:
        """Take the lock without waiting and name this process in it; False when another holds
        it."""
        if self._fd is not None and self._named(self._fd):
            return True
        self.release()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._named(fd):  # removed meanwhile: another holds the name's new file
                os.close(fd)
                return False
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"pid {os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError as error:
            if error.errno not in FULL:  # who holds it is only told, the lock is held all the same
                os.close(fd)
                raise
        self._fd, self._pid = fd, os.getpid()
        return True

    def _named(self, fd: int) -> bool:
        """Tell whether the lock's name still leads to this descriptor's file."""
        try:
            return os.path.samestat(os.fstat(fd), self.path.lstat())
        except FileNotFoundError:
            return False

    def holder(self) -> str:
        """Return what the present holder wrote of itself."""
        try:
            return self.path.read_text(errors="replace").strip() or "unknown"
        except FileNotFoundError:
            return "nobody"

    def release(self) -> None:
        """Give the lock back; a forked child that inherited the object gives nothing back."""
        if self._fd is not None and self._pid == os.getpid():
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # a child's copy of the descriptor holds on else
            os.close(self._fd)
        self._fd = None


class Blobs:
    """Large outputs by the SHA-256 of their bytes, in `folder`, or in memory when there is none.

    `elders` are folders looked into as well: a log written anew under another name keeps its blobs.
    """

    def __init__(
        self, folder: Path | None, files: Files = DISK, elders: Sequence[Path] = ()
    ) -> None:
        self.folder = folder
        self._files = files
        self._elders = tuple(elders)
        self._memory: dict[str, bytes] = {}

    def path(self, sha256: str) -> Path:
        """Return where a blob lies. Raises ValueError when blobs are kept in memory."""
        if self.folder is None:
            raise ValueError("blobs of a session without a file have no path; use get()")
        places = [folder / sha256 for folder in (self.folder, *self._elders)]
        return next((path for path in places if path.exists()), places[0])

    def put(self, data: bytes) -> str:
        """Keep `data` on disk before any event names it; return its SHA-256 in hex.

        Where the folder takes no file, in memory. Raises OSError when the disk is full.
        """
        sha256 = sha256_of(data)
        if self.folder is None:
            self._memory[sha256] = data
        elif not self.path(sha256).exists():
            self._keep(self.folder / sha256, data, sha256)
        return sha256

    def _keep(self, path: Path, data: bytes, sha256: str) -> None:
        try:
            write_whole(self._files, path, data)
        except OSError as error:
            if error.errno in FULL:
                text = f"disk full: {free_bytes(path)} free, {len(data):,} are needed"
                raise OSError(error.errno, text, str(path)) from error
            if error.errno not in NOT_WRITABLE:
                raise
            self._memory[sha256] = data

    def get(self, sha256: str) -> bytes:
        """Return a blob's bytes. Raises KeyError naming the hash when it is missing."""
        if sha256 in self._memory:
            return self._memory[sha256]
        if self.folder is None:
            raise KeyError(f"blob {sha256} is not in this session")
        try:
            return self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise KeyError(f"blob {sha256} is missing from {self.folder}") from None

    def missing(self, sha256: str) -> bool:
        """Tell whether an event names a blob that is no longer there."""
        if self.folder is None or sha256 in self._memory:
            return self.folder is None and sha256 not in self._memory
        return not self.path(sha256).exists()
