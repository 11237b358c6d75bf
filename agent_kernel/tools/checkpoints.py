"""Checkpoints: what a call changed in the workspace, kept as blobs, and the way back to before.

May not write a file but in `restore`, and never over what someone else changed since.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

from agent_kernel.core.agent import Agent
from agent_kernel.core.events import FileChanged, ToolCall, ToolResultEvent
from agent_kernel.core.files import Blobs
from agent_kernel.core.log import Log
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Answer, Tool, ToolContext
from agent_kernel.guard import paths
from agent_kernel.tools import walker

FILES, BYTES = 2_000, 50 << 20  # a workspace larger than this is not watched whole
ELSEWHERE = frozenset("agent todo ask skill tool_search task_output task_stop".split())
"""Tools that change no file by themselves; what an agent's own calls change is theirs."""
REWIND = "rewind:"
Verdict = Literal["restore", "remove", "same", "kept", "lost"]
Stamp = tuple[int, int, int, int]


class Keeper:
    """The files of one workspace as last seen, in memory: at most 50 MiB of them unless `whole`."""

    def __init__(self, workspace: Path, whole: bool = False) -> None:
        self.root = Path(os.path.realpath(workspace))
        self._whole = whole
        self._too_large = False
        self._seen: dict[str, tuple[Stamp, str, bytes]] = {}
        self._lock = threading.Lock()

    def look(self) -> dict[str, tuple[str, bytes]] | None:
        """Return (SHA-256, bytes) of every file that no ignore file hides, by name; None when they
        are too many or too large to be kept. Only files whose stamp changed are read again."""
        with self._lock:
            if self._too_large:
                return None
            seen: dict[str, tuple[Stamp, str, bytes]] = {}
            size = 0
            for path in walker.walk(str(self.root)):
                found = self._file(path)
                if found is None:
                    continue
                size += len(found[2])
                seen[path[len(str(self.root)) + 1 :]] = found
                if not self._whole and (len(seen) > FILES or size > BYTES):
                    self._too_large, self._seen = True, {}  # looked at once, not at each call
                    return None
            self._seen = seen
            return {name: (sha, data) for name, (_stamp, sha, data) in seen.items()}

    def _file(self, path: str) -> tuple[Stamp, str, bytes] | None:
        try:
            info = os.lstat(path)
            stamp = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            known = self._seen.get(path[len(str(self.root)) + 1 :])
            if known is not None and known[0] == stamp:
                return known
            if not self._whole and info.st_size > BYTES:
                return stamp, "", bytes(BYTES + 1)
            data = Path(path).read_bytes()
        except OSError:
            return None  # gone meanwhile, or not ours to read
        return stamp, hashlib.sha256(data).hexdigest(), data


_KEEPERS: WeakKeyDictionary[Session, Keeper] = WeakKeyDictionary()


def watch(session: Session, agent: Agent, how: str = "auto") -> None:
    """Make the agent's tools note every file they change, as the setting `snapshots` says.

    auto = the whole workspace while it is small, workspace = at any size, tools or off = only what
    write, edit and notebook note by themselves.
    """
    if how not in ("auto", "workspace"):
        return
    keeper = _KEEPERS.get(session)
    if keeper is None or keeper.root != Path(os.path.realpath(agent.workspace)):
        keeper = _KEEPERS[session] = Keeper(agent.workspace, whole=how == "workspace")
    agent.tools = tuple(watched(tool, keeper) for tool in agent.tools)


def watched(tool: Tool, keeper: Keeper) -> Tool:
    """Return the tool with its calls watched, the tool itself when none of them changes files."""
    if tool.read_only is True or tool.name in ELSEWHERE:
        return tool

    async def run(value: Any, ctx: ToolContext) -> Answer:
        if tool.is_read_only(value):
            return Answer.of(await tool.run(value, ctx))
        before = await asyncio.to_thread(keeper.look)
        began = ctx.session.log.next_seq
        try:
            answer = Answer.of(await tool.run(value, ctx))
        finally:
            if before is not None:
                after = await asyncio.shield(asyncio.to_thread(keeper.look))
                _note(ctx, began, before, after or {})
        covered = {} if before is None else {"watched": len(before)}
        return replace(answer, meta={**answer.meta, **covered})

    return replace(tool, run=run)


def _note(
    ctx: ToolContext,
    began: int,
    before: dict[str, tuple[str, bytes]],
    after: dict[str, tuple[str, bytes]],
) -> None:
    """Log what changed between two looks, but for what a tool noted of its own change."""
    log = ctx.session.log
    noted = {e.path for e in log.events[_index(log, began) :] if isinstance(e, FileChanged)}
    changed: list[FileChanged] = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if name in noted or (was and now and was[0] == now[0]):
            continue
        old = None if was is None else ctx.session.keep(was[1])
        new = None if now is None else ctx.session.keep(now[1])
        changed.append(FileChanged(path=name, before=old, after=new, tool_call=ctx.call_id))
    if changed:
        ctx.session.append(*changed, agent=ctx.agent)


def _index(log: Log, seq: int) -> int:
    """Return where the events from `seq` on begin in a log, which has gaps in none of its seqs."""
    return max(0, len(log.events) - (log.next_seq - seq))


# ---- the way back -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """What a rewind does with one file: `want` and `now` are hashes, None = no such file."""

    path: str
    verdict: Verdict
    want: str | None
    now: str | None
    why: str = ""

    def words(self) -> str:
        """Return the file and its fate on one line."""
        verb = {"restore": "restored", "remove": "removed", "same": "as it was"}
        said = verb.get(self.verdict, "not touched")
        return f"{said:12} {self.path}{f': {self.why}' if self.why else ''}"


def changes(session: Session, after: int) -> list[FileChanged]:
    """Return what was changed after a seq, by any agent, in order."""
    return [e for e in session.events if isinstance(e, FileChanged) and e.seq > after]


def last_rewind(session: Session) -> list[FileChanged]:
    """Return the changes of the session's last rewind, [] when there was none."""
    every = [e for e in changes(session, -1) if (e.tool_call or "").startswith(REWIND)]
    return [e for e in every if e.tool_call == every[-1].tool_call]


def plan(session: Session, changed: Iterable[FileChanged], workspace: Path) -> list[Way]:
    """Return what taking these changes back would do with each file; nothing is written."""
    root = Path(os.path.realpath(workspace))
    chains: dict[str, list[FileChanged]] = {}
    for event in changed:
        chains.setdefault(event.path, []).append(event)
    return [_way(session, root, path, chain) for path, chain in sorted(chains.items())]


def _way(session: Session, root: Path, path: str, chain: Sequence[FileChanged]) -> Way:
    want = chain[0].before
    target = _target(root, path)
    if isinstance(target, str):
        return Way(path, "kept", want, None, target)
    now = _hash(target)
    if now == want:
        return Way(path, "same", want, now)
    between = any(a.after != b.before for a, b in itertools.pairwise(chain))
    if now != chain[-1].after or between:
        return Way(path, "kept", want, now, "someone else changed it too; look at it yourself")
    if want is None:
        return Way(path, "remove", want, now)
    if session.blobs.missing(want):
        why = "its former content was not kept (it held a secret, or its blob is gone)"
        return Way(path, "lost", want, now, why)
    return Way(path, "restore", want, now)


def _target(root: Path, path: str) -> paths.Target | str:
    """Return where a logged path leads, or why it is not written: a log is data, not an order."""
    found = paths.resolve(path, str(root), [str(root)])
    if isinstance(found, paths.Problem):
        return found.why
    if not paths.within(found.real, [str(root)]):
        return "it lies outside the workspace"
    if found.kind not in ("file", "missing"):
        return "it is no regular file any more"
    if set(Path(found.real).relative_to(root).parts) & set(walker.SKIPPED):
        return "it lies in a folder that is never rewound"
    return found


def _hash(target: paths.Target) -> str | None:
    if target.kind == "missing":
        return None
    return hashlib.sha256(Path(target.real).read_bytes()).hexdigest()


def restore(
    session: Session, ways: Iterable[Way], workspace: Path, blobs: Blobs | None = None
) -> list[Way]:
    """Do a plan, each file looked at once more, and return what was done.

    What is overwritten is kept as a blob and logged, so that the rewind can itself be taken back;
    `blobs` are those of the session the plan was made from, when that is another.
    """
    root = Path(os.path.realpath(workspace))
    name = f"{REWIND}{session.log.next_seq}"
    done: list[Way] = []
    for way in ways:
        if way.verdict not in ("restore", "remove"):
            done.append(way)
            continue
        target = _target(root, way.path)
        if isinstance(target, str) or _hash(target) != way.now:
            done.append(replace(way, verdict="kept", why="it was changed just now"))
            continue
        now = None if way.now is None else session.keep(Path(target.real).read_bytes())
        if way.want is None:
            Path(target.real).unlink()
        else:
            paths.write_target(target, (blobs or session.blobs).get(way.want), parents=True)
        event = FileChanged(path=way.path, before=now, after=way.want, tool_call=name)
        session.append(event)
        done.append(way)
    return done


def unwatched(session: Session, after: int) -> list[str]:
    """Return the calls after a seq whose changes of files nobody noted: too large a workspace, or
    no watch at all."""
    noted = {event.tool_call for event in changes(session, after)}
    names = {e.id: e.name for e in session.events if isinstance(e, ToolCall) and e.seq > after}
    return [
        f"{names[event.id]} (seq {event.seq})"
        for event in session.events
        if isinstance(event, ToolResultEvent)
        and event.id in names
        and event.replaces is None
        and event.meta.get("side_effect")
        and event.id not in noted
        and "watched" not in event.meta
        and names[event.id] not in ELSEWHERE
    ]
