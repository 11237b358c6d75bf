"""Phases: a turn's steps are named after what they did, in the seven words of the mission."""

from __future__ import annotations

from typing import Any

from agent_kernel.core.events import (
    AssistantMessage,
    StepStart,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolResultEvent,
    ToolStart,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Text, ToolUse, Usage, blocks_of
from agent_kernel.core.session import Session
from agent_kernel.widgets import phases
from agent_kernel.widgets.bundle import mime_bundle
from agent_kernel.widgets.fold import fold_turn


def step(session: Session, *calls: tuple[str, dict[str, Any]], risk: str | None = None) -> None:
    """One step that asks for these calls; with `risk` the person is asked for each."""
    uses = tuple(ToolUse(f"toolu_{len(session.log)}_{n}", *call) for n, call in enumerate(calls))
    content = uses or (Text("Done."),)
    said = AssistantMessage(content=content, model="m", usage=Usage(), stop_reason="end_turn")
    session.append(StepStart(), said)
    for use in uses:
        session.append(ToolCall(id=use.id, name=use.name, input=use.input, input_hash="0"))
        if risk is not None:
            session.append(ToolAsk(id=use.id, risk=risk, reason="asked"))
            session.append(ToolDecision(id=use.id, verdict="allow", by="person"))
        session.append(ToolStart(id=use.id, input_hash="0"))
        session.append(ToolResultEvent(id=use.id, content=blocks_of("done")))


def test_a_turn_of_all_seven_shows_them_in_order() -> None:
    session = Session()
    session.append(TurnStart(text="drop it", source="cell"), UserMessage(content=blocks_of("drop")))
    step(session, ("read", {"path": "a.sql"}))
    step(session, ("grep", {"pattern": "x"}))
    step(session, ("glob", {"pattern": "*"}))
    step(session, ("todo", {"items": []}))
    step(session, ("data_risk", {"object": "t"}))
    step(session, ("bash", {"command": "drop"}), risk="deletes a table")
    step(session)
    found = [phase for each in phases.of_steps(session.events) for phase in phases.PHASES
             if phase in each]  # fmt: skip
    assert list(dict.fromkeys(found)) == list(phases.PHASES)
    line = phases.line(session.events)
    assert line == (
        "Steps: 1 understand, look up · 2-3 look up · 4 plan · 5 check risk"
        " · 6 check risk, confirm, act · 7 summarise"
    )
    shown = mime_bundle(fold_turn(session.events))
    assert line in shown["text/plain"] and "check risk, confirm, act" in shown["text/html"]


def test_a_turn_that_only_looked_has_no_such_line() -> None:
    session = Session()
    session.append(TurnStart(text="look", source="cell"), UserMessage(content=blocks_of("look")))
    step(session, ("read", {"path": "a"}))
    step(session)
    assert phases.line(session.events) == ""
