"""Bash output: what a command wrote, kept whole where it can be read, cut for the answer.

May not start anything; the shell's word about where it stands is taken out of what is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.guard.endings import Finished

CHARS, BYTES = 30_000, 48_000  # of one answer
FAILED_CHARS = 5_000  # of head, and of tail, of a failed command's long output
ERROR_LINES, ERROR_CHARS = 40, 300
BLOB_BYTES = 8 << 20  # a longer output stays in its file
ERROR_WORDS = re.compile(
    rb"error|exception|traceback|fail|fatal|panic|denied|cannot|undefined|not found|no such|killed",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Output:
    """What a command wrote: its bytes, or with `path` a file that is too big for a blob."""

    data: bytes
    path: Path | None

    def chunks(self) -> Iterator[bytes]:
        """Yield all that was kept, in pieces."""
        if self.path is None:
            yield self.data
            return
        with self.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                yield chunk


def without_mark(data: bytes, mark: bytes) -> tuple[bytes, str | None]:
    """Return output without the shell's last word, and the working directory it told."""
    at = data.rfind(b"\n" + mark)
    if at < 0:
        return data, None
    end = data.find(b"\n", at + 1)
    told = data[at + 1 + len(mark) : end if end >= 0 else len(data)]
    rest = data[end + 1 :] if end >= 0 else b""
    return data[:at] + rest, told.decode("utf-8", "surrogateescape")


def collect(finished: Finished, mark: bytes) -> tuple[Output, str | None]:
    """Return the whole output without the mark, from memory or the spill file, and the cwd."""
    spill = finished.spill
    if spill is None:
        gap = finished.total - len(finished.head) - len(finished.tail)
        middle = f"\n[{gap:,} bytes left out]\n".encode() if gap else b""
        data, cwd = without_mark(finished.head + middle + finished.tail, mark)
        return Output(data, None), cwd
    if spill.stat().st_size <= BLOB_BYTES:
        data, cwd = without_mark(spill.read_bytes(), mark)
        spill.unlink()
        return Output(data, None), cwd
    _, cwd = without_mark(finished.tail, mark)
    if cwd is not None:
        size = finished.tail.rfind(b"\n" + mark) - len(finished.tail)
        os.truncate(spill, max(0, min(spill.stat().st_size, finished.total + size)))
    return Output(b"", spill), cwd


def error_lines(chunks: Iterator[bytes], first: int, last: int) -> list[tuple[int, str]]:
    """Return (number, text) of at most 40 lines with an error word between two byte offsets."""
    found: list[tuple[int, str]] = []
    at, number, rest = 0, 1, b""
    for chunk in chunks:
        data = rest + chunk
        cut = data.rfind(b"\n") + 1
        whole, rest = data[:cut], data[cut:]
        counted = 0
        for hit in ERROR_WORDS.finditer(whole):
            begin = whole.rfind(b"\n", 0, hit.start()) + 1
            if begin < counted or not first <= at + begin < last:
                continue
            number += whole.count(b"\n", counted, begin)
            counted = whole.find(b"\n", begin) + 1
            text = whole[begin : min(counted - 1, begin + ERROR_CHARS)]
            found.append((number, text.decode("utf-8", "replace")))
            number += 1
            if len(found) == ERROR_LINES:
                return found
        number += whole.count(b"\n", counted)
        at += cut
    return found


def cut(output: Output, head: bytes, tail: bytes, total: int, failed: bool, where: str) -> str:
    """Return the output for the model: whole when short, else head and tail with errors between."""
    if output.path is None and fits(text := output.data.decode("utf-8", "replace")):
        return text
    size = FAILED_CHARS if failed else CHARS // 3
    begin = head.decode("utf-8", "replace")[: size if failed else 2 * size]
    begin = begin[: begin.rfind("\n") + 1] or begin
    end = tail.decode("utf-8", "replace")[-size:]
    end = end[end.find("\n") + 1 :] or end
    while not fits(begin + end):
        begin, end = begin[: len(begin) * 3 // 4], end[len(end) // 4 :]
    first, last = len(begin.encode()), total - len(end.encode())
    notice = f"[{last - first:,} of {total:,} bytes left out; {where}]"
    if failed and (lines := error_lines(output.chunks(), first, last)):
        notice += "\n" + "\n".join(f"{number}: {text}" for number, text in lines)
    return f"{begin.rstrip()}\n{notice}\n{end}"


def fits(text: str) -> bool:
    """Tell whether a text may stand in an answer whole."""
    return len(text) <= CHARS and len(text.encode("utf-8", "replace")) <= BYTES
