"""Endings: what a command may use, and how it ended.

It measures nothing: child.py does.
"""

import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command may use: bytes of one file, processes beyond today's, bytes of memory."""

    file_bytes: int = 4 << 30
    processes: int = 512
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    `exit_code` is negative for a signal, None when nobody knows; `head` and `tail` are the first
    and last 128 KiB of stdout and stderr as they came, `total` counts every byte, `spill` is the
    file with up to 64 MiB of them; `strays` processes were left behind and stopped.
    """

    exit_code: int | None
    head: bytes
    tail: bytes
    total: int
    timed_out: bool
    seconds: float
    spill: Path | None
    pid: int
    strays: int = 0
    stopped: bool = False
    trouble: str = ""

    def text(self) -> tuple[str, bool]:
        """Return the kept output decoded, and whether it is exact: nothing replaced or left out."""
        gap = self.total - len(self.head) - len(self.tail)
        middle = f"\n[{gap:,} bytes left out]\n".encode() if gap else b""
        raw = self.head + middle + self.tail
        decoded = raw.decode("utf-8", "replace")
        return decoded, not gap and decoded.encode() == raw

    def ending(self) -> str:
        """Return the end in words, for the model: exit code, signal and what it probably means."""
        if self.timed_out:
            return (
                f"timed out after {self.seconds:.0f} s; the command and its children were stopped"
            )
        return explain(self.exit_code)


_MEANING = {
    signal.SIGXFSZ: "a file grew past the size limit (RLIMIT_FSIZE)",
    signal.SIGKILL: "killed, perhaps for lack of memory",
    signal.SIGPIPE: "its output was closed",
    signal.SIGSEGV: "a crash; core dumps are off",
}


def explain(exit_code: int | None) -> str:
    """Return an exit code in words; 128 + N is how a shell reports signal N of its child."""
    if exit_code is None:
        return "ended; the exit code is not known"
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number not in set(signal.Signals):
        return f"exit code {exit_code}"
    name = signal.Signals(number)
    meaning = f": {_MEANING[name]}" if name in _MEANING else ""
    return f"exit code {exit_code} ({name.name}{meaning})"
