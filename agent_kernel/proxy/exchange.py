"""Exchange: one request and its response as they passed, for whoever writes them down.

May not hold a header that could carry a key, and may not decode anything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from agent_kernel.proxy.framing import Head

# All that is kept of a response's head; of a request's only `content-encoding`.
KEPT = (
    "content-type", "content-encoding", "request-id", "retry-after", "retry-after-ms",
    "x-should-retry",
)  # fmt: skip
SECRET_FIELDS = (b"x-api-key", b"authorization", b"proxy-authorization", b"cookie")
Ending = Literal["open", "whole", "cut", "reset", "left", "refused"]


@dataclass(eq=False, slots=True)
class Exchange:
    """One POST to /v1/messages; `chunks` grow while it runs: (seconds since the epoch, bytes).

    `ending`: whole, cut (the stream ended inside the message), reset, left (the client went away),
    refused (no upstream answered; `note` says why).
    """

    began: float = field(default_factory=time.time)
    sent: float = 0.0  # when the request's last byte had passed
    body: bytearray = field(default_factory=bytearray)
    encoding: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    ending: Ending = "open"
    ended: float = 0.0
    note: str = ""

    def answered(self, head: Head) -> None:
        """Note a response's status and the few headers that are kept."""
        self.status = int(head.word) if head.word.isdigit() else 0
        for name in KEPT:
            value = head.get(name.encode())
            if value is not None:
                self.headers[name] = value.decode("latin-1")

    def asked(self) -> None:
        """Note that the request's last byte has passed."""
        self.sent = time.time()

    def came(self, data: bytes) -> None:
        """Keep a part of the response's body and when it came."""
        self.chunks.append((time.time(), data))

    def end(self, ending: Ending, note: str = "") -> None:
        """Note how it ended; the first ending holds."""
        if self.ending == "open":
            self.ending, self.ended, self.note = ending, time.time(), note


def secrets_of(head: Head) -> dict[str, str]:
    """Return the values of a request's head that must never be written, by a name for each."""
    out: dict[str, str] = {}
    for name in SECRET_FIELDS:
        value = head.get(name)
        if value:
            words = value.decode("latin-1")
            scheme, _, rest = words.partition(" ")
            out[f"{name.decode()} token"] = rest.strip() if rest and scheme.isalpha() else words
    return out
