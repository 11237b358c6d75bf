"""Edits: a branch whose first event puts other content in the place of one the model saw.

May not change the log it branches from, and may change nothing of an event but its content.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from agent_kernel.core.branches import fork_header, fork_log
from agent_kernel.core.events import (
    AssistantMessage,
    Event,
    Replace,
    SessionHeader,
    StepEnd,
    SurfaceEvent,
    ToolCall,
    ToolResultEvent,
    UserMessage,
)
from agent_kernel.core.messages import Block, Json, Text, ToolUse, Usage, blocks_of, text_of
from agent_kernel.core.session import Session, new_session_id
from agent_kernel.core.surface import fold


class EditError(ValueError):
    """What cannot be edited: names the seq, why, and what to do; nothing was written."""


def target(events: Sequence[Event], seq: int) -> tuple[SurfaceEvent, str]:
    """Return the event an edit of `seq` replaces, and the id of the call it is about or "".

    A tool/call stands for its place in the answer that made it. Raises EditError for any other
    event that the model did not see as a message, an answer or a result.
    """
    found = next((event for event in events if event.seq == seq), None)
    if isinstance(found, ToolCall):
        holders = [e for e in events if isinstance(e, AssistantMessage) and e.seq < seq]
        made = next((e for e in reversed(holders) if _use(e, found.id) is not None), None)
        if made is not None:
            return made, found.id
    if isinstance(found, (UserMessage, AssistantMessage, ToolResultEvent)):
        return found, found.id if isinstance(found, ToolResultEvent) else ""
    what = f"a {found.type}" if found is not None else "not in the log"
    raise EditError(
        f"seq {seq} is {what}; only a message, an answer, a call or a result can be edited"
    )


def text_at(events: Sequence[Event], seq: int) -> str | Json:
    """Return what an edit of `seq` would replace: its text, or the input of a call."""
    node, call = target(events, seq)
    if isinstance(node, AssistantMessage) and call:
        use = _use(node, call)
        assert use is not None
        return dict(use.input)
    return text_of(node.content)  # type: ignore[attr-defined]


def edit(
    session: Session, seq: int, content: str | Json | Sequence[Block], *, name: str | None = None
) -> Session:
    """Return a new branch where the event `seq` has other `content`, to be gone on from there.

    A dict is a call's input; a text takes the place of the texts of a message and leaves its other
    blocks. The prefix costs no request: it is read from the parent. Raises EditError, ValueError
    on a name taken.
    """
    node, call = target(session.events, seq)
    if isinstance(node, AssistantMessage) and (bool(call) != isinstance(content, dict)):
        raise EditError(
            f"seq {seq} is edited by {'its input as a JSON object' if call else 'text'}"
        )
    at = _cut(session.events, node)
    seen = fold([event for event in session.events if event.seq <= at], node.agent)
    if node.seq not in seen.seqs:
        raise EditError(f"seq {seq} was hidden from the model by then; edit what took its place")
    made = changed(node, call, content)
    log = fork_log(session.log, at, name, session.folder)
    branch = Session(log, notebook=session.notebook)
    origin = {**fork_header(session.log, session.id, at), "edited": node.seq}
    now = round(time.time(), 3)
    header = SessionHeader(
        session=new_session_id(now), created=now, notebook=session.notebook, forked_from=origin
    )
    branch.append(header)
    branch.append(made, agent=node.agent)
    for agent in branch.agents:
        if agent != node.agent or not isinstance(node, AssistantMessage):
            branch.answer_open_calls("forked before this call returned", agent)
    return branch


def _cut(events: Sequence[Event], node: SurfaceEvent) -> int:
    """Return the seq after which the branch begins: at the event itself, for a result at the last
    of its batch, so that its neighbours keep theirs."""
    last = node.seq
    if not isinstance(node, ToolResultEvent):
        return last
    for event in events:
        if event.seq > node.seq and event.agent == node.agent:
            if isinstance(event, (StepEnd, AssistantMessage)):
                break
            if isinstance(event, ToolResultEvent) and event.replaces is None:
                last = event.seq
    return last


def changed(node: SurfaceEvent, call: str, content: str | Json | Sequence[Block]) -> SurfaceEvent:
    """Return the event that takes the place of `node`: the same but for its content, uncounted."""
    held: Sequence[Block] = node.content  # type: ignore[attr-defined]
    if isinstance(content, dict):
        new = tuple(
            ToolUse(block.id, block.name, content)
            if isinstance(block, ToolUse) and block.id == call
            else block
            for block in held
        )
    elif isinstance(content, str):
        new = _with_text(held, content)
    else:
        new = tuple(content)
    meta = {**getattr(node, "meta", {}), "edited": node.seq, "by": "person"}
    meta.pop("bad_inputs", None)
    change: Json = {
        "content": new,
        "seq": -1,
        "time": 0.0,
        "sources": (node.seq,),
        "replaces": Replace(first=node.seq, last=node.seq),
    }
    if "meta" in type(node).model_fields:
        change["meta"] = meta
    if isinstance(node, AssistantMessage):
        change["usage"] = Usage()  # paid for once, in the parent
    return node.model_copy(update=change)


def _with_text(held: Sequence[Block], text: str) -> tuple[Block, ...]:
    """Return the blocks with one text in the place of the first of theirs, the others kept."""
    first = next((at for at, block in enumerate(held) if isinstance(block, Text)), 0)
    rest = [block for block in held[first:] if not isinstance(block, Text)]
    return (*held[:first], *blocks_of(text), *rest)


def _use(answer: AssistantMessage, call: str) -> ToolUse | None:
    uses = (block for block in answer.content if isinstance(block, ToolUse))
    return next((use for use in uses if use.id == call), None)
