"""Recorder: exchanges that passed, written as events of our log, in a thread of its own.

May not hold up what passes, and what it cannot write it says: it never mends a request.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from dataclasses import dataclass

from agent_kernel.core.bodies import normal, request_of
from agent_kernel.core.events import SessionEnd
from agent_kernel.core.log import LogError
from agent_kernel.core.model import Done, Request
from agent_kernel.core.session import Session
from agent_kernel.proxy.conversations import Conversation, Conversations
from agent_kernel.proxy.exchange import Exchange
from agent_kernel.proxy.reading import Reading
from agent_kernel.proxy.scribe import Body, Scribe
from agent_kernel.proxy.written import Cleaner

_UNREAD = "unread"  # the agent of bodies that are no requests


@dataclass(eq=False)
class _Open:
    """One request whose answer is not complete."""

    conversation: Conversation
    reading: Reading
    model: str


class Recorder:
    """A Tap that writes: `close()` returns when all that passed is in the log.

    `failed` says why nothing was written any more, "" while all is well; `missed` holds why single
    exchanges were not; `requests` counts those that were.
    """

    def __init__(self, session: Session, cleaner: Cleaner) -> None:
        self.session = session
        self.failed = ""
        self.missed: list[str] = []
        self.requests = 0
        self._cleaner = cleaner
        self._scribe = Scribe(session)
        self._conversations = Conversations(session)
        self._open: dict[Exchange, _Open] = {}
        self._jobs: queue.SimpleQueue[tuple[str, Exchange] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="proxy-recorder", daemon=True)
        self._thread.start()

    # ---- what the relay says, in its own thread --------------------------------------------------

    def secrets(self, found: dict[str, str]) -> None:
        """Never write these values."""
        self._cleaner.learn(found)

    def asked(self, exchange: Exchange) -> None:
        """A request has passed whole."""
        self._jobs.put(("asked", exchange))

    def ended(self, exchange: Exchange) -> None:
        """Nothing more comes of an exchange."""
        self._jobs.put(("ended", exchange))

    def close(self) -> None:
        """Write what is left, end the turns that failed, and the session."""
        self._jobs.put(None)
        self._thread.join()

    # ---- the recorder's own thread ---------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self.failed:
                self._do(*job)
        if not self.failed:
            self._do("close", None)
        self.session.close()

    def _do(self, what: str, exchange: Exchange | None) -> None:
        try:
            if exchange is None:
                self._scribe.end()
                self.session.append(SessionEnd())
            elif what == "asked":
                self._settle()
                self._request(exchange)
            elif exchange in self._open:
                self._answer(exchange)
        except (LogError, OSError) as error:
            self.failed = str(error)
        except Exception as error:  # noqa: BLE001 - the verb says it; what passes is not touched
            self.missed.append(f"{what}: {error!r}")

    def _settle(self) -> None:
        """Take the answers that are whole though their connections are still open: a client goes on
        as soon as it has read the last event."""
        for exchange, held in list(self._open.items()):
            held.reading.pull()
            if held.reading.stopped:
                self._answer(exchange)

    def _request(self, exchange: Exchange) -> None:
        raw = bytes(exchange.body)
        exchange.body = bytearray()
        written = self._cleaner.body(raw)
        body = Body(
            blob=self.session.blobs.put(written),
            bytes=len(raw),
            digest=_digest(raw),
            written=_digest(written) if written != raw else None,
        )
        request, why = _read(written, exchange.encoding)
        if why:
            conversation = Conversation(_UNREAD)
            self._scribe.unread(conversation, request, body, why)
        else:
            messages = normal(request.messages)
            conversation = self._conversations.of(request, messages)
            self._scribe.request(conversation, request, messages, body)
        self.requests += 1
        self._open[exchange] = _Open(conversation, Reading(exchange), request.model)
        if exchange.ending != "open":
            self._answer(exchange)

    def _answer(self, exchange: Exchange) -> None:
        held = self._open.pop(exchange)
        held.reading.pull()
        outcome = held.reading.outcome()
        raw = bytes(held.reading.raw)
        response = {
            "blob": self.session.blobs.put(raw) if self._kept(raw, outcome) else None,
            "bytes": len(raw),
            "status": exchange.status,
            **{k: v for k, v in exchange.headers.items() if k in ("content-type", "request-id")},
        }
        self._scribe.answer(held.conversation, outcome, held.reading.message_id, response)
        held.conversation.busy = False
        held.conversation.refresh(self.session)

    def _kept(self, raw: bytes, outcome: object) -> bool:
        """Tell whether an answer's exact bytes may be kept: no secret in them, nor in the texts
        that they hold in pieces."""
        text = raw.decode("utf-8", "replace")
        if not raw or self._cleaner.text(text) != text:
            return False
        if isinstance(outcome, Done):
            wire = outcome.message.wire()
            return self._cleaner.value(wire) is wire
        partial = getattr(outcome, "partial", {})
        return self._cleaner.value(partial) is partial


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _read(body: bytes, encoding: str) -> tuple[Request, str]:
    """Return the request of a body and why it is none, "" when it is one."""
    nothing = Request(model="", messages=(), max_tokens=0, exact=body)
    if encoding not in ("", "identity"):
        return nothing, f"its encoding is {encoding!r}"
    try:
        return request_of(body), ""
    except (ValueError, RecursionError) as error:
        return nothing, str(error)
