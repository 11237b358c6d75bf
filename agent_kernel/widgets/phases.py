"""Phases: which of seven a step of a turn is: understand, look up, plan, check risk, confirm, act,
summarise (features.md F12.7).

May not guess what a step meant: it is read off the calls, the decisions and the final answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_kernel.core.events import (
    AssistantMessage,
    Event,
    StepStart,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolStart,
)
from agent_kernel.core.messages import ToolUse

PHASES = ("understand", "look up", "plan", "check risk", "confirm", "act", "summarise")
_LOOKS = frozenset(
    (
        *("read", "glob", "grep", "lsp", "recall_history", "concept_search", "tool_search"),
        *("web_search", "web_fetch", "skill", "task_output", "sql"),
    )
)
_TOLD = frozenset(("plan", "check risk", "confirm"))  # a turn without them needs no line
_LEVELS = frozenset(("", "low", "medium", "none"))


def of_steps(events: Sequence[Event], agent: str = "main") -> list[set[str]]:
    """Return the phases of each step of a turn of `agent`, in order."""
    steps: list[set[str]] = []
    calls: dict[str, ToolCall] = {}
    for event in events:
        if event.agent != agent:
            continue
        if isinstance(event, StepStart):
            steps.append({"understand"} if not steps else set())
        elif isinstance(event, ToolCall):
            calls[event.id] = event
        if steps and (phase := _phase(event, calls)):
            steps[-1].add(phase)
    return steps


def _phase(event: Event, calls: dict[str, ToolCall]) -> str:
    match event:
        case ToolAsk() if str(event.risk or "").lower() not in _LEVELS:
            return "check risk"
        case ToolDecision(by="person"):
            return "confirm"
        case ToolStart() if event.id in calls:
            return _of_call(calls[event.id])
        case AssistantMessage() if not any(isinstance(b, ToolUse) for b in event.content):
            return "summarise" if event.content else ""
    return ""


def _of_call(call: ToolCall) -> str:
    given = call.input
    if call.name == "todo" or (call.name == "ask" and given.get("kind") == "plan"):
        return "plan"
    if call.name == "data_risk":
        return "check risk"
    if call.name == "ask":
        return "confirm"
    looks = call.name == "notebook" and given.get("action") in ("list", "read")
    return "look up" if looks or call.name in _LOOKS else "act"


def line(events: Sequence[Event], agent: str = "main") -> str:
    """Return `1 understand, look up · 2-3 plan · …`; "" where nothing was planned or confirmed."""
    steps = of_steps(events, agent)
    if not any(step & _TOLD for step in steps):
        return ""
    parts: list[str] = []
    first = 0
    for at, step in enumerate(steps):
        if at + 1 < len(steps) and steps[at + 1] == step:
            continue
        words = ", ".join(phase for phase in PHASES if phase in step)
        number = str(at + 1) if at == first else f"{first + 1}-{at + 1}"
        parts += [f"{number} {words}"] if words else []
        first = at + 1
    return "Steps: " + " · ".join(parts)
