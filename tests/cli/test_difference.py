"""Difference: where two requests part, what caused it and what the changed prefix costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.core.events import (
    AssistantMessage,
    CompactionEnd,
    CompactionStart,
    Event,
    Replace,
    RequestContext,
    RequestHeader,
    SessionHeader,
    StepStart,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Text, Usage
from agent_kernel.core.session import Session

MODEL = "claude-opus-4-5"
TOOL = {"name": "read", "description": "Read.", "input_schema": {"type": "object"}}
LONG = "word " * 800


def header(model: str = MODEL, tools: tuple[Any, ...] = (TOOL,), said: str = "Be brief.") -> Event:
    system = ({"name": "rules", "text": said},)
    return RequestHeader(
        reason="change", provider="anthropic", model=model, params={}, system=system, tools=tools
    )


def user(text: str, place: Replace | None = None) -> UserMessage:
    made = UserMessage(content=(Text(text),))
    if place is None:
        return made
    sources = tuple(sorted({place.first, place.last}))
    return made.model_copy(update={"replaces": place, "sources": sources})


class Writer:
    """A log by hand: each `ask` is a turn of its own with one request."""

    def __init__(self, path: Path) -> None:
        self.session = Session.open(path)
        if not self.session.events:
            self.session.append(SessionHeader(session="hand", created=1_796_000_000.0))
        self.head = -1

    def ask(self, *events: Event) -> None:
        self.session.append(TurnStart(text="ask", source="api"))
        stored = self.session.append(*events, StepStart())
        self.head = next((e.seq for e in stored if isinstance(e, RequestHeader)), self.head)
        nodes = self.session.surface().nodes
        context = RequestContext(
            digest="0" * 32,
            header=self.head,
            max_tokens=100,
            surface_generation=self.session.surface().generation,
            first_seq=nodes[0].seq,
            last_seq=nodes[-1].seq,
            messages=len(nodes),
            cache_breakpoints=(),
            joined=(),
        )
        self.session.append(context)
        self.session.append(
            AssistantMessage(content=(Text("Yes."),), model=MODEL, usage=Usage(input=1, output=1))
        )


def changed(log: Writer, kind: str) -> tuple[Event, ...]:
    first = log.session.surface().nodes[0].seq
    last = log.session.surface().nodes[-1].seq
    if kind == "tool":
        return (header(tools=(TOOL, {**TOOL, "name": "write"})), user("more"))
    if kind == "model":
        return (header(model="claude-sonnet-4-5"), user("more"))
    if kind == "compaction":
        start = CompactionStart(
            compaction_id="c1", trigger="hard", strategies=("auto",), generation=0, tokens={}
        )
        end = CompactionEnd(compaction_id="c1", status="committed", generation=1)
        return (start, user("a summary", Replace(first=first, last=last)), end)
    return (user("another " + LONG, Replace(first=first, last=first)), user("more"))


@pytest.mark.parametrize(
    "kind, layer, cause",
    [
        ("tool", "in tools", "new system text, tools or parameters (seq "),
        ("model", "in settings", "new system text, tools or parameters (seq "),
        ("compaction", "in messages, message 0", "a compaction (seq "),
        ("edit", "in messages, message 0", "an edit: user/message seq "),
    ],
)
def test_layer_cause_and_dollars_of_a_changed_prefix_are_said(
    kind: str, layer: str, cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.agent.jsonl"
    log = Writer(path)
    log.ask(header(), user("first " + LONG))
    log.ask(*changed(log, kind))
    log.session.log.close()
    assert cli.main(["request", str(path), "2.1", "--diff", "1.1"]) == 0
    out = capsys.readouterr().out
    assert layer in out
    assert f"Cause: {cause}" in out
    (costs,) = [line for line in out.splitlines() if line.startswith("costs")]
    (anew,) = [line for line in out.splitlines() if line.startswith("written anew")]
    tokens = int("".join(filter(str.isdigit, anew)))
    write, read = (3.75, 0.3) if kind == "model" else (6.25, 0.5)  # a million, the list prices
    assert f"~${tokens * write / 1e6:.4f} to write" in costs
    assert f"~${tokens * read / 1e6:.4f} had the prefix held" in costs
