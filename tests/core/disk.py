"""Disk: the real disk with faults: it dies at an operation, loses what was not synced, or refuses.

May not change what a log does: it only says how far the operations got.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from agent_kernel.core.files import Files

Inode = tuple[int, int]


class Dead(OSError):
    """The process was killed here: nothing it does later reaches the disk."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "killed")


class Disk(Files):
    """`kill_at` = the number of the operation (from 1) before which the process dies, None = never.

    `part` = of how many bytes of that operation, a write, are taken before. `fail` maps an
    operation's name to errors raised instead, the first at its next call. `room` = bytes left.
    """

    def __init__(
        self, root: Path, kill_at: int | None = None, part: Callable[[int], int] | None = None
    ) -> None:
        self.root = root
        self.kill_at = kill_at
        self.part = part
        self.room: int | None = None
        self.fail: dict[str, list[OSError]] = {}
        self.slow: dict[str, float] = {}  # seconds an operation takes
        self.dead = False
        self.ops: list[str] = []
        self.counts: Counter[str] = Counter()
        self._synced: dict[Inode, bytes] = {}
        self._entries: dict[Path, dict[str, Inode]] = {}
        self._lock = threading.RLock()
        for folder in [root, *(p for p in root.rglob("*") if p.is_dir())]:
            self._enter(folder)
        for path in root.rglob("*"):
            if path.is_file():
                self._synced[inode(path.stat())] = path.read_bytes()

    # ---- the operations --------------------------------------------------------------------------

    def open_append(self, path: Path) -> int:
        self._before("open")
        return super().open_append(path)

    def open_temp(self, folder: Path, name: str) -> tuple[int, Path]:
        self._before("open")
        return super().open_temp(folder, name)

    def write(self, fd: int, data: bytes) -> int:
        with self._lock:
            at = len(self.ops) + 1
            if self.kill_at == at and self.part is not None and not self.dead:
                super().write(fd, data[: self.part(len(data))])
            self._before("write")
            if self.room is None:
                return super().write(fd, data)
            if self.room <= 0 < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            took = super().write(fd, data[: self.room])
            self.room -= took
            return took

    def sync(self, fd: int) -> None:
        self._before("sync")
        with self._lock:
            super().sync(fd)
            self._synced[inode(os.fstat(fd))] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def truncate(self, fd: int, size: int) -> None:
        self._before("truncate")
        super().truncate(fd, size)

    def replace(self, source: Path, target: Path) -> None:
        self._before("rename")
        super().replace(source, target)

    def sync_folder(self, path: Path) -> None:
        self._before("sync_folder")
        with self._lock:
            super().sync_folder(path)
            self._enter(path)

    def _before(self, name: str) -> None:
        time.sleep(self.slow.get(name, 0.0))
        with self._lock:
            if self.dead:
                raise Dead
            self.ops.append(name)
            self.counts[name] += 1
            if self.kill_at == len(self.ops):
                self.dead = True
                raise Dead
            if self.fail.get(name):
                raise self.fail[name].pop(0)

    def _enter(self, folder: Path) -> None:
        self._entries[folder] = {p.name: inode(p.lstat()) for p in folder.iterdir()}

    # ---- after the power came back ---------------------------------------------------------------

    def surviving(self, path: Path) -> bytes | None:
        """The bytes of `path` had the power failed now; None when its name would be gone."""
        with self._lock:
            node = self._entries.get(path.parent, {}).get(path.name)
            if node is None or (path.parent != self.root and self.surviving(path.parent) is None):
                return None
            return self._synced.get(node, b"")

    def survivors(self, target: Path) -> Path:
        """Make `target` the folder as it is when the power failed now; return it."""
        target.mkdir(parents=True)
        for path in sorted(self.root.rglob("*")):
            data = self.surviving(path)
            if data is None or path.name.endswith(".lock"):
                continue
            made = target / path.relative_to(self.root)
            if path.is_dir():
                made.mkdir(exist_ok=True)
            else:
                made.write_bytes(data)
        return target

    def left(self, target: Path) -> Path:
        """Make `target` the folder as it is when only the process died; return it."""
        shutil.copytree(self.root, target, ignore=shutil.ignore_patterns("*.lock"))
        return target


def inode(found: os.stat_result) -> Inode:
    """What names a file whatever it is called."""
    return (found.st_dev, found.st_ino)
