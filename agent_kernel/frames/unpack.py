"""Unpack: a file as a stream of unpacked bytes; a damaged archive ends early and says so.

May not load a whole file.
"""

from __future__ import annotations

import io
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

PIECE = 1 << 20
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".jsonl.zstd", ".json", ".ipynb")


class NeedsZstd(Exception):
    """A zstd file without the extra that reads it; the message says which."""


class Unpacked(io.RawIOBase):
    """The bytes of one file; `damage` says why they ended early, None when they did not."""

    def __init__(self, path: str) -> None:
        self.damage: str | None = None
        self._stack = ExitStack()
        self._inner: Any = _open(path, self._stack)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` and return how many bytes came; 0 at the end or at the first damage."""
        try:
            data = self._inner.read(len(buffer))
        except (EOFError, OSError, zlib.error, _zstd_error()) as error:
            self.damage = str(error) or type(error).__name__
            return 0
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._stack.close()
        super().close()


def opened(path: str) -> tuple[BinaryIO, Unpacked]:
    """Return (stream of unpacked bytes, what may say it was damaged).

    Raises OSError for a file that cannot be opened, NeedsZstd without the zstd extra.
    """
    raw = Unpacked(path)
    return io.BufferedReader(raw, PIECE), raw


def packed_suffix(path: str) -> str:
    """Return the known suffix of `path`, "" when it has none."""
    return max((one for one in SUFFIXES if path.lower().endswith(one)), key=len, default="")


def _open(path: str, stack: ExitStack) -> Any:
    raw = Path(path).open("rb")  # noqa: SIM115 - the stack closes it
    stack.callback(raw.close)
    magic = raw.read(4)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return _Gzip(raw)
    if magic == b"\x28\xb5\x2f\xfd":
        return _Zstd(raw)
    return raw


class _Gzip:
    """A gzip file of any number of members; what was unpacked before damage is given first."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._member: Any = None
        self._given = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` unpacked bytes, b"" at the end.

        Raises EOFError when the last member is cut, zlib.error for what is no gzip.
        """
        while True:
            piece = self._given or self._raw.read(PIECE)
            if not piece:
                if self._member is not None:
                    raise EOFError("the last gzip member is cut")
                return b""
            if self._member is None:
                piece = piece.lstrip(b"\0")  # padding between members, as gzip itself passes over
                self._given = b""
                if not piece:
                    continue
                self._member = zlib.decompressobj(wbits=31)
            out: bytes = self._member.decompress(piece, size)
            self._given = self._member.unconsumed_tail
            if self._member.eof:
                self._given, self._member = self._member.unused_data, None
            if out:
                return out


class _Zstd:
    """A zstd file of any number of frames; a frame that was cut raises EOFError at its end."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._make = _zstd().ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._given = b""
        self._held = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` unpacked bytes, b"" at the end."""
        while not self._held:
            piece = self._given or self._raw.read(PIECE)
            self._given = b""
            if not piece:
                if self._frame is not None:
                    raise EOFError("the last zstd frame is cut")
                return b""
            self._frame = self._frame or self._make()
            self._held = self._frame.decompress(piece)
            if self._frame.eof:
                self._given, self._frame = self._frame.unused_data, None
        out, self._held = self._held[:size], self._held[size:]
        return out


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise NeedsZstd("install agent-kernel[zstd] to read this file") from error
    return zstandard


def _zstd_error() -> type[Exception]:
    try:
        return _zstd().ZstdError  # type: ignore[no-any-return]
    except NeedsZstd:
        return zlib.error
