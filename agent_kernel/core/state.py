"""State: where an agent's loop stands, folded event by event from the log.

May not hold anything the log does not say: a reopened file gives an equal state.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionCandidate,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    Event,
    HookRun,
    InboxClaimed,
    InboxDropped,
    InboxQueued,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    StreamRetry,
    TaskFinished,
    TaskLost,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolResultEvent,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from agent_kernel.core.messages import Json, ToolUse, Usage, canonical

# Ways a summary asked of a model is not there (compaction.md §3.1): three in a row are enough.
BAD_SUMMARY = ("timeout", "provider", "overflow", "empty", "tool_call", "headings", "inflated")


@dataclass
class CallState:
    """One tool call's life: each field is the event that happened to it, or None."""

    call: ToolCall
    ask: ToolAsk | None = None
    decision: ToolDecision | None = None
    started: ToolStart | None = None
    result: ToolResultEvent | None = None
    notes: list[str] = field(default_factory=list)  # what hooks add for the model


@dataclass(frozen=True)
class CompactionMark:
    """When a compaction began: its seq, trigger, the agent's steps until then, and since the
    last; the tokens before it, and how it ended (None = it runs)."""

    seq: int
    trigger: str
    steps: int
    steps_since: int | None
    tokens: int = 0
    status: str | None = None


@dataclass
class State:
    """One agent's place in its loop."""

    agent: str = "main"
    turn: int = 0
    turn_start: TurnStart | None = None
    turn_end: TurnEnd | None = None
    step: int = 0
    step_open: bool = False
    steps_in_turn: int = 0
    requests_in_step: int = 0
    overflows_in_step: int = 0
    prompted: bool = False  # the turn's own message is on the surface
    answer: AssistantMessage | None = None  # of this step
    calls: dict[str, CallState] = field(default_factory=dict)  # of this step, in model order
    empty_answers: int = 0
    continued: int = 0
    paused: int = 0
    overloads: int = 0  # attempts in a row
    tool_calls_in_turn: int = 0
    turn_usage: Usage = field(default_factory=Usage)
    session_usage: Usage = field(default_factory=Usage)
    header: RequestHeader | None = None
    context: RequestContext | None = None
    anchored: int | None = None  # surface generation at which usage was last recorded
    inbox: dict[int, Event] = field(default_factory=dict)
    compacting: CompactionStart | None = None
    compactions: list[CompactionMark] = field(default_factory=list)
    step_time: float = 0.0
    last_refill: Json = field(default_factory=dict)
    steps_total: int = 0
    bad_summaries: tuple[int, ...] = ()  # turns of bad ones in a row (compaction.md §3.3)
    candidate: CompactionCandidate | None = None  # the last one, while it may be committed
    wanted_max_tokens: int | None = None  # doubled after a tool input was cut
    discovered_names: tuple[str, ...] = ()
    wakes: int = 0  # turns in a row that no person began
    seconds_before: float = 0.0  # of the turns that ended
    tool_calls_total: int = 0
    repeats: Counter[tuple[str, str]] = field(default_factory=Counter)  # name, hash: in this turn
    reminded: set[str] = field(default_factory=set)
    unknown: set[tuple[str, str]] = field(default_factory=set)  # calls whose outcome nobody knows
    hooked: Counter[str] = field(default_factory=Counter)  # moments of this turn, `:deny` apart

    @property
    def turn_open(self) -> bool:
        """True between turn/start and turn/end."""
        return self.turn_start is not None and self.turn_end is None

    @property
    def uncalled(self) -> list[ToolCall]:
        """Calls of the answer whose tool/call line was lost with a torn write, made anew from
        it."""
        made = calls_of(self.answer) if self.answer is not None else []
        return [call for call in made if call.id not in self.calls]

    @property
    def open_calls(self) -> list[CallState]:
        """Calls of this step without a result, in model order."""
        return [each for each in self.calls.values() if each.result is None]

    def inherit(self, parent: State) -> None:
        """Take over what makes a fork's requests begin with its parent's bytes: system and
        tools."""
        self.header, self.discovered_names = parent.header, parent.discovered_names

    def apply(self, event: Event) -> None:
        """Fold one event of this agent."""
        match event:
            case TurnStart():
                self._turn(event)
            case TurnEnd():
                began = self.turn_start.time if self.turn_start else event.time
                self.seconds_before += event.time - began
                self.turn_end, self.step_open = event, False
            case StepStart():
                self._step(event)
            case StepEnd():
                self.step_open = False
            case RequestHeader():
                same = self.header is not None and self.header.model == event.model
                self.header, self.bad_summaries = event, self.bad_summaries if same else ()
            case StreamRetry():
                self.overloads = self.overloads + 1 if event.error == "overloaded" else 0
            case RequestContext() if event.purpose == "turn":
                self.overloads = 0
                self.context = event
                self.requests_in_step += 1
            case AssistantMessage() if event.replaces is None:
                self._answered(event)
            case CompactionStart() | CompactionEnd() | CompactionSummary() | CompactionCandidate():
                self._compaction(event)
            case _:
                self._call(event)
                self._said(event)
                self._inbox(event)

    def _turn(self, event: TurnStart) -> None:
        self.turn, self.turn_start, self.turn_end = event.turn or self.turn + 1, event, None
        self.step, self.step_open, self.steps_in_turn = 0, False, 0
        self.answer, self.calls, self.prompted = None, {}, event.source == "notification"
        self.empty_answers = self.continued = self.paused = self.tool_calls_in_turn = 0
        self.turn_usage = Usage()
        self.wakes = self.wakes + 1 if event.source == "notification" else 0
        self.repeats, self.hooked = Counter(), Counter()
        self.reminded = {key for key in self.reminded if key.startswith("notebook:")}

    def _step(self, event: StepStart) -> None:
        self.step, self.step_open = event.step or self.step + 1, True
        self.step_time = event.time
        self.steps_in_turn += 1
        self.steps_total += 1
        self.requests_in_step = self.overflows_in_step = 0
        self.answer, self.calls = None, {}

    def _answered(self, event: AssistantMessage) -> None:
        self.answer = event
        self.turn_usage = self.turn_usage + event.usage
        self.session_usage = self.session_usage + event.usage
        if self.context is not None:
            self.anchored = self.context.surface_generation
        self.empty_answers += 0 if event.content else 1
        self.continued += event.stop_reason == "max_tokens"
        self.paused += event.stop_reason == "pause_turn"
        cut = event.stop_reason == "max_tokens" and any(
            isinstance(block, ToolUse) for block in event.content
        )
        self.wanted_max_tokens = 2 * self.context.max_tokens if cut and self.context else None

    def _paid(self, usage: Usage) -> None:
        self.turn_usage = self.turn_usage + usage
        self.session_usage = self.session_usage + usage

    def _compaction(self, event: Event) -> None:
        match event:
            case CompactionStart():
                self.compacting = event
                self.overflows_in_step += event.trigger == "overflow"
                pre = event.tokens.get("pre") or 0
                mark = (event.seq, event.trigger, self.steps_total, event.steps_since, pre)
                self.compactions.append(CompactionMark(*mark))
                self.last_refill = event.refill
                if event.trigger == "manual":
                    self.bad_summaries = ()
            case CompactionSummary():
                self._paid(event.usage)
            case CompactionCandidate():
                self.candidate = event if event.status in ("started", "ready") else None
                self._paid(Usage.of(event.usage))
                if event.status == "failed" and event.reason in BAD_SUMMARY:
                    self.bad_summaries = (*self.bad_summaries, self.turn)
            case CompactionEnd():
                self._compacted(event)

    def _compacted(self, event: CompactionEnd) -> None:
        self.compacting = None
        if self.compactions:
            self.compactions[-1] = replace(self.compactions[-1], status=event.status)
        self._paid(Usage.of(event.usage))
        if (event.error or {}).get("code") in BAD_SUMMARY:
            self.bad_summaries = (*self.bad_summaries, self.turn)
        elif event.attempts:
            self.bad_summaries = ()

    def _call(self, event: Event) -> None:
        if isinstance(event, ToolCall):
            self.calls[event.id] = CallState(event)
            self.tool_calls_in_turn += 1
            self.tool_calls_total += 1
            self.repeats[event.name, event.input_hash] += 1
            return
        state = self.calls.get(getattr(event, "id", None) or "")
        if state is None:
            return
        match event:
            case ToolAsk():
                state.ask = event
                state.decision = None
            case ToolDecision():
                state.decision = event
            case ToolStart():
                state.started = event
            case HookRun() if event.text:
                state.notes.append(event.text)
            case ToolResultEvent() if event.replaces is None:
                state.result = event
                self._discover(state)
                key = (state.call.name, state.call.input_hash)
                lost = event.meta.get("error_kind") == "outcome_unknown"
                (self.unknown.add if lost else self.unknown.discard)(key)

    def _said(self, event: Event) -> None:
        if isinstance(event, HookRun):
            moment = event.hook.partition(":")[0]
            self.hooked.update((moment, f"{moment}:{event.verdict}"))
        elif isinstance(event, Attachment) and "reminder" in event.meta:
            self.reminded.add(event.meta["reminder"])
        elif isinstance(event, AssistantMessage) and self.answer is not None:
            mine = event.meta.get("edited") == self.answer.seq
            self.answer = event if mine else self.answer  # a person's words for the model's

    def _discover(self, state: CallState) -> None:
        if state.call.name == "tool_search" and state.result is not None:
            names = [n for n in state.result.meta.get("discovered", ()) if isinstance(n, str)]
            self.discovered_names = tuple(dict.fromkeys((*self.discovered_names, *names)))

    def _inbox(self, event: Event) -> None:
        if isinstance(event, InboxQueued) or (
            isinstance(event, (TaskFinished, TaskLost)) and not event.awaited
        ):
            self.inbox[event.seq] = event
        elif isinstance(event, (InboxClaimed, InboxDropped)):
            self.inbox.pop(event.item, None)
        if event.type == "user/message":
            self.prompted = True
        if event.sources and event.type in ("user/message", "attachment"):
            for seq in event.sources:  # the surface event that cites an item is the claim (F6.4)
                self.inbox.pop(seq, None)


def calls_of(answer: AssistantMessage) -> list[ToolCall]:
    """Return the tool/call events of an answer: they follow from its blocks and
    `meta.bad_inputs`."""
    bad = answer.meta.get("bad_inputs", {})
    return [
        ToolCall(
            id=use.id,
            name=use.name,
            input=use.input,
            input_hash=input_hash(use.input),
            bad_input=bad.get(use.id),
        )
        for use in answer.content
        if isinstance(use, ToolUse)
    ]


def input_hash(value: Mapping[str, Any]) -> str:
    """Return the first 32 hex digits of the SHA-256 of an input: key order does not matter."""
    return hashlib.sha256(canonical(dict(value))).hexdigest()[:32]


def urgent(state: State) -> bool:
    """Tell whether an item waits that keeps a turn going; ends of tasks alone do not (F6.6)."""
    return any(getattr(event, "priority", "later") != "later" for event in state.inbox.values())


_ORDER = {"now": 0, "next": 1, "later": 2}


def inbox_order(state: State) -> list[Event]:
    """Return the waiting items: now, next, later; inside one priority by seq (F6.5)."""
    items = state.inbox.values()
    return sorted(items, key=lambda e: (_ORDER[getattr(e, "priority", "later")], e.seq))
