"""Batch: runs the calls of one answer: look up, judge, start, run, answer, in the model's order.

May not decide what is allowed: `permit` judges, a person is asked by the loop; a call runs only
once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_kernel.core.events import (
    Event,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolResultEvent,
    ToolStart,
)
from agent_kernel.core.hooks import Hook, HookSaid, run_hooks
from agent_kernel.core.messages import Block, Json, Text, blocks_of, text_of
from agent_kernel.core.session import Session
from agent_kernel.core.spill import spilled
from agent_kernel.core.state import CallState, input_hash
from agent_kernel.core.tool import Answer, Tool, ToolContext, ToolError, partition

MASK = "[redacted:"
NOT_KEPT = "its input held a secret that was not kept; make the call again"


@dataclass(frozen=True)
class Judgement:
    """What the guard says of a call; `parts`, `rule` and `stage` say why, `would_pass` what would
    allow it."""

    verdict: Literal["allow", "ask", "deny"]
    by: Literal["rule", "policy", "hook", "mode"] = "mode"
    rule: str | None = None
    stage: str | None = None
    parts: tuple[str, ...] = ()
    reason: str = ""
    risk: str | None = None
    would_pass: str | None = None


@dataclass(frozen=True)
class Reply:
    """A person's answer to an ask; `edited_input` is judged again before it may run."""

    verdict: Literal["allow", "deny"]
    by: Literal["person", "policy"] = "person"
    reason: str = ""
    edited_input: Json | None = None
    rule: str | None = None


@dataclass(frozen=True)
class Question:
    """One call that waits for a person: the call, what asked, and the hash an approval is bound
    to."""

    id: str
    name: str
    input: Json
    input_hash: str
    ask: ToolAsk


Permit = Callable[[Tool, Json, ToolContext], Judgement]
Asker = Callable[[Question], Awaitable[Reply]]


@dataclass(frozen=True)
class Runner:
    """All a batch needs beside the log: tools by name, the judge, the workspace, the roof's
    services.

    `begun` are calls that started while the answer streamed, by name and input hash.
    """

    agent: str
    tools: Mapping[str, Tool]
    permit: Permit
    workspace: Path
    services: Mapping[str, Any] = field(default_factory=dict)
    headless: bool = True
    on_progress: Callable[[str, str], None] = lambda _id, _text: None
    hooks: Sequence[Hook] = ()
    begun: dict[tuple[str, str], asyncio.Future[Any]] = field(default_factory=dict)

    def context(self, session: Session, call_id: str) -> ToolContext:
        """Return what the tool of this call may use."""
        return ToolContext(
            session,
            self.agent,
            call_id,
            self.workspace,
            lambda text: self.on_progress(call_id, text),
            self.services,
            self.headless,
        )


def next_batch(session: Session, runner: Runner) -> list[str]:
    """Return the ids of the calls that run next: neighbouring concurrent ones, or one alone
    (F4.13)."""
    open_calls = session.state(runner.agent).open_calls
    flags = [(state.call.id, _concurrent(state, runner)) for state in open_calls]
    batches = partition(flags)
    return batches[0][:10] if batches else []


def _concurrent(state: CallState, runner: Runner) -> bool:
    tool = runner.tools.get(state.call.name)
    if tool is None or state.call.bad_input is not None:
        return True  # answered with an error at once: it holds nobody up
    try:
        return tool.is_concurrent(tool.parse(state.call.input))
    except ToolError:
        return True


async def run_batch(session: Session, runner: Runner, ids: Sequence[str]) -> None:
    """Judge and run the calls `ids`, results logged in the model's order; stop where a person is
    asked.

    Raises what a tool raises that is not a ToolError, after its neighbours were cancelled.
    """
    states = [session.state(runner.agent).calls[i] for i in ids]
    for state in states:
        if state.decision is None and state.result is None:
            _decided(session, runner, await _judge(session, runner, state))
        elif state.decision is not None and state.decision.verdict == "deny" and not state.result:
            # The decision was the last line of a torn write: a denied call never runs.
            session.append(denied(state.call.id, state.decision.reason), agent=runner.agent)
        elif not state.result and not state.started and _given(session, state) is None:
            session.append(_error(state.call.id, NOT_KEPT, "secret"), agent=runner.agent)
    if any(s.ask and s.decision is None and s.result is None for s in states):
        return
    ready = [s for s in states if s.result is None and s.started is None]
    if not ready:
        return
    session.append(*(_start(s) for s in ready), agent=runner.agent)
    session.live_calls.update(s.call.id for s in ready)
    await session.log.commit()
    await _run_all(session, runner, ready)


def _decided(session: Session, runner: Runner, events: Sequence[Event]) -> None:
    """Append what was decided; an edited input the log masks is kept for this process alone."""
    for given, kept in zip(events, session.append(*events, agent=runner.agent), strict=True):
        if isinstance(given, ToolDecision) and given.edited_input is not None:
            session.true_inputs.pop(given.id, None)
            if isinstance(kept, ToolDecision) and kept.edited_input != given.edited_input:
                session.true_inputs[given.id] = given.edited_input


def _given(session: Session, state: CallState) -> Json | None:
    """Return the input a call is run with, None when it held a secret that was not kept."""
    edited = state.decision.edited_input if state.decision else None
    logged = edited if edited is not None else state.call.input
    if state.call.id in session.true_inputs:
        return session.true_inputs[state.call.id]
    return None if MASK in json.dumps(logged) else logged


def _start(state: CallState) -> ToolStart:
    edited = state.decision.edited_input if state.decision else None
    return ToolStart(
        id=state.call.id, input_hash=input_hash(edited) if edited else state.call.input_hash
    )


async def _judge(session: Session, runner: Runner, state: CallState) -> list[Event]:
    """Return the events that say what becomes of a call: an error result, a decision, or an ask."""
    call = state.call
    tool = callable_tool(session, runner, call.name)
    if not isinstance(tool, Tool):
        return [_error(call.id, *tool)]
    if call.bad_input is not None:
        return [_error(call.id, call.bad_input, "bad_input")]
    given = _given(session, state)
    if given is None:
        return [_error(call.id, NOT_KEPT, "secret")]
    try:
        tool.parse(given)
    except ToolError as error:
        return [_error(call.id, str(error), "bad_input")]
    facts: Json = {"tool_name": call.name, "tool_input": given, "tool_use_id": call.id}
    said = await run_hooks(
        session, runner.agent, runner.hooks, "PreToolUse", facts, subject=call.name, id=call.id
    )
    return _permitted(session, runner, tool, call, given, said)


def callable_tool(session: Session, runner: Runner, name: str) -> Tool | tuple[str, str]:
    """Return the tool of a call, or why the model may not call it now and the kind of error."""
    tool = runner.tools.get(name)
    if tool is None:
        resident = sorted(each.name for each in runner.tools.values() if not each.deferred)
        return f"there is no tool {name!r}; the tools are: {', '.join(resident)}", "unknown_tool"
    on = session.enabled.get(name)
    if on is False:
        return f"{name!r} was switched off by the person; go on without it", "switched_off"
    if tool.deferred and not on and name not in session.state(runner.agent).discovered_names:
        how = f"tool_search(query='select:{name}') loads it"
        return f"{name!r} is not loaded yet: {how}; call it in your next step", "not_loaded"
    return tool


def _permitted(
    session: Session, runner: Runner, tool: Tool, call: ToolCall, given: Json, hook: HookSaid
) -> list[Event]:
    """Return what the judge says once the hooks have spoken; they only narrow."""
    if hook.verdict == "deny":
        return _verdict(call.id, Judgement("deny", by="hook", stage="hook", reason=hook.reason))
    given = hook.input if hook.input is not None else given
    try:
        parsed = tool.parse(given)
    except ToolError as error:
        return [_error(call.id, f"a hook gave another input: {error}", "bad_input")]
    judged = runner.permit(tool, given, runner.context(session, call.id))
    if judged.verdict == "allow" and hook.verdict == "ask":
        judged = Judgement("ask", by="hook", stage="hook", reason=hook.reason)
    lost = (call.name, call.input_hash) in session.state(runner.agent).unknown
    if judged.verdict == "allow" and lost and not tool.is_read_only(parsed):
        why = "the same call had begun before and nobody knows its outcome: look first"
        judged = Judgement("ask", by="policy", stage="repeat", reason=why)
    if hook.input is not None and judged.verdict == "ask":
        why = f"a hook changed the input, and this would have to be asked: {judged.reason}"
        judged = Judgement("deny", by="hook", stage="hook", reason=why)
    return _verdict(call.id, judged, hook.input)


def _verdict(call_id: str, said: Judgement, edited: Json | None = None) -> list[Event]:
    if said.verdict == "ask":
        ask = ToolAsk(
            id=call_id,
            rule=said.rule,
            stage=said.stage,
            parts=said.parts,
            reason=said.reason,
            risk=said.risk,
        )
        return [ask]
    decision = ToolDecision(
        id=call_id,
        verdict=said.verdict,
        by=said.by,
        rule=said.rule,
        stage=said.stage,
        parts=said.parts,
        reason=said.reason,
        would_pass=said.would_pass,
        edited_input=edited,
    )
    if said.verdict == "allow":
        return [decision]
    return [decision, denied(call_id, said.reason)]


def denied(call_id: str, reason: str) -> ToolResultEvent:
    """Return the error result of a call that was not allowed."""
    text = f"Denied, nothing was run: {reason}" if reason else "Denied, nothing was run."
    return _error(call_id, text, "denied")


def decide(session: Session, runner: Runner, question: Question, reply: Reply) -> None:
    """Log a person's answer; an edited input is judged again and may be denied.

    The person who edits it decides it: what would only be asked again is allowed.
    """
    waited = max(0.0, round(time.time() - question.ask.time, 3))
    decision = ToolDecision(
        id=question.id,
        verdict=reply.verdict,
        by=reply.by,
        rule=reply.rule,
        stage=question.ask.stage,
        reason=reply.reason,
        edited_input=reply.edited_input,
        waited=waited,
    )
    if reply.verdict == "deny":
        session.append(decision, denied(question.id, reply.reason), agent=runner.agent)
        return
    if reply.edited_input is not None:
        tool = runner.tools[question.name]
        try:
            tool.parse(reply.edited_input)
        except ToolError as error:
            session.append(_error(question.id, str(error), "bad_input"), agent=runner.agent)
            return
        said = runner.permit(tool, reply.edited_input, runner.context(session, question.id))
        if said.verdict == "deny":
            session.append(*_verdict(question.id, said), agent=runner.agent)
            return
    _decided(session, runner, [decision])


async def _run_all(session: Session, runner: Runner, ready: Sequence[CallState]) -> None:
    tasks = [asyncio.ensure_future(_run_one(session, runner, state)) for state in ready]
    try:
        for task in tasks:
            session.append(await task, agent=runner.agent)
        await session.log.commit()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session.live_calls.difference_update(s.call.id for s in ready)


async def _run_one(session: Session, runner: Runner, state: CallState) -> ToolResultEvent:
    call, tool = state.call, runner.tools[state.call.name]
    edited = state.decision.edited_input if state.decision else None
    given = _given(session, state)
    assert given is not None, "run_batch answers a call whose input was not kept"
    context = runner.context(session, call.id)
    begun = runner.begun.pop((call.name, call.input_hash), None) if edited is None else None
    began = time.monotonic()
    parsed = tool.parse(json.loads(json.dumps(given)))  # a copy: what is logged cannot be changed
    try:
        async with asyncio.timeout(tool.timeout):
            answer = Answer.of(await (begun or tool.run(parsed, context)))
    except ToolError as error:
        answer = Answer(blocks_of(str(error)), {"error_kind": "tool", **error.meta}, is_error=True)
    except TimeoutError:
        text = f"{call.name} was stopped after {tool.timeout:g} s; its effects until then remain"
        answer = Answer(blocks_of(text), {"error_kind": "timeout"}, is_error=True)
    meta: Json = {
        "seconds": round(time.monotonic() - began, 3),
        "side_effect": not tool.is_read_only(parsed),
        **answer.meta,
    }
    if begun is not None:
        meta["early"] = True
    if edited is not None:
        meta["edited_by"] = state.decision.by if state.decision else "person"
    content = spilled(session, answer.content, meta) if tool.spill else answer.content
    content = await _after(session, runner, state, given, content, meta)
    return ToolResultEvent(id=call.id, content=content, is_error=answer.is_error, meta=meta)


async def _after(
    session: Session,
    runner: Runner,
    state: CallState,
    given: Json,
    content: tuple[Block, ...],
    meta: Json,
) -> tuple[Block, ...]:
    """Return a result with what hooks make of it: another text, or text added to it."""
    call = state.call
    facts = {"tool_name": call.name, "tool_input": given, "tool_use_id": call.id}
    said = await run_hooks(
        session,
        runner.agent,
        runner.hooks,
        "PostToolUse",
        {**facts, "tool_response": text_of(content)},
        subject=call.name,
        id=call.id,
    )
    if said.output is not None:
        content, meta["replaced_by"] = blocks_of(said.output), "hook"
    notes = [*state.notes, *([said.reason] if said.verdict == "deny" else ())]
    added = tuple(Text(f"[a hook of the person says: {note}]") for note in dict.fromkeys(notes))
    return (*content, *added)


def _error(call_id: str, text: str, kind: str) -> ToolResultEvent:
    meta: Json = {"error_kind": kind, "side_effect": False}
    return ToolResultEvent(id=call_id, content=blocks_of(text), is_error=True, meta=meta)
