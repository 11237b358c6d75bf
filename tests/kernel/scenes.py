"""Scenes: a model inside a real kernel that starts agents which take a while, and three scenarios.

May not look into the kernel: what a scene gives back is the session as another process reads it.
"""

from __future__ import annotations

import time
from typing import Any

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    RequestContext,
    TaskFinished,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import text_of
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.replay import requests, verify
from agent_kernel.core.session import Session
from agent_kernel.core.validate import validate_messages
from tests.kernel.live import Live, until

PROFILE = ModelProfile("scripted")
# A child answers after TAKES seconds; the main agent by the word its prompt holds.
MODEL = """
import asyncio, json
from agent_kernel.core.messages import Text, ToolUse
from agent_kernel.kernel import build
from agent_kernel.providers import scripted
TAKES, COUNT = {takes}, [0]
async def model(request):
    said = json.loads(request.prefix)["messages"]
    users = [m["content"] for m in said if m["role"] == "user"]
    prompts = [b["text"] for blocks in users for b in blocks if b["type"] == "text"]
    last = said[-1]["content"]
    COUNT[0] += 1
    if any("CHILD" in text for text in prompts):
        await asyncio.sleep(TAKES)
        return "The child found 42."
    if any(b["type"] == "tool_result" and "async_launched" in str(b) for b in last):
        if any("stream" in text for text in prompts):
            words = Text("word " * int(TAKES * 2 * 20 * 24 / 5))
            return [words, ToolUse(f"toolu_look{{COUNT[0]:04d}}", "glob", {{"pattern": "*.none"}})]
        return "It runs."
    text = json.dumps(last)
    if "story" in text:
        return "word " * 200
    if "task-notification" in text:
        return "The agent is done: 42."
    if "spawn" in text:
        return [ToolUse(f"toolu_spawn{{COUNT[0]:04d}}", "agent",
                        {{"prompt": "CHILD work", "description": "count things"}})]
    return "Nothing to do."
PROVIDER = scripted(model, delay=0.05)
build.provider_of = lambda *_, **_more: PROVIDER
"""


def begin(k: Live, takes: float) -> None:
    """Give the kernel the model whose child agents take so many seconds."""
    k.ok(MODEL.format(takes=takes))


def fresh(k: Live, wake: str) -> None:
    """Begin a new session with this setting of `wake`."""
    k.ok(f"%agent new\n%agent wake {wake}")


def newest(k: Live) -> Session:
    """Return the session written last."""
    logs = sorted(k.folder.glob("*.agent*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return Session.open(logs[-1])


def ended(k: Live, turns: int, seconds: float) -> Session:
    """Return the session as soon as so many turns of the main agent have ended."""

    def done() -> bool:
        ends = [e for e in newest(k).events if isinstance(e, TurnEnd) and e.agent == "main"]
        return len(ends) >= turns

    until(done, seconds)
    time.sleep(0.3)
    return newest(k)


def busy(k: Live, takes: float) -> Session:
    """A: the agent ends while the main agent streams."""
    fresh(k, "off")
    k.finish(
        k.start("%%agent\nspawn one, then stream", "a1", stdin=True), [], timeout=60 + 9 * takes
    )
    return newest(k)


def idle(k: Live, takes: float) -> Session:
    """B: the agent ends while the notebook is idle and `wake` is auto."""
    fresh(k, "auto")
    k.finish(k.start("%%agent\nspawn one", "b1", stdin=True), [])
    return ended(k, 2, 60 + 9 * takes)


def both(k: Live, takes: float) -> Session:
    """C: the agent ended, and then the person writes."""
    fresh(k, "off")
    k.finish(k.start("%%agent\nspawn one", "d1", stdin=True), [])
    until(lambda: any(isinstance(e, TaskFinished) for e in newest(k).events), 60 + 9 * takes)
    k.finish(k.start("%%agent\nand a new message", "d2", stdin=True), [])
    return newest(k)


def check(session: Session) -> tuple[TaskFinished, Attachment]:
    """Check what holds in every scene: one notice, valid requests; return end and notice."""
    ends = [e for e in session.events if isinstance(e, TaskFinished)]
    notices = [e for e in session.events if isinstance(e, Attachment) and e.kind == "notification"]
    assert len(ends) == 1 and len(notices) == 1, (ends, notices)
    assert notices[0].sources == (ends[0].seq,)
    sent = list(requests(session.events))
    told = sum(b"<task-notification>" in made.body for _, made in sent)
    assert told >= 1
    for _, made in sent:
        assert not validate_messages(made.messages, PROFILE), made
    assert verify(session.events, session.log.loaded.findings).ok
    return ends[0], notices[0]


def of(session: Session, kind: type, agent: str = "main") -> list[Any]:
    """Return the events of one kind and agent."""
    return [e for e in session.events if isinstance(e, kind) and e.agent == agent]


def check_busy(session: Session) -> None:
    """A: queued while the stream ran, told at the next step; the running request untouched."""
    end, notice = check(session)
    asked, answers = of(session, RequestContext), of(session, AssistantMessage)
    assert asked[1].seq < end.seq < answers[1].seq < notice.seq < asked[2].seq
    assert len(of(session, TurnStart)) == 1
    assert "42" in text_of(answers[-1].content)


def check_idle(session: Session) -> None:
    """B: one turn that nobody typed, begun after the end, with the notice alone."""
    end, notice = check(session)
    first, second = of(session, TurnStart)
    assert (first.source, second.source) == ("cell", "notification")
    assert of(session, TurnEnd)[0].seq < end.seq < second.seq < notice.seq
    assert not [e for e in of(session, UserMessage) if e.turn == second.turn]
    assert [e.reason for e in of(session, TurnEnd)] == ["completed", "completed"]


def check_both(session: Session) -> None:
    """C: the person's words first, then the notice, in one request."""
    end, notice = check(session)
    words = of(session, UserMessage)[1]
    (asked,) = [e for e in of(session, RequestContext) if e.turn == words.turn]
    assert end.seq < words.seq < notice.seq < asked.seq
    body = list(requests(session.events))[-1][1].body.decode()
    assert body.index("and a new message") < body.index("Runtime notice, not a message")
