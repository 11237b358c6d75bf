"""Loop events: the facts of sessions, turns, input, requests, answers and tool calls.

May not hold behaviour beyond the blocks an event puts into its message.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from agent_kernel.core.event import Content, Event, SurfaceEvent, Tokens
from agent_kernel.core.messages import Block, Json, Role, ToolResult

Priority = Literal["now", "next", "later"]
AttachmentKind = Literal[
    "context", "file", "memory", "skill", "notification", "summary", "reminder"
]
TurnReason = Literal[
    "completed", "interrupted", "max_steps", "budget", "prompt_too_long", "refused", "error"
]


class SessionHeader(Event):
    """First line of a log: its format, its session id, and where a fork begins."""

    type: Literal["session/header"] = "session/header"
    format: Literal["agent-kernel-log"] = "agent-kernel-log"
    version: int = 1
    session: str
    created: float
    notebook: str | None = None
    forked_from: Json | None = None
    gates: ClassVar[bool] = True


class SessionResume(Event):
    """A log was opened again: what was found damaged, open or lost."""

    type: Literal["session/resume"] = "session/resume"
    clean: bool
    damaged_bytes: int = 0
    open_calls: tuple[str, ...] = ()
    lost_tasks: tuple[str, ...] = ()
    findings: tuple[Json, ...] = ()


class SessionEnd(Event):
    """The session was closed on purpose."""

    type: Literal["session/end"] = "session/end"


class TurnStart(Event):
    """A turn begins: the cell's text, where it came from, and the key by which a re-run finds
    it."""

    type: Literal["turn/start"] = "turn/start"
    text: str
    source: Literal["cell", "notification", "api"] = "cell"
    key: str | None = None
    prompt: str | None = None
    settings: Json = {}
    gates: ClassVar[bool] = True


class TurnEnd(Event):
    """A turn is over, with its one reason; `detail` says more."""

    type: Literal["turn/end"] = "turn/end"
    reason: TurnReason
    detail: Json | str | None = None
    gates: ClassVar[bool] = True


class StepStart(Event):
    """A step begins: one request and the batch it causes."""

    type: Literal["step/start"] = "step/start"


class StepEnd(Event):
    """A step is over: every call of it has its result."""

    type: Literal["step/end"] = "step/end"


# ---- input ---------------------------------------------------------------------------------------


class UserMessage(SurfaceEvent):
    """A person's words."""

    type: Literal["user/message"] = "user/message"
    content: Content
    meta: Json = {}
    gates: ClassVar[bool] = True

    def blocks(self) -> tuple[Block, ...]:
        """Return the person's blocks."""
        return self.content


class Attachment(SurfaceEvent):
    """Text written by us and seen by the model; folded for people when `hidden`."""

    type: Literal["attachment"] = "attachment"
    kind: AttachmentKind
    label: str
    content: Content
    meta: Json = {}
    hidden: bool = True

    @property
    def role(self) -> Role:
        """The user's; the system's when `meta.role` says so (a message inside the conversation)."""
        return "system" if self.meta.get("role") == "system" else "user"

    def blocks(self) -> tuple[Block, ...]:
        """Return the attachment's blocks."""
        return self.content


class InboxQueued(Event):
    """An item waits for an agent: a person's steering, or a task's end."""

    type: Literal["inbox/queued"] = "inbox/queued"
    item: Json
    priority: Priority = "later"
    gates: ClassVar[bool] = True


class InboxClaimed(Event):
    """The surface event that cites the item has taken it."""

    type: Literal["inbox/claimed"] = "inbox/claimed"
    item: int


class InboxDropped(Event):
    """An item was removed before it was read."""

    type: Literal["inbox/dropped"] = "inbox/dropped"
    item: int
    why: str


# ---- request and model ---------------------------------------------------------------------------


class RequestHeader(Event):
    """All of a request but its messages, written when it differs from the last one."""

    type: Literal["request/header"] = "request/header"
    reason: Literal["initial", "resume", "change"]
    provider: str
    model: str
    params: Json = {}
    system: tuple[Json, ...] = ()
    tools: tuple[Json, ...] = ()
    beta: tuple[str, ...] = ()


class RequestContext(Event):
    """One request was made: the digest of its exact body and what joined the surface since the
    last.

    `body` is there when another harness made it (the recording proxy): `blob`, the SHA-256 under
    which its exact bytes are kept; `written`, their digest where secrets were taken out of them
    (`digest` is then of what was sent); `loose`, why the surface does not hold its messages.
    """

    type: Literal["request/context"] = "request/context"
    purpose: Literal["turn", "compaction"] = "turn"
    compaction_id: str | None = None
    digest: str
    header: int
    max_tokens: int
    surface_generation: int
    first_seq: int | None = None
    last_seq: int | None = None
    messages: int
    tokens_estimated: int | None = None
    cache_breakpoints: tuple[tuple[Any, ...], ...] = ()
    window: int | None = None
    joined: tuple[tuple[int, str], ...] = ()
    instruction: Json | None = None
    left_out: int = 0  # leading surface events a compaction's own call had no room for
    body: Json | None = None


class StreamAttempt(Event):
    """One attempt of a request begins."""

    type: Literal["stream/attempt"] = "stream/attempt"
    n: int
    why: str


class StreamRetry(Event):
    """An attempt failed and another follows after `wait` seconds."""

    type: Literal["stream/retry"] = "stream/retry"
    n: int
    error: str
    status: int | None = None
    wait: float
    partial: Json = {}


class StreamStall(Event):
    """No content event came for `seconds`."""

    type: Literal["stream/stall"] = "stream/stall"
    seconds: float


class AssistantMessage(SurfaceEvent):
    """What the model answered, with its usage; kept though it was interrupted."""

    type: Literal["assistant/message"] = "assistant/message"
    content: Content
    model: str
    usage: Tokens
    stop_reason: str | None = None
    request_id: str | None = None
    ttft: float | None = None
    seconds: float | None = None
    interrupted: bool = False
    meta: Json = {}
    speaker: ClassVar[Role] = "assistant"

    def blocks(self) -> tuple[Block, ...]:
        """Return the model's blocks."""
        return self.content


# ---- tools ---------------------------------------------------------------------------------------


class ToolCall(Event):
    """The model asks for a tool; `input_hash` is of the canonical input."""

    type: Literal["tool/call"] = "tool/call"
    id: str
    name: str
    input: Json
    input_hash: str
    bad_input: str | None = None


class ToolAsk(Event):
    """A call waits for a person: the rule and stage that asked, the risk in words."""

    type: Literal["tool/ask"] = "tool/ask"
    id: str
    rule: str | None = None
    stage: str | None = None
    parts: tuple[str, ...] = ()
    reason: str = ""
    risk: str | None = None


class ToolDecision(Event):
    """A call may run or not, by whom, and under which rule."""

    type: Literal["tool/decision"] = "tool/decision"
    id: str
    verdict: Literal["allow", "deny"]
    by: Literal["rule", "person", "policy", "hook", "mode"]
    rule: str | None = None
    stage: str | None = None
    parts: tuple[str, ...] = ()
    reason: str = ""
    edited_input: Json | None = None
    would_pass: str | None = None
    waited: float | None = None
    gates: ClassVar[bool] = True


class HookRun(Event):
    """A hook ran before or after an act."""

    type: Literal["hook/run"] = "hook/run"
    hook: str
    id: str | None = None
    verdict: str | None = None
    seconds: float | None = None
    error: str | None = None
    text: str = ""  # what it adds for the model


class ToolStart(Event):
    """A call starts: from here on it is never started again by itself."""

    type: Literal["tool/start"] = "tool/start"
    id: str
    input_hash: str
    gates: ClassVar[bool] = True


class ToolProgress(Event):
    """A running call says how far it is."""

    type: Literal["tool/progress"] = "tool/progress"
    id: str
    ignorable: bool = True


class ToolResultEvent(SurfaceEvent):
    """What the model is told of a call; the rest of the output, if any, is in the blob of
    `meta`."""

    type: Literal["tool/result"] = "tool/result"
    id: str
    content: Content
    is_error: bool = False
    meta: Json = {}
    gates: ClassVar[bool] = True

    def blocks(self) -> tuple[Block, ...]:
        """Return the one result block."""
        return (ToolResult(self.id, self.content, self.is_error),)
