"""Proxy: a loopback Messages API before any harness, and our log of what passed.

May not change what passes: it is written down beside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_kernel.core.branches import open_log
from agent_kernel.core.events import SessionHeader
from agent_kernel.core.log import Log
from agent_kernel.core.session import Session, new_session_id
from agent_kernel.proxy.recorder import Recorder
from agent_kernel.proxy.server import Server
from agent_kernel.proxy.upstream import PUBLIC, Upstream, UpstreamError
from agent_kernel.proxy.written import Cleaner

__all__ = ["PUBLIC", "Proxy", "UpstreamError"]


class Proxy:
    """`with Proxy(upstream, log) as p:` relays `p.base_url` to `upstream` and records into `log`.

    `log` is a path (a log that is there is gone on with), or None for memory; `env` says which
    values are secrets besides the keys that pass. Raises UpstreamError, or LogError when the log
    cannot be written. After the block `p.session` holds every request that passed.
    """

    def __init__(
        self, upstream: str, log: str | Path | None = None, *, env: Mapping[str, str] | None = None
    ) -> None:
        self._upstream = Upstream.of(upstream)
        self._cleaner = Cleaner(os.environ if env is None else env)
        opened = Log(redact=self._cleaner.value)
        if log is not None:
            opened = open_log(Path(log), redact=self._cleaner.value)
        self.session = Session(opened)
        self._recorder: Recorder | None = None
        self._server: Server | None = None

    @property
    def base_url(self) -> str:
        """The address to give a harness as ANTHROPIC_BASE_URL, "" before the start."""
        return self._server.base_url if self._server else ""

    @property
    def requests(self) -> int:
        """How many requests are in the log since the start."""
        return self._recorder.requests if self._recorder else 0

    @property
    def notices(self) -> list[str]:
        """What could not be written, in words; [] when all was."""
        if self._recorder is None:
            return []
        failed = [self._recorder.failed] if self._recorder.failed else []
        return [*self.session.log.notices, *self._recorder.missed, *failed]

    def start(self) -> Self:
        """Take the log, then listen; returns itself with `base_url` set."""
        if self.session.resume() is None:
            header = SessionHeader(session=new_session_id(), created=round(time.time(), 3))
            self.session.append(header)
        self._recorder = Recorder(self.session, self._cleaner)
        self._server = Server(self._upstream, self._recorder).start()
        return self

    def stop(self) -> None:
        """End every connection, write what passed and close the log."""
        if self._server is not None:
            self._server.stop()
        if self._recorder is not None:
            self._recorder.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
