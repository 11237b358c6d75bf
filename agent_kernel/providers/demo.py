"""Demo: answers by fixed rules, without a language model, through real tool calls.

May not run a tool, keep state or pretend: it says what it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import Any

from agent_kernel.core.messages import Json, Message, Usage, canonical, message_of
from agent_kernel.core.model import Done, Endpoint, ModelInfo, ModelProfile, Request, StreamEvent
from agent_kernel.providers.demo_intents import chinese, intents_of
from agent_kernel.providers.demo_more import MAKES, unknown_text
from agent_kernel.providers.demo_plans import Call, Plan, Scene
from agent_kernel.providers.demo_summary import asks_for_summary, summary
from agent_kernel.providers.demo_transcript import Step, Transcript, seed_of, transcript_of
from agent_kernel.providers.endpoints import DEMO
from agent_kernel.providers.scripted import events_of

MODEL = "demo"
FOOTER = "demo provider: fixed rules, no language model"
PROFILE = ModelProfile(MODEL, window=200_000, max_output=8_192, assumed=False)
_KEPT = 8  # prefixes remembered, so that agents that take turns each find their own


def answer(request: Request) -> Message:
    """Return the demo's message: a pure function of the request."""
    made = demo_server_answer(json.loads(request.prefix))
    return message_of({"role": "assistant", "content": made["content"]})


def demo_server_answer(body: Json) -> Json:
    """Return the same message for a POST /v1/messages body: MessagesServer's `answer`."""
    text, calls = _decide(body)
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    seed = seed_of(body)
    for at, call in enumerate(calls):
        id = f"toolu_{seed[:20]}{at:02d}"
        content.append({"type": "tool_use", "id": id, "name": call.name, "input": call.input})
    return {"content": content, "stop_reason": "tool_use" if calls else "end_turn"}


def _decide(body: Json) -> tuple[str, list[Call]]:
    seen = transcript_of(body)
    if asks_for_summary(seen.last_text):
        return summary(body), []
    scene = Scene(seen, chinese(seen.prompt), path=seen.last_table)
    if seen.answered and seen.notices:
        return _noticed(scene, seen), []
    text, calls = _drive(scene, seen)
    if calls:
        missing = sorted({c.name for c in calls} - set(seen.tools)) if seen.tools else []
        if missing:
            said = f"the tool {missing[0]!r} is not offered here"
            return scene.say(f"I cannot: {said}.", f"我做不到：没有工具 {missing[0]!r}。"), []
        words = " ".join(call.words for call in calls if call.words)
        return words, calls
    notes = _noticed(scene, seen) if seen.notices else ""
    return "\n\n".join(part for part in (text, notes) if part), []


def _drive(scene: Scene, seen: Transcript) -> tuple[str, list[Call]]:
    """Replay the plans over the steps of this turn: the next calls, or the final words."""
    intents = intents_of(seen.prompt)
    if not intents:
        return unknown_text(scene), []
    left = list(seen.steps)
    for intent in intents:
        said, calls = _run(MAKES[intent.kind](scene, intent), left)
        if calls:
            return "", calls
        scene.said.append(said)
    return "\n\n".join(scene.said), []


def _run(plan: Plan, left: list[Step]) -> tuple[str, list[Call]]:
    """Feed a plan the results it already has; returns its words, or the calls it waits for."""
    try:
        calls = next(plan)
        while True:
            if len(left) < len(calls):
                return "", calls
            results = left[: len(calls)]
            del left[: len(calls)]
            calls = plan.send(results)
    except StopIteration as end:
        return str(end.value), []


def _noticed(scene: Scene, seen: Transcript) -> str:
    lines = []
    for note in seen.notices:
        what = note.get("summary") or f"task {note.get('task-id', '')}"
        line = scene.say(f"Background: {what}.", f"后台：{what}。")
        result = note.get("result", "")
        lines.append(f"{line}\n\n{result}" if result else line)
    return "\n\n".join(lines)


@dataclass
class Demo:
    """The demo as a provider; `delay` seconds pass before each piece of text."""

    name: str = "demo"
    endpoint: Endpoint = DEMO
    delay: float = 0.0
    _seen: list[bytes] = field(default_factory=list, init=False, repr=False)

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Yield the answer's events; its usage is estimated: a quarter of the JSON's length."""
        message = answer(request)
        usage = self._usage(request, message)
        calls = any(block.wire().get("type") == "tool_use" for block in message.content)
        done = Done(
            message,
            usage,
            "tool_use" if calls else "end_turn",
            f"demo_{request.digest[:12]}",
            model=MODEL,
            meta={"estimated": True},
        )
        for event in events_of(replace(done, ttft=0.0, seconds=0.0)):
            await asyncio.sleep(self.delay)
            yield event

    def _usage(self, request: Request, message: Message) -> Usage:
        prefix = request.prefix
        shared = max((_common(prefix, old) for old in self._seen), default=0)
        self._seen = [*self._seen[1 - _KEPT :], prefix]
        read = shared // 4
        output = len(canonical([block.wire() for block in message.content])) // 4
        return Usage(len(prefix) // 4 - read, output, read, 0, 0)

    async def count(self, request: Request) -> int | None:
        """Return a quarter of the body's length."""
        return len(request.prefix) // 4

    async def models(self) -> list[ModelInfo]:
        """Return the one model there is."""
        return [ModelInfo(MODEL, PROFILE.window, PROFILE.max_output)]


def _common(a: bytes, b: bytes) -> int:
    """The length of the common beginning, by halving: a compare is as fast as memory."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def provider(**keywords: Any) -> Demo:
    """Return the demo provider."""
    return Demo(**keywords)
