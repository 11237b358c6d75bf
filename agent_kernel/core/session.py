"""Session: one log and what is derived from it; `append` is the only way in.

May not hold what the log does not say, and may not send anything.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from agent_kernel.core.branches import (
    blobs_of,
    fork_header,
    fork_log,
    open_log,
    session_folder,
)
from agent_kernel.core.events import (
    BudgetSet,
    CompactionCandidate,
    CompactionEnd,
    Event,
    FileChanged,
    FileObserved,
    ModelSelected,
    PermissionMode,
    PermissionRule,
    PinSet,
    SessionHeader,
    SessionResume,
    StepEnd,
    StepStart,
    SurfaceEvent,
    TaskCreated,
    TaskFinished,
    TaskLost,
    ToolEnabled,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
)
from agent_kernel.core.files import DISK, Files, sha256_of
from agent_kernel.core.interrupted import unanswered
from agent_kernel.core.log import Log, Redact
from agent_kernel.core.messages import Json
from agent_kernel.core.state import State
from agent_kernel.core.surface import Surface, Surfaces
from agent_kernel.core.usage import Meter

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_session_id(now: float | None = None) -> str:
    """Return a ULID: 26 characters, ordered by the time in milliseconds, then random."""
    value = (int((now or time.time()) * 1000) << 80) | secrets.randbits(80)
    return "".join(_CROCKFORD[(value >> shift) & 31] for shift in range(125, -1, -5))


class Session:
    """A session in memory, or in a file by `Session.open(path)`.

    `surface(agent)` and `state(agent)` are folds of the log, kept as events come in; `mode`,
    `rules`, `limits` and `tasks` are the session's own folds.
    """

    def __init__(self, log: Log | None = None, *, notebook: str | None = None) -> None:
        self.log = log if log is not None else Log()
        self.notebook = notebook
        self.mode: str | None = None
        self.model: ModelSelected | None = None
        self.rules: list[PermissionRule] = []
        self.limits: dict[str, Json] = {}
        self.tasks: dict[str, Event] = {}
        self.made: dict[str, list[TaskCreated]] = {}  # how each task came to be, by its id
        self.pins: set[int] = set()
        self.meter = Meter()
        self.driven: dict[str, Any] = {}  # a future by agent whose turn runs in this process
        self.live_calls: set[str] = set()  # started by this process; all others are of a former one
        self.compacting: set[str] = set()  # agents and candidates at work in this process
        self.true_inputs: dict[str, Json] = {}  # inputs a redaction changed, never written
        self.enabled: dict[str, bool] = {}  # tools a person switched on or off
        self._surfaces = Surfaces()
        self._states = _States()
        self._files_seen: dict[tuple[str, str], str] = {}
        self._lock = threading.RLock()
        self._began: dict[str, float] = {}  # when the open turn of an agent began, monotonic
        for event in self.log:
            self._fold(event)
        for agent, state in self._states.items():
            if state.turn_open and state.turn_start is not None:
                ran = self.log.events[-1].time - state.turn_start.time
                self._began[agent] = time.monotonic() - max(0.0, ran)
        self.log.listeners.insert(0, self._fold)
        self.blobs = blobs_of(self.log.path, self.log.files)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        redact: Redact | None = None,
        files: Files = DISK,
        notebook: str | None = None,
        required: bool = False,
    ) -> Self:
        """Return the session of the log at `path`, new when there is none; nothing is written yet.

        Where no file can be written it is kept in memory and says so, unless `required`. Raises
        LogError when the path is no regular file.
        """
        log = open_log(Path(path), redact=redact, files=files, required=required)
        return cls(log, notebook=notebook)

    def resume(self, folder: Path | None = None) -> SessionResume | None:
        """Note that the log was opened again, close what the former process left open; None when
        new.

        Calls it had started are answered "outcome unknown", with the hash of the file in the
        workspace's `folder` they name; calls it never started may still run.
        """
        if not len(self.log):
            return None
        loaded = self.log.loaded
        findings = self.findings
        started = [c.call.id for s in self._states.values() for c in s.open_calls if c.started]
        event = SessionResume(
            clean=not loaded.torn and not started and not findings,
            damaged_bytes=loaded.torn,
            open_calls=tuple(started),
            findings=tuple(findings[:50]),
        )
        (stored,) = self.append(event)
        for agent in list(self._states):
            self._answer_started(agent, folder)
            self.end_compactions(agent)
        assert isinstance(stored, SessionResume)
        return stored

    # ---- identity --------------------------------------------------------------------------------

    @property
    def header(self) -> SessionHeader | None:
        """The log's first event, None while nothing is written."""
        for event in reversed(self.log.events[: self.log.inherited + 1]):
            if isinstance(event, SessionHeader):
                return event
        return None

    @property
    def id(self) -> str:
        """The session's id, "" while nothing is written."""
        return self.header.session if self.header else ""

    @property
    def events(self) -> Sequence[Event]:
        """All events of the log."""
        return self.log.events

    @property
    def folder(self) -> Path | None:
        """The folder `<stem>.agent/` beside the log for blobs, tasks and branches; None in
        memory."""
        return session_folder(self.log.path) if self.log.path else None

    @property
    def findings(self) -> list[Json]:
        """What was wrong with the file as it was read, and the blobs it names that are gone."""
        found = list(self.log.loaded.findings)
        for event in self.events:
            sha256 = event.meta.get("blob") if isinstance(event, ToolResultEvent) else None
            if isinstance(sha256, str) and self.blobs.missing(sha256):
                size = event.meta.get("original_bytes")  # type: ignore[attr-defined]
                text = f"blob {sha256} ({size} bytes) of seq {event.seq} is gone"
                found.append({"code": "missing_blob", "text": text, "seq": event.seq})
        return found

    def clean(self, text: str) -> str:
        """Return a text as the log would keep it: its secrets masked."""
        hook = self.log.redact
        return text if hook is None else str(hook({"text": text})["text"])

    def keep(self, data: bytes) -> str:
        """Return the SHA-256 of a file's content, which is kept as a blob unless it holds a secret:
        masked, it would be another file."""
        text = data.decode("utf-8", "surrogateescape")
        return self.blobs.put(data) if self.clean(text) == text else sha256_of(data)

    def __repr__(self) -> str:
        where = self.log.path.name if self.log.path else "in memory"
        return f"Session({self.id or 'new'!r}, {where}, {len(self.log)} events)"

    def fork(self, at: int, name: str | None = None) -> Session:
        """Return a new branch that shares every event up to seq `at`; this log's bytes never
        change.

        The branch's file is `branches/<name>.jsonl` in the session's folder (in memory when this
        session is). Calls the cut left open are answered. Raises KeyError on an unknown seq,
        ValueError on a name taken.
        """
        log = fork_log(self.log, at, name, self.folder)
        branch = Session(log, notebook=self.notebook)
        header = branch._new_header().model_copy(
            update={"forked_from": fork_header(self.log, self.id, at)}
        )
        branch.append(header)
        for agent in list(branch._states):
            branch.answer_open_calls("forked before this call returned", agent)
        return branch

    # ---- the only way in -------------------------------------------------------------------------

    def append(self, *events: Event, agent: str | None = None) -> tuple[Event, ...]:
        """Append events in one write, stamped with turn and step of their agent; return them as
        stored.

        Raises SurfaceError or LogError, changing nothing, when one may not join.
        """
        self.log.check_process()
        with self._lock:
            given = self._stamped(events, agent)
            if not len(self.log) and not isinstance(given[0], SessionHeader):
                given.insert(0, self._new_header())
            seq = self.log.next_seq
            for at, event in enumerate(given):
                if isinstance(event, SurfaceEvent):
                    self._surfaces[event.agent].place(event, seq + at)
            return self.log.append_all(given)[-len(events) :]

    def _new_header(self) -> SessionHeader:
        now = round(time.time(), 3)
        return SessionHeader(session=new_session_id(now), created=now, notebook=self.notebook)

    def _stamped(self, events: Iterable[Event], agent: str | None) -> list[Event]:
        out: list[Event] = []
        places: dict[str, tuple[int, int | None]] = {}
        for event in events:
            name = agent if agent is not None else event.agent
            state = self._states[name]
            turn, step = places.get(name, (state.turn, state.step if state.step_open else None))
            if isinstance(event, TurnStart):
                turn, step = state.turn + 1, None
            elif isinstance(event, StepStart):
                step = (step or state.step) + 1
            if isinstance(event, SessionHeader):
                turn, step = 0, None
            stamp: dict[str, Any] = {"agent": name, "turn": turn or None, "step": step}
            out.append(event.model_copy(update=stamp))
            places[name] = (turn, None if event.type == "step/end" else step)
        return out

    # ---- folds -----------------------------------------------------------------------------------

    def _fold(self, event: Event) -> None:
        self._surfaces.apply(event)
        self._states[event.agent].apply(event)
        match event:
            case FileObserved():
                self._files_seen[event.agent, event.path] = event.sha256
            case FileChanged() if event.after is not None:
                self._files_seen[event.agent, event.path] = event.after
            case PermissionMode():
                self.mode = event.mode
            case PermissionRule():
                self.rules.append(event)
            case ModelSelected() if not event.fallback:
                self.model = event
            case PinSet():
                (self.pins.add if event.on else self.pins.discard)(event.target)
            case BudgetSet():
                self.limits[event.scope] = event.limits
            case TaskCreated() | TaskFinished() | TaskLost():
                self._fold_task(event)
            case _:
                self._fold_run(event)

    def _fold_run(self, event: Event) -> None:
        if isinstance(event, TurnStart):
            self._began[event.agent] = time.monotonic()
        elif isinstance(event, ToolResultEvent):
            self.true_inputs.pop(event.id, None)
        elif isinstance(event, ToolEnabled):
            self.enabled[event.name] = event.on

    def _fold_task(self, event: TaskCreated | TaskFinished | TaskLost) -> None:
        self.tasks[event.id] = event
        if isinstance(event, TaskCreated):
            self.made.setdefault(event.id, []).append(event)
            if event.fork:
                self._states[event.id].inherit(self._states[event.agent])

    def surface(self, agent: str = "main") -> Surface:
        """Return what the model of `agent` sees now."""
        return self._surfaces[agent]

    def state(self, agent: str = "main") -> State:
        """Return where the loop of `agent` stands."""
        return self._states[agent]

    @property
    def agents(self) -> list[str]:
        """Agent ids in order of their first event."""
        return list(self._states)

    def elapsed(self, agent: str = "main") -> float:
        """Return the seconds its open turn has run, 0 without one: no change of the clock counts,
        nor the time between two processes."""
        if not self.state(agent).turn_open:
            return 0.0
        return time.monotonic() - self._began.get(agent, time.monotonic())

    def running_tasks(self, agent: str, kind: str | None = None) -> list[str]:
        """Return the ids of tasks of `agent` that the log says are running."""
        return [
            task_id
            for task_id, event in self.tasks.items()
            if isinstance(event, TaskCreated)
            and event.agent == agent
            and (kind is None or event.kind == kind)
        ]

    def observed(self, agent: str, path: str) -> str | None:
        """Return the SHA-256 of a file as `agent` last read or wrote it, None when it never did."""
        return self._files_seen.get((agent, path))

    # ---- closing what is open --------------------------------------------------------------------

    def answer_open_calls(self, why: str, agent: str = "main") -> int:
        """Answer every call of `agent` that has no result with an error saying `why`; return how
        many.

        A call that had started is answered "outcome unknown": nobody may run it again by itself.
        """
        self.complete_calls(agent)
        results = [unanswered(state, why) for state in self.state(agent).open_calls]
        if results:
            self.append(*results, agent=agent)
        return len(results)

    def complete_calls(self, agent: str = "main") -> None:
        """Log the calls of the last answer whose lines a torn write lost."""
        missing = self.state(agent).uncalled
        if missing:
            self.append(*missing, agent=agent)

    def _answer_started(self, agent: str, folder: Path | None) -> None:
        lost = [c for c in self.state(agent).open_calls if c.started]
        for each in lost:
            why = "the kernel ended while it ran"
            self.append(unanswered(each, why, self.events, folder), agent=agent)

    def end_compactions(self, agent: str) -> None:
        """End the compaction and the candidate a former process left open (C1, B7)."""
        state, ends = self.state(agent), list[Event]()
        if state.compacting is not None and agent not in self.compacting:
            name, generation = state.compacting.compaction_id, self.surface(agent).generation
            error = {"code": "cancelled", "text": "the kernel ended while it ran"}
            ends.append(
                CompactionEnd(
                    compaction_id=name, status="failed", error=error, generation=generation
                )
            )
        name = state.candidate.candidate_id if state.candidate is not None else ""
        if name and name not in self.compacting:
            ends.append(CompactionCandidate(candidate_id=name, status="failed", reason="cancelled"))
        if ends:
            self.append(*ends, agent=agent)

    def close_turn(
        self, reason: Any, detail: Json | str | None = None, agent: str = "main"
    ) -> None:
        """Answer open calls and end the turn of `agent`, if one is open."""
        state = self.state(agent)
        if not state.turn_open:
            return
        self.answer_open_calls(f"the turn ended: {reason}", agent)
        ends: list[Event] = [StepEnd()] if state.step_open else []
        self.append(*ends, TurnEnd(reason=reason, detail=detail), agent=agent)

    def close(self) -> None:
        """Sync the log and give its lock back."""
        self.log.close()


class _States(dict[str, State]):
    def __missing__(self, agent: str) -> State:
        self[agent] = made = State(agent)
        return made
