"""Side events: the facts of tasks, compactions, files, Python and settings.

May not hold behaviour; none of them joins the surface.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from agent_kernel.core.event import Content, Event, Tokens
from agent_kernel.core.messages import Json


class TaskCreated(Event):
    """Work began that outlives its call."""

    type: Literal["task/created"] = "task/created"
    id: str
    kind: Literal["agent", "bash", "cell"]
    label: str
    tool_use_id: str | None = None
    output: str | None = None
    depth: int = 0
    fork: bool = False
    fork_at: int | None = None  # last event of the parent's surface that the fork begins with
    team: str | None = None
    isolation: str | None = None
    awaited: bool = False
    spec: Json = {}  # what a restarted kernel makes the agent of again: role, model, tools, …
    gates: ClassVar[bool] = True


class TaskStatus(Event):
    """A task's state changed; a process is known again by its pid and start time (clock ticks)."""

    type: Literal["task/status"] = "task/status"
    id: str
    status: str
    pid: int | None = None
    started: int | None = None


class TaskFinished(Event):
    """A task ended: by itself one item of its agent's inbox."""

    type: Literal["task/finished"] = "task/finished"
    id: str
    status: Literal["completed", "failed", "stopped"]
    summary: str
    result: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    awaited: bool = False  # its call waits for it: no notice is due
    gates: ClassVar[bool] = True


class TaskLost(Event):
    """A task was found dead after a restart."""

    type: Literal["task/lost"] = "task/lost"
    id: str
    summary: str = ""
    result: str = ""
    awaited: bool = False
    gates: ClassVar[bool] = True


# ---- compaction (design/compaction.md §3) --------------------------------------------------------


class CompactionStart(Event):
    """A compaction begins: its trigger, region and the tokens before it."""

    type: Literal["compaction/start"] = "compaction/start"
    compaction_id: str
    trigger: Literal["soft", "hard", "overflow", "cold", "manual"]
    strategies: tuple[str, ...]
    region: Json | None = None
    generation: int
    cold: bool = False
    candidate_id: str | None = None
    tokens: Json
    steps_since: int | None = None
    refill: Json = {}
    gates: ClassVar[bool] = True


class CompactionSummary(Event):
    """A summary was written, with the usage of its own call."""

    type: Literal["compaction/summary"] = "compaction/summary"
    compaction_id: str
    attempt: int
    depth: int
    candidate_id: str | None = None
    hidden: tuple[int, ...]
    hidden_tokens: int
    text: str
    raw: tuple[Any, ...] = ()
    headings_missing: tuple[str, ...] = ()
    provider: str | None = None
    model: str | None = None
    request_digest: str | None = None
    prefix_shared: bool = False
    usage: Tokens
    cost_usd: float | None = None
    duration_ms: int | None = None


class CompactionPrune(Event):
    """One layer's edits, with the tokens they freed."""

    type: Literal["compaction/prune"] = "compaction/prune"
    compaction_id: str
    layer: str
    edits: tuple[Json, ...]
    freed: int
    first_offset: int | None = None
    reason: str = ""


class CompactionEnd(Event):
    """A compaction committed, failed or was skipped; committed, its replacements take effect
    here."""

    type: Literal["compaction/end"] = "compaction/end"
    compaction_id: str
    status: Literal["committed", "failed", "skipped"]
    error: Json | None = None
    attempts: int = 0
    tokens: Json = {}
    cost: Json = {}
    dropped: Json = {}
    generation: int
    usage: Json | None = None
    cost_usd: float | None = None
    model: str | None = None
    gates: ClassVar[bool] = True


class CompactionCandidate(Event):
    """The state of a compaction prepared in the background."""

    type: Literal["compaction/candidate"] = "compaction/candidate"
    candidate_id: str
    status: Literal["started", "ready", "committed", "discarded", "failed"]
    base_generation: int | None = None
    hidden: tuple[int, ...] = ()
    region_digest: str | None = None
    policy: str | None = None
    model: str | None = None
    instruction_digest: str | None = None
    created: Json = {}
    text: str | None = None
    usage: Json | None = None
    summary: Json | None = None
    reason: str | None = None


class CompactionUndo(Event):
    """Replacements of a compaction were spliced back into what they hid."""

    type: Literal["compaction/undo"] = "compaction/undo"
    compaction_id: str
    restores: tuple[Json, ...]
    generation: int


# ---- files, python, settings ---------------------------------------------------------------------


class FileObserved(Event):
    """A file was read whole or in part, with the hash of its bytes."""

    type: Literal["file/observed"] = "file/observed"
    path: str
    sha256: str
    by: str


class FileChanged(Event):
    """A tool changed a file: hashes before (None = new) and after (None = removed)."""

    type: Literal["file/changed"] = "file/changed"
    path: str
    before: str | None
    after: str | None
    tool_call: str | None = None


class Snapshot(Event):
    """The files of the workspace at one moment."""

    type: Literal["snapshot"] = "snapshot"
    id: str
    files: Json


class CellRun(Event):
    """Python ran in the kernel's namespace."""

    type: Literal["cell/run"] = "cell/run"
    code: str
    by: Literal["person", "agent"]
    execution_count: int | None = None
    seconds: float | None = None
    error: str | None = None


class NamespaceChanged(Event):
    """Names that came, changed or went, with types and fingerprints; never values."""

    type: Literal["namespace/changed"] = "namespace/changed"
    added: Json = {}
    changed: Json = {}
    removed: tuple[str, ...] = ()


class ModelSelected(Event):
    """A model was chosen, and why."""

    type: Literal["model/selected"] = "model/selected"
    model: str
    provider: str
    base_url: str | None = None
    why: str = ""
    fallback: bool = False  # for the turn alone: the first choice was overloaded


class PermissionMode(Event):
    """The permission mode from here on."""

    type: Literal["permission/mode"] = "permission/mode"
    mode: Literal["plan", "ask", "accept-edits", "bypass"]


class PermissionRule(Event):
    """A rule was granted or withdrawn for this session."""

    type: Literal["permission/rule"] = "permission/rule"
    verdict: Literal["allow", "ask", "deny"]
    rule: str
    by: str = "person"


class ToolEnabled(Event):
    """A tool was switched on or off, or discovered."""

    type: Literal["tool/enabled"] = "tool/enabled"
    name: str
    on: bool


class McpConnected(Event):
    """A server's state."""

    type: Literal["mcp/connected"] = "mcp/connected"
    server: str
    status: str
    tools: tuple[str, ...] = ()
    detail: str | None = None


class MemoryLoaded(Event):
    """A memory file was read."""

    type: Literal["memory/loaded"] = "memory/loaded"
    path: str
    sha256: str
    scope: str = "project"


class SkillLoaded(Event):
    """A skill's body was read."""

    type: Literal["skill/loaded"] = "skill/loaded"
    name: str
    path: str
    sha256: str


class BudgetSet(Event):
    """A limit was set: tokens, dollars, seconds, tool_calls, steps for a turn or the session."""

    type: Literal["budget/set"] = "budget/set"
    scope: Literal["turn", "notebook"]
    limits: Json
    gates: ClassVar[bool] = True


class BreakpointSet(Event):
    """A breakpoint was set or removed."""

    type: Literal["breakpoint/set"] = "breakpoint/set"
    spec: str
    on: bool


class PinSet(Event):
    """An event is kept out of every compaction, or no longer."""

    type: Literal["pin/set"] = "pin/set"
    target: int
    on: bool


class Sample(Event):
    """One more answer to a past request, asked for by a person; no tool of it was run."""

    type: Literal["sample"] = "sample"
    of: int  # seq of the request/context that was sent again
    n: int
    digest: str  # of the request as it was sent this time
    changes: Json = {}
    model: str
    content: Content = ()
    usage: Tokens
    stop_reason: str | None = None
    request_id: str | None = None
    seconds: float | None = None
    error: str | None = None
    ignorable: bool = True
