"""Calling: one request built from the log, sent, and its answer logged.

May not decide whether to call; text of a stream reaches the surface only as the finished message.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from agent_kernel.core.agent import Agent
from agent_kernel.core.compaction import (
    Asked,
    CompactionFailed,
    Outcome,
    Prepared,
    Strategy,
    Trigger,
    breaker_open,
    context_tokens,
)
from agent_kernel.core.early import begin, forget
from agent_kernel.core.events import (
    AssistantMessage,
    Event,
    RequestContext,
    RequestHeader,
    StreamAttempt,
    StreamRetry,
    StreamStall,
    SurfaceEvent,
    ToolCall,
)
from agent_kernel.core.limits import room
from agent_kernel.core.mending import after_compact, before_compact, tired
from agent_kernel.core.messages import Json, Message, ToolUse, Usage, block_of
from agent_kernel.core.model import (
    Attempt,
    BlockDone,
    Delta,
    Done,
    Mark,
    ModelProfile,
    ProviderError,
    Request,
    Retry,
    Stall,
    StreamEvent,
    ToolSchema,
    place_marks,
)
from agent_kernel.core.offer import offered
from agent_kernel.core.replay import fingerprint, with_instruction
from agent_kernel.core.session import Session
from agent_kernel.core.state import calls_of
from agent_kernel.core.surface import Surface, merged
from agent_kernel.core.transaction import Run
from agent_kernel.core.usage import METER, cost
from agent_kernel.core.validate import Violation, validate_messages

SUMMARY_SECONDS = 300.0  # a summary of 8,192 tokens takes 40 to 120 s


class ValidationError(ValueError):
    """A request the API would refuse: lists the violations; nothing was sent or appended."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        text = "; ".join(f"{v.rule} at message {v.message}: {v.text}" for v in violations[:5])
        super().__init__(f"the request breaks the Messages API's rules and was not sent: {text}")


def build(session: Session, agent: Agent) -> tuple[Request, RequestHeader, list[Violation]]:
    """Return the next request of `agent`, the header it needs, and what the API would refuse in
    it."""
    surface, state = session.surface(agent.id), session.state(agent.id)
    messages = surface.messages()
    tools = tuple(tool.schema for tool in offered(session, agent))
    system = agent.system or ()
    marks: tuple[Mark, ...] = ()
    if agent.provider.endpoint.cache_control:
        marks = place_marks(system, messages, _last_mark(state.context, surface.generation))
    wanted = min(state.wanted_max_tokens or agent.max_tokens, max(agent.profile.max_output, 1))
    request = Request(
        model=agent.model,
        messages=messages,
        system=system,
        tools=tools,
        max_tokens=room(session, agent, context_tokens(session, agent.id), wanted),
        params=agent.params,
        betas=agent.betas if agent.provider.endpoint.betas else (),
        marks=marks,
    )
    last = surface.nodes[-1] if surface.nodes else None
    paused = isinstance(last, AssistantMessage) and last.stop_reason == "pause_turn"
    violations = _violations(surface, agent.profile, messages, tools, paused)
    return request, _header(request, agent, tools), violations


def _violations(
    surface: Surface,
    profile: ModelProfile,
    messages: tuple[Message, ...],
    tools: tuple[ToolSchema, ...],
    paused: bool,
) -> list[Violation]:
    """Return what the API would refuse; messages found good before are not looked at again."""
    key = (surface.generation, profile, tuple(tool.name for tool in tools))
    good, count, ids = surface.checked
    if good != key:
        count, ids = 0, set()
    found = validate_messages(
        messages, profile, tools=tools, sendable=not paused, start=count, known_ids=ids
    )
    refused = [v for v in found if v.severity == "api"]
    if not refused:
        last = max(len(messages) - 1, 0)  # the last one may still grow
        for message in messages[count:last]:
            ids.update(block.id for block in message.content if isinstance(block, ToolUse))
        surface.checked = (key, last, ids)
    return refused


def _last_mark(context: RequestContext | None, generation: int) -> int | None:
    if context is None or context.surface_generation != generation:
        return None
    indexes = [mark[1] for mark in context.cache_breakpoints if mark[0] == "message"]
    return max(indexes, default=None)


def _header(request: Request, agent: Agent, tools: tuple[ToolSchema, ...]) -> RequestHeader:
    return RequestHeader(
        reason="initial",
        provider=agent.provider.name,
        model=request.model,
        params=request.params,
        system=tuple({"name": part.name, "text": part.text} for part in request.system),
        tools=tuple(tool.wire() for tool in tools),
        beta=request.betas,
    )


def _same(a: RequestHeader | None, b: RequestHeader) -> bool:
    return a is not None and all(
        getattr(a, key) == getattr(b, key)
        for key in ("provider", "model", "params", "system", "tools", "beta")
    )


async def call_model(session: Session, agent: Agent) -> None:
    """Send the next request of `agent` and log its answer; an overflow compacts and returns.

    Raises ValidationError before anything is sent, ProviderError when no answer came.
    """
    if agent.background is not None:
        agent.background.start(session, agent)
    request, header, violations = build(session, agent)
    if violations:
        raise ValidationError(violations)
    _log_request(session, agent, request, header)
    await session.log.commit()
    agent.partial.clear()
    forget(agent)
    try:
        async with aclosing(agent.provider.stream(request)) as stream:
            async for event in stream:
                _take(session, agent, event)
    except ProviderError as error:
        agent.partial.clear()
        forget(agent)
        if not error.overflow or not await _made_room(session, agent):
            raise


async def _made_room(session: Session, agent: Agent) -> bool:
    """Compact after an overflow, once a step; tell whether something got shorter."""
    if not agent.strategies or session.state(agent.id).overflows_in_step:
        return False
    return (await compact(session, agent, "overflow")).committed


async def compact(
    session: Session,
    agent: Agent,
    trigger: Trigger,
    *,
    span: tuple[int, int] | None = None,
    instructions: str | None = None,
    strategies: Sequence[Strategy] | None = None,
    use_model: bool = True,
    prepared: Prepared | None = None,
) -> Outcome:
    """Run one compaction of `agent`; its layers may ask the agent's own model when `use_model`.

    `prepared` was made before, in the background. Raises ValueError when `span` has no legal ends.
    """
    layers = agent.strategies if strategies is None else strategies
    if agent.background is not None and prepared is None and trigger in ("hard", "overflow"):
        prepared = await agent.background.take(session, agent)
    if prepared is not None:  # its span is as it was read: no cheaper layer goes first
        layers = [layer for layer in layers if layer.needs_model]
    instructions = await before_compact(session, agent, trigger, instructions)
    run = Run(session, agent.id, agent.profile, layers, trigger, span, instructions)
    run.model, run.marks, run.desk.prepared = agent.model, agent.marks, prepared
    if use_model and (trigger == "manual" or not breaker_open(session, agent.id)):

        async def ask(instruction: str, limit: int, left_out: int) -> Asked:
            name = run.compaction_id
            return await ask_apart(session, agent, name, instruction, limit, left_out)

        run.desk.ask = ask
    return await after_compact(session, agent, trigger, await run.commit())


async def ask_apart(
    session: Session,
    agent: Agent,
    compaction_id: str,
    instruction: str,
    max_tokens: int,
    left_out: int = 0,
) -> Asked:
    """Send the agent's own context and `instruction` behind it; the answer joins no surface.

    System, tools and messages are the bytes of the last request, so its cache is read, unless
    `left_out` leading surface events have no room. Raises ProviderError when no answer came,
    CompactionFailed("timeout") after SUMMARY_SECONDS.
    """
    request, header, _violations = build(session, agent)
    messages = request.messages
    if left_out:
        messages = merged(session.surface(agent.id).nodes[left_out:])
        request = replace(request, marks=())
    message = Message("user", instruction)
    request = replace(
        request,
        messages=with_instruction(messages, message),
        max_tokens=min(max_tokens, agent.profile.max_output),
    )
    apart = Apart(compaction_id, message, left_out)
    shared = not left_out and _same(session.state(agent.id).header, header)
    _log_request(session, agent, request, header, apart)
    await session.log.commit()
    began = time.monotonic()
    try:
        async with asyncio.timeout(SUMMARY_SECONDS):
            done = await _last(agent, request)
    except TimeoutError:
        text = f"no summary came within {SUMMARY_SECONDS:.0f} seconds"
        raise CompactionFailed("timeout", text) from None
    took = round(1000 * (time.monotonic() - began))
    usd = cost(done.model or agent.model, done.usage, session.events[-1].time)
    return Asked(done, request.digest, agent.provider.name, shared, usd, took)


async def _last(agent: Agent, request: Request) -> Done:
    """Return the one last event of a request's stream."""
    async with aclosing(agent.provider.stream(request)) as stream:
        async for event in stream:
            if isinstance(event, Done):
                return event
    raise ProviderError("protocol", "the stream of a summary ended without a message")


@dataclass(frozen=True)
class Apart:
    """What sets a compaction's own request apart from a turn's."""

    compaction_id: str
    instruction: Message
    left_out: int = 0


def _log_request(
    session: Session,
    agent: Agent,
    request: Request,
    header: RequestHeader,
    apart: Apart | None = None,
) -> None:
    surface, state = session.surface(agent.id), session.state(agent.id)
    events: list[Event] = []
    at = state.header.seq if state.header else -1
    if not _same(state.header, header):
        reason = "initial" if state.header is None else "change"
        at = session.log.next_seq
        events.append(header.model_copy(update={"reason": reason}))
    context = RequestContext(
        purpose="compaction" if apart else "turn",
        compaction_id=apart.compaction_id if apart else None,
        digest=request.digest,
        header=at,
        max_tokens=request.max_tokens,
        surface_generation=surface.generation,
        first_seq=surface.nodes[0].seq if surface.nodes else None,
        last_seq=surface.nodes[-1].seq if surface.nodes else None,
        messages=len(request.messages),
        tokens_estimated=context_tokens(session, agent.id),
        cache_breakpoints=tuple(tuple(mark.wire()) for mark in request.marks),
        window=agent.profile.window,
        joined=_joined(session, agent, events),
        instruction=apart.instruction.wire() if apart else None,
        left_out=apart.left_out if apart else 0,
    )
    session.append(*events, context, agent=agent.id)


def _joined(session: Session, agent: Agent, headers: list[Event]) -> tuple[tuple[int, str], ...]:
    """Return seq and fingerprint of what joined since the last request: how a later edit is
    found."""
    surface, last = session.surface(agent.id), session.state(agent.id).context
    new: list[SurfaceEvent] = []
    same = last is not None and last.surface_generation == surface.generation
    for node in reversed(surface.nodes):
        if last is not None and node.seq < last.seq:
            if same:
                break
            continue
        new.append(node)
    joined = [(node.seq, fingerprint(node)) for node in reversed(new)]
    joined += [(session.log.next_seq, fingerprint(header)) for header in headers]
    return tuple(joined)


def _take(session: Session, agent: Agent, event: StreamEvent) -> None:
    match event:
        case Attempt(n, why):
            agent.partial.clear()
            session.append(StreamAttempt(n=n, why=why), agent=agent.id)
        case Retry(n, error, status, wait, partial):
            retry = StreamRetry(n=n, error=error, status=status, wait=wait, partial=partial)
            session.append(retry, agent=agent.id)
            tired(session, agent)
        case Stall(seconds):
            session.append(StreamStall(seconds=seconds), agent=agent.id)
        case Delta(block, kind, text):
            held = agent.partial.setdefault(block, {"type": kind, "text": ""})
            held["text"] = held.get("text", "") + text
        case BlockDone(index, block_wire):
            agent.partial[index] = {"type": "done", "block": block_wire}
            begin(session, agent, block_wire)
        case Done():
            agent.partial.clear()
            _answer(session, agent, event)
    agent.on_stream(event)


def _answer(session: Session, agent: Agent, done: Done) -> None:
    bad = {each.id: each.why for each in done.bad_inputs}
    message = AssistantMessage(
        content=done.message.content,
        model=done.model or agent.model,
        usage=done.usage,
        stop_reason=done.stop_reason,
        request_id=done.request_id,
        ttft=done.ttft,
        seconds=done.seconds,
        meta={**done.meta, "bad_inputs": bad} if bad else done.meta,
    )
    calls = calls_of(message)
    forget(agent, calls)
    stored = session.append(message, *calls, agent=agent.id)
    for call, event in zip(calls, stored[1:], strict=True):
        if isinstance(event, ToolCall) and event.input != call.input:
            session.true_inputs[call.id] = call.input


def keep_partial(session: Session, agent: Agent) -> None:
    """Log the text of a stream that was interrupted; calls that never started are dropped from
    it."""
    forget(agent)
    blocks: list[Json] = []
    for _index, held in sorted(agent.partial.items()):
        if held["type"] == "done" and held["block"].get("type") in ("text", "thinking"):
            blocks.append(held["block"])
        elif held["type"] == "text" and held["text"]:
            blocks.append({"type": "text", "text": held["text"]})
    agent.partial.clear()
    if not any(block["type"] == "text" and block["text"] for block in blocks):
        return
    message = AssistantMessage(
        content=Message("assistant", [block_of(b) for b in blocks]).content,
        model=agent.model,
        usage=Usage(),
        stop_reason=None,
        interrupted=True,
        meta={"meter": METER},
    )
    session.append(message, agent=agent.id)
