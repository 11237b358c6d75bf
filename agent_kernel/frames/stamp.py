"""Stamp: how a file looked when it was read, so that a change is seen and growth is told apart.

May not read more of a file than its first 64 KiB and a few KiB before its old end.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

HEAD = 64 * 1024
TAIL = 4 * 1024


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and time of a file, hashes of its head and tail, and where its last whole line ends.

    `whole` is 0 for a packed file: growth is not told apart there.
    """

    size: int
    mtime_ns: int
    head: str
    tail: str
    whole: int


def stamp_of(path: str) -> Stamp | None:
    """Return how a file looks now, None when it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            stat = Path(path).stat()
            head = file.read(HEAD)
            file.seek(max(0, stat.st_size - TAIL))
            tail = file.read(TAIL)
    except OSError:
        return None
    packed = head[:2] == b"\x1f\x8b" or head[:4] == b"\x28\xb5\x2f\xfd"
    end = tail.rfind(b"\n")
    whole = 0 if packed or end < 0 else stat.st_size - len(tail) + end + 1
    return Stamp(stat.st_size, stat.st_mtime_ns, _hash(head), _hash(tail), whole)


def same(path: str, before: Stamp) -> bool:
    """Return whether a file has the size and time it had; its bytes are not looked at."""
    try:
        stat = Path(path).stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (before.size, before.mtime_ns)


def grown(path: str, before: Stamp, now: Stamp) -> bool:
    """Return whether a file only got longer: equal head, and equal bytes before its old end."""
    if now.size <= before.size or not before.whole:
        return False
    with Path(path).open("rb") as file:
        head = file.read(min(HEAD, before.size))
        file.seek(max(0, before.size - TAIL))
        tail = file.read(min(TAIL, before.size))
    return _hash(head) == before.head and _hash(tail) == before.tail


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
