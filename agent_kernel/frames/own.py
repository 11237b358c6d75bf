"""Own logs: agent-kernel-log files and live sessions as parts.

May not import the core's event classes: the file format of log.md is the contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from agent_kernel.frames.reader import Part


class OwnLog:
    """The reader of agent-kernel-log files, version 1."""

    name = "agent_kernel"

    def sniff(self, path: str, head: bytes) -> tuple[float, str] | None:
        """Return (1.0, version) when line 1 is our session header."""
        first = head.split(b"\n", 1)[0]
        if b'"agent-kernel-log"' in first and b'"session/header"' in first:
            return 1.0, "1"
        return None

    def parts(self, file: BinaryIO, start: int, want: frozenset[str]) -> Iterator[Part]:
        """Yield the wanted parts from byte `start`."""
        yield from ()
