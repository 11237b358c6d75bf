"""Files: the few disk operations a log needs, in one layer that tests replace to inject faults.

May not know what it writes; every call is one system call, or one and its retry after a signal.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path


class Files:
    """The real disk. Each method raises OSError as the system gives it."""

    def open_append(self, path: Path) -> int:
        """Return a descriptor that appends to `path`, made with mode 0600 when missing."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, 0o600)

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


def write_whole(files: Files, path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write `path` by temp file, sync and rename, so that a crash leaves the old file or the new
    one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temp = Path(name)
    try:
        os.fchmod(fd, mode)
        view = memoryview(data)
        while view:
            view = view[files.write(fd, bytes(view[: 1 << 24])) :]
        files.sync(fd)
        files.replace(temp, path)
        files.sync_folder(path.parent)
    finally:
        os.close(fd)
        temp.unlink(missing_ok=True)


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
        if self._fd is not None:
            return True
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"pid {os.getpid()}\n".encode(), 0)
        self._fd, self._pid = fd, os.getpid()
        return True

    def holder(self) -> str:
        """Return what the present holder wrote of itself."""
        try:
            return self.path.read_text(errors="replace").strip() or "unknown"
        except FileNotFoundError:
            return "nobody"

    def release(self) -> None:
        """Give the lock back; a forked child that inherited the object gives nothing back."""
        if self._fd is not None and self._pid == os.getpid():
            os.close(self._fd)
        self._fd = None


class Blobs:
    """Large outputs by the SHA-256 of their bytes, in `folder`, or in memory when there is none."""

    def __init__(self, folder: Path | None, files: Files = DISK) -> None:
        self.folder = folder
        self._files = files
        self._memory: dict[str, bytes] = {}

    def path(self, sha256: str) -> Path:
        """Return where a blob lies. Raises ValueError when blobs are kept in memory."""
        if self.folder is None:
            raise ValueError("blobs of a session without a file have no path; use get()")
        return self.folder / sha256

    def put(self, data: bytes) -> str:
        """Keep `data` on disk before any event names it; return its SHA-256 in hex."""
        sha256 = hashlib.sha256(data).hexdigest()
        if self.folder is None:
            self._memory[sha256] = data
        elif not self.path(sha256).exists():
            write_whole(self._files, self.path(sha256), data)
        return sha256

    def get(self, sha256: str) -> bytes:
        """Return a blob's bytes. Raises KeyError naming the hash when it is missing."""
        if self.folder is None:
            return self._memory[sha256]
        try:
            return self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise KeyError(f"blob {sha256} is missing from {self.folder}") from None
