"""Events: one class per durable fact; the union of them is all a log may hold.

May not read a file or keep state; an unknown type is kept as `UnknownEvent`, field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_kernel.core.event import Event, Replace, SurfaceEvent, UnknownEvent
from agent_kernel.core.loop_events import (
    AssistantMessage,
    Attachment,
    AttachmentKind,
    HookRun,
    InboxClaimed,
    InboxDropped,
    InboxQueued,
    Priority,
    RequestContext,
    RequestHeader,
    SessionEnd,
    SessionHeader,
    SessionResume,
    StepEnd,
    StepStart,
    StreamAttempt,
    StreamRetry,
    StreamStall,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolProgress,
    ToolResultEvent,
    ToolStart,
    TurnEnd,
    TurnReason,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.side_events import (
    BreakpointSet,
    BudgetSet,
    CellRun,
    CompactionCandidate,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    CompactionSummary,
    CompactionUndo,
    FileChanged,
    FileObserved,
    McpConnected,
    MemoryLoaded,
    ModelSelected,
    NamespaceChanged,
    PermissionMode,
    PermissionRule,
    PinSet,
    Sample,
    SkillLoaded,
    Snapshot,
    TaskCreated,
    TaskFinished,
    TaskLost,
    TaskStatus,
    ToolEnabled,
)

__all__ = [
    "ALL",
    "TYPES",
    "Event",
    "Replace",
    "SurfaceEvent",
    "UnknownEvent",
    "event_of",
    "Priority",
    "AttachmentKind",
    "TurnReason",
    "SessionHeader",
    "SessionResume",
    "SessionEnd",
    "TurnStart",
    "TurnEnd",
    "StepStart",
    "StepEnd",
    "UserMessage",
    "Attachment",
    "InboxQueued",
    "InboxClaimed",
    "InboxDropped",
    "RequestHeader",
    "RequestContext",
    "StreamAttempt",
    "StreamRetry",
    "StreamStall",
    "AssistantMessage",
    "ToolCall",
    "ToolAsk",
    "ToolDecision",
    "HookRun",
    "ToolStart",
    "ToolProgress",
    "ToolResultEvent",
    "TaskCreated",
    "TaskStatus",
    "TaskFinished",
    "TaskLost",
    "CompactionStart",
    "CompactionSummary",
    "CompactionPrune",
    "CompactionEnd",
    "CompactionCandidate",
    "CompactionUndo",
    "FileObserved",
    "FileChanged",
    "Snapshot",
    "CellRun",
    "NamespaceChanged",
    "ModelSelected",
    "PermissionMode",
    "PermissionRule",
    "ToolEnabled",
    "McpConnected",
    "MemoryLoaded",
    "SkillLoaded",
    "BudgetSet",
    "BreakpointSet",
    "PinSet",
    "Sample",
]

ALL: tuple[type[Event], ...] = (
    SessionHeader, SessionResume, SessionEnd, TurnStart, TurnEnd, StepStart, StepEnd,
    UserMessage, Attachment, InboxQueued, InboxClaimed, InboxDropped,
    RequestHeader, RequestContext, StreamAttempt, StreamRetry, StreamStall, AssistantMessage,
    ToolCall, ToolAsk, ToolDecision, HookRun, ToolStart, ToolProgress, ToolResultEvent,
    TaskCreated, TaskStatus, TaskFinished, TaskLost,
    CompactionStart, CompactionSummary, CompactionPrune, CompactionEnd, CompactionCandidate,
    CompactionUndo, FileObserved, FileChanged, Snapshot, CellRun, NamespaceChanged,
    ModelSelected, PermissionMode, PermissionRule, ToolEnabled, McpConnected, MemoryLoaded,
    SkillLoaded, BudgetSet, BreakpointSet, PinSet, Sample,
)  # fmt: skip
TYPES: dict[str, type[Event]] = {cls.model_fields["type"].default: cls for cls in ALL}


def event_of(wire: Mapping[str, Any]) -> Event:
    """Return the event of one parsed line. Raises ValueError when a known type lacks a field."""
    data = {key: value for key, value in wire.items() if key != "h"}
    cls = TYPES.get(str(data.get("type")), UnknownEvent)
    if issubclass(cls, SurfaceEvent):
        surface = data.pop("surface", "append")
        if isinstance(surface, Mapping):
            data["replaces"] = {"first": surface["start"], "last": surface["end"]}
    return cls.model_validate(data)
