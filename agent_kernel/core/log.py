"""Log: an append-only list of events and its JSONL file, one write a record, hash-chained and
locked.

May not change or drop an event, and may not know what any event means.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from agent_kernel.core.events import Event, event_of
from agent_kernel.core.files import DISK, Files
from agent_kernel.core.logfile import LogError, LogFile, ReadOnly
from agent_kernel.core.messages import Json
from agent_kernel.core.reading import GENESIS, LINE_BYTES, Loaded, chained, payload_of
from agent_kernel.core.writer import Writer

__all__ = ["Listener", "Log", "LogError", "Redact"]
Redact = Callable[[Json], Json]
Listener = Callable[[Event], None]


class Log:
    """All events of a session in order; `Log(path)` reads what is there and appends after it.

    Without a path it lives in memory. Opening writes nothing: the file, its lock and the repair of
    a torn tail come with the first append. Where the folder takes no file it goes on in memory and
    says so, unless `required`. Raises LogError when the path is a link, device or folder.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        redact: Redact | None = None,
        files: Files = DISK,
        parent: tuple[list[Event], list[bytes]] | None = None,
        required: bool = False,
    ) -> None:
        self.redact = redact
        self.files = files
        self.listeners: list[Listener] = []
        self.notices: list[str] = []
        self.read_only: str | None = None
        self._file = LogFile(Path(path), files, self.notices, required) if path else None
        self._synced = -1
        self._writer: Writer | None = None  # writes
        self._syncer: Writer | None = None  # syncs, so that no write waits for a slow disk
        self._guard = threading.RLock()
        self._pid = os.getpid()
        events, hashes = parent or ([], [])
        self._events: list[Event] = list(events)
        self._hashes: list[bytes] = list(hashes)
        self._last_hash = self._hashes[-1] if self._hashes else GENESIS
        self.inherited = len(self._events)
        self.loaded = self._load()
        self._index = {event.seq: at for at, event in enumerate(self._events)}

    # ---- reading ---------------------------------------------------------------------------------

    def _load(self) -> Loaded:
        if self._file is None:
            return Loaded()
        loaded = self._file.read(self.head_hash, self.next_seq)
        self._events.extend(loaded.events)
        self._hashes.extend(loaded.hashes)
        self._last_hash = loaded.last_hash
        self.read_only = loaded.read_only
        return loaded

    @property
    def path(self) -> Path | None:
        """The file, None when the events are in memory only."""
        return None if self._file is None or self._file.memory_only else self._file.path

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    @property
    def events(self) -> Sequence[Event]:
        """All events in order; a list that only grows, to be read, never changed."""
        return self._events

    @property
    def own_events(self) -> Sequence[Event]:
        """The events of this file alone, without those a fork inherits."""
        return self._events[self.inherited :]

    def get(self, seq: int) -> Event:
        """Return the event of `seq`. Raises KeyError naming the log's range."""
        at = self._index.get(seq)
        if at is None:
            raise KeyError(
                f"no event has seq {seq}; the log holds {self.next_seq} (0 to {self.next_seq - 1})"
            )
        return self._events[at]

    def hash_at(self, seq: int) -> str:
        """Return the chain hash of the event of `seq`, in hex."""
        self.get(seq)
        return self._hashes[self._index[seq]].hex()

    @property
    def next_seq(self) -> int:
        """The seq the next event gets."""
        return self._events[-1].seq + 1 if self._events else 0

    @property
    def head_hash(self) -> bytes:
        """The hash of the last event, b"" for an empty log."""
        return self._hashes[-1] if self._hashes else GENESIS

    # ---- writing ---------------------------------------------------------------------------------

    def append_all(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Append events as contiguous lines in one write; return them as stored, seq stamped,
        redacted.

        Raises LogError, changing nothing in memory or on disk, when the log is read-only or the
        write fails; when it is appended to from a listener, or from a fork of its process.
        """
        given = list(events)
        self.check_process()
        if self._file is None:
            with self._guard:
                return self._store(given)
        return self._writing().submit(lambda: self._store(given)).result()

    def check_process(self) -> None:
        """Raise LogError in a fork of the process that opened the log: it has no writer."""
        if self._pid != os.getpid():
            raise LogError(
                f"log {str(self.path)!r} belongs to process {self._pid}, of which this is a fork; "
                "append there"
            )

    def _writing(self) -> Writer:
        with self._guard:
            if self._writer is None:
                name = self.path.name if self.path else ""
                self._writer = Writer(f"log-{name}")
                self._syncer = Writer(f"sync-{name}", self._sync_idle)
            if self._writer.here:
                raise LogError("a listener may not append: it is told while a record is written")
            return self._writer

    def _store(self, given: list[Event]) -> tuple[Event, ...]:
        if self.read_only:
            raise LogError(f"log {str(self.path)!r} is read-only: {self.read_only}")
        stored = [self._stamp(event, seq) for seq, event in enumerate(given, self.next_seq)]
        payloads = [_payload(event) for event in stored]
        self._have_file()
        lines: list[bytes] = []
        hashes: list[bytes] = []
        previous = self._last_hash
        for payload in payloads:
            line, previous = chained(payload, previous)
            lines.append(line)
            hashes.append(previous)
        if self._file is not None:
            self._file.append(b"".join(lines))
        for event, h in zip(stored, hashes, strict=True):
            self._index[event.seq] = len(self._events)
            self._events.append(event)
            self._hashes.append(h)
        self._last_hash = previous
        if self._syncer is not None:
            self._syncer.touch()
        for event in stored:
            self._tell(event)
        return tuple(stored)

    def _have_file(self) -> None:
        """Have a file to write to, opened, locked and repaired, or written anew from memory."""
        if self._file is None:
            return
        try:
            self._file.ready(self._own_lines)
        except ReadOnly as error:
            self.read_only = error.why
            raise

    def _own_lines(self) -> Iterator[bytes]:
        """Yield this file's own lines as they would be written today."""
        previous = self._hashes[self.inherited - 1] if self.inherited else GENESIS
        for at, event in enumerate(self.own_events, self.inherited):
            line, previous = chained(payload_of(event), previous)
            self._hashes[at] = self._last_hash = previous
            yield line

    def _tell(self, event: Event) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - the event is stored; a view may not undo that
                self.listeners.remove(listener)
                self.notices.append(f"a view failed on seq {event.seq} and was detached: {error!r}")

    def _stamp(self, event: Event, seq: int) -> Event:
        stamp: Json = {"seq": seq, "time": event.time or round(time.time(), 6)}
        stamped = event.model_copy(update=stamp)
        if self.redact is None:
            return stamped
        wire = stamped.wire()
        clean = self.redact(wire)
        return stamped if clean == wire else event_of(clean)

    # ---- durability ------------------------------------------------------------------------------

    def _sync_to(self, wanted: int) -> None:
        """Sync unless `wanted` is on the disk by now: many who wait share one; in the syncer's
        thread."""
        last = self.next_seq - 1
        if self._file is not None and self._synced < wanted:
            self._file.sync()
            self._synced = last

    def _sync_idle(self) -> None:
        """Sync what no one waits for; a failure is said, and the next append goes to a new file."""
        try:
            self._sync_to(self.next_seq - 1)
        except LogError as error:
            self.notices.append(str(error))

    def _syncing(self) -> Future[None] | None:
        """Begin a sync, or None when everything is on the disk."""
        wanted = self.next_seq - 1
        if self.path is None or self._synced >= wanted or self._writer is None:
            return None
        self.check_process()
        assert self._file is not None
        assert self._syncer is not None
        file, syncer = self._file, self._syncer
        if not file.suspect:
            return syncer.submit(lambda: self._sync_to(wanted))
        return self._writer.submit(lambda: file.heal(self._own_lines))

    def sync(self) -> None:
        """Return once everything appended is on the disk. Raises LogError when it cannot be."""
        begun = self._syncing()
        if begun is not None:
            begun.result()

    async def commit(self) -> None:
        """Like `sync()`, off the event loop: a slow disk does not freeze the cell."""
        begun = self._syncing()
        if begun is not None:
            await asyncio.wrap_future(begun)

    def close(self) -> None:
        """Sync, end the threads and give the lock back; the events stay readable.

        Raises LogError, closed all the same, when what was appended is not on the disk.
        """
        if self._pid != os.getpid():
            return
        try:
            if self.read_only is None:
                self.sync()
        finally:
            for thread in (self._syncer, self._writer):
                if thread is not None:
                    thread.close()
            self._writer = self._syncer = None
            if self._file is not None:
                self._file.close()


def _payload(event: Event) -> bytes:
    payload = payload_of(event)
    if len(payload) > LINE_BYTES - 64:
        raise LogError(
            f"an event {event.type!r} of {len(payload):,} bytes is over the {LINE_BYTES:,} of a "
            "line; keep its content in a file and name that"
        )
    return payload
