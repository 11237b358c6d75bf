"""Claude: events of ours made from the lines of a Claude Code session: one code measures both.

May not repair a session: which lines count is said by the chain it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    SurfaceEvent,
    ToolResultEvent,
    UserMessage,
)
from agent_kernel.core.messages import Block, Text, Thinking, ToolUse, Usage, blocks_of

Json = Mapping[str, Any]
_NOT_SAID = (  # texts in a user line that no person wrote
    *("[Request interrupted by user", "<command-name>", "<command-message>", "<local-command-"),
    *(
        "<bash-input>",
        "<bash-std",
        "<task-notification>",
        "<system-reminder>",
        "Caveat: The messages",
    ),
)


class Made:
    """The events of one session so far; pieces of one response become one message."""

    def __init__(self) -> None:
        self.events: list[SurfaceEvent] = []
        self.times: list[float] = []
        self.messages: dict[str, int] = {}  # message id -> position of its event
        self.asked: dict[str, int] = {}
        self.answered: set[str] = set()

    def take(self, record: Json, time: float) -> None:
        """Add one line of the chain."""
        message = record.get("message")
        if not isinstance(message, Mapping):
            return
        if record.get("type") == "assistant":
            self._assistant(record, message, time)
        elif record.get("type") == "user":
            self._user(record, message, time)

    def _add(self, event: SurfaceEvent, time: float) -> int:
        self.events.append(event)
        self.times.append(time)
        return len(self.events) - 1

    def _assistant(self, record: Json, message: Json, time: float) -> None:
        if message.get("model") == "<synthetic>":
            return
        content = _blocks(message.get("content"))
        name = str(message.get("id") or record.get("uuid"))
        at = self.messages.get(name)
        if at is None:
            event = AssistantMessage.model_construct(
                type="assistant/message", content=content, model=str(message.get("model")),
                usage=Usage.of_api(message.get("usage")), meta={"id": name},
            )  # fmt: skip
            at = self.messages[name] = self._add(event, time)
        else:
            before = self.events[at]
            content = (*before.blocks(), *content)
            self.events[at] = before.model_copy(update={"content": content})
        for block in content:
            if isinstance(block, ToolUse):
                self.asked.setdefault(block.id, at)

    def _user(self, record: Json, message: Json, time: float) -> None:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        rest: list[Json] = []
        for block in blocks if isinstance(blocks, list) else ():
            if not isinstance(block, Mapping):
                continue
            if block.get("type") == "tool_result":
                self._result(block, time)
            else:
                rest.append(block)
        if rest:
            self._said(record, _blocks(rest), time)

    def _result(self, block: Json, time: float) -> None:
        name = str(block.get("tool_use_id"))
        if name not in self.asked or name in self.answered:
            return
        self.answered.add(name)
        event = ToolResultEvent.model_construct(
            type="tool/result", id=name, content=_blocks(block.get("content")),
            is_error=bool(block.get("is_error")), meta={},
        )  # fmt: skip
        self._add(event, time)

    def _said(self, record: Json, content: tuple[Block, ...], time: float) -> None:
        first = next((b.text for b in content if isinstance(b, Text)), "")
        if record.get("isCompactSummary"):
            event: SurfaceEvent = _attachment("summary", "summary", content)
        elif record.get("isMeta") or first.lstrip().startswith(_NOT_SAID):
            event = _attachment("reminder", "meta", content)
        else:
            event = UserMessage.model_construct(type="user/message", content=content, meta={})
        self._add(event, time)

    def numbered(self) -> tuple[list[SurfaceEvent], list[int]]:
        """Return the events with seqs from 0, and for each event taken the place it got.

        As the client sends them: thinking that nothing follows is dropped, and a call without a
        result is answered as interrupted.
        """
        out: list[SurfaceEvent] = []
        places: list[int] = []
        open_: list[str] = []
        for event, time in zip(self.events, self.times, strict=True):
            late = isinstance(event, ToolResultEvent) and event.id not in open_
            if isinstance(event, ToolResultEvent):
                open_ = [name for name in open_ if name != event.id]
            else:
                out += [_interrupted(name).model_copy(update={"time": time}) for name in open_]
                open_ = []
            places.append(len(out))
            if isinstance(event, AssistantMessage):
                content = _closed(event.content)
                event = event.model_copy(update={"content": content})
                open_ = [b.id for b in content if isinstance(b, ToolUse)]
            if event.blocks() and not late:
                out.append(event.model_copy(update={"time": time}))
        out += [_interrupted(name) for name in open_]
        return [e.model_copy(update={"seq": at}) for at, e in enumerate(out)], places


def _closed(content: tuple[Block, ...]) -> tuple[Block, ...]:
    while content and (
        isinstance(content[-1], Thinking) or content[-1].wire().get("type") == "redacted_thinking"
    ):
        content = content[:-1]
    return content


def _interrupted(name: str) -> ToolResultEvent:
    return ToolResultEvent.model_construct(
        type="tool/result", id=name, content=(Text("interrupted"),), is_error=True, meta={}
    )


def _attachment(
    kind: Literal["summary", "reminder"], label: str, content: tuple[Block, ...]
) -> Attachment:
    return Attachment.model_construct(
        type="attachment", kind=kind, label=label, content=content, meta={}, hidden=True
    )


def _blocks(content: Any) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),)
    items = content if isinstance(content, list) else ()
    return blocks_of(_clean(b) for b in items if isinstance(b, Mapping))


def _clean(block: Json) -> Json:
    """Return a block without fields the harness adds beside the API's."""
    return {key: value for key, value in block.items() if key != "caller"}
