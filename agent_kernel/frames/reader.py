"""Readers: the contract between files and tables.

May not import a reader: they join by the entry-point group `agent_kernel.transcripts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Protocol, runtime_checkable

GROUP = "agent_kernel.transcripts"
Columns = dict[str, list[Any]]
Part = tuple[str, Columns]

# Raw columns a reader may give, by part; absent columns are read as all None. Times are
# milliseconds since 1970 UTC, offsets and sizes bytes of the unpacked file.
PARTS: dict[str, tuple[str, ...]] = {
    "lines": tuple(
        "offset bytes type subtype status uuid parent logical time session agent sidechain flags "
        "message_id crc version cwd branch seq turn step".split()
    ),
    "usages": tuple(
        "offset uuid call_id request_id session agent agent_kind nested sidechain provider model "
        "time input output write_5m write_1h split read thinking stop status speed tier geo "
        "searches ttft seconds usd chars turn step seq fork total".split()
    ),
    "blocks": tuple(
        "offset block uuid session agent nested role kind source time call_id chars sha "
        "tool_use_id name path is_error error_kind interrupted seconds "
        "spilled media width height".split()
    ),
    "givens": ("offset", "block", "given", "command"),
    "marks": ("offset", "mark", "uuid", "session", "agent", "time", "data"),
    "issues": ("code", "offset", "bytes", "message", "sample"),
}

# lines.flags, a bit set.
META, SUMMARY, CHAIN, MESSAGE, RESULT, TEAM = 1, 2, 4, 8, 16, 32
FAULT, PROMPT, LOG_ONLY, INTERRUPT, COMMAND, NOTICE = 64, 128, 256, 512, 1024, 2048


@runtime_checkable
class Reader(Protocol):
    """Turns one file into parts; stateless between files."""

    name: str

    def sniff(self, path: str, head: bytes) -> tuple[float, str] | None:
        """Return (score 0..1, version) when the first 64 KiB, unpacked, are of its format."""

    def parts(self, file: BinaryIO, start: int, want: frozenset[str]) -> Iterator[Part]:
        """Yield the wanted parts from byte `start`."""


Readers = Mapping[str, Reader] | Iterable[Reader]
