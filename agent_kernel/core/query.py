"""Query: the loop. `next_action` says what comes next, `advance` does it once, `query` until the
end.

The log is the program counter: nothing the loop needs lives only in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_kernel.core import compaction
from agent_kernel.core.actions import Action, Ask, Attach, Call, Compact, Drain, End, RunBatch, Wait
from agent_kernel.core.agent import Agent, Limits
from agent_kernel.core.batch import Question, Reply, decide, next_batch, run_batch
from agent_kernel.core.calling import call_model, compact, keep_partial
from agent_kernel.core.events import (
    Attachment,
    Event,
    InboxClaimed,
    InboxQueued,
    StepEnd,
    StepStart,
    TurnReason,
    TurnStart,
    UserMessage,
)
from agent_kernel.core.messages import Block, Json, Usage, blocks_of, text_of
from agent_kernel.core.model import ProviderError
from agent_kernel.core.prompt import attachments_due
from agent_kernel.core.session import Session
from agent_kernel.core.state import State, inbox_order, urgent
from agent_kernel.core.tasks import inbox_event, lose_tasks
from agent_kernel.core.usage import cost


class TurnError(Exception):
    """A turn that ended as error: its text is one readable line."""


@dataclass(frozen=True)
class TurnResult:
    """How a turn ended: the answer's text, tokens of the turn, dollars (None = unknown price)."""

    turn: int
    reason: TurnReason
    answer: str
    usage: Usage
    steps: int
    detail: Json | str | None = None


# ---- what comes next: pure ----------------------------------------------------------------------


def next_action(session: Session, agent: Agent) -> Action:
    """Return what the loop does next: a pure function of the log and the agent's settings."""
    state = session.state(agent.id)
    if not state.turn_open:
        return End(None)
    if state.uncalled:
        return RunBatch(tuple(call.id for call in state.uncalled))
    if state.open_calls:
        return _next_call(session, agent, state)
    if not state.prompted:
        return End("error", "the prompt was lost with a torn write; run the cell again")
    if state.answer is not None:
        ended = _ended(state)
        if ended is not None and not urgent(state):
            return _wait_or_end(session, agent, state, ended)
    stop = over_limits(session, agent)
    if stop is not None:
        return stop
    return _before_request(session, agent, state)


def _next_call(session: Session, agent: Agent, state: State) -> Action:
    for each in state.open_calls:
        if each.ask is not None and each.decision is None:
            return Ask(each.call.id)
    stop = over_limits(session, agent)
    if stop is not None and stop.reason != "max_steps":
        return stop
    return RunBatch(tuple(next_batch(session, agent.runner)))


def _ended(state: State) -> End | None:
    """Return the turn's end after an answer without open calls, None when the loop goes on."""
    answer = state.answer
    assert answer is not None
    stop = answer.stop_reason
    if stop == "refusal":
        return End("refused", answer.meta.get("refusal"))
    if state.calls:
        return None
    if stop == "pause_turn":
        return None if state.paused <= 5 else End("completed", "paused 5 times")
    if stop == "max_tokens":
        return None if state.continued <= 3 else End("completed", "max_tokens: cut 4 times")
    if not answer.content:
        return None if state.empty_answers <= 1 else End("completed", "empty")
    return End("completed", None if stop in ("end_turn", "stop_sequence") else stop)


def _wait_or_end(session: Session, agent: Agent, state: State, ended: End) -> Action:
    """Return what follows the last answer: with `wake cell` a turn waits for its background
    agents."""
    if ended.reason != "completed" or agent.wake != "cell":
        return ended
    if state.inbox:
        return Drain(tuple(event.seq for event in inbox_order(state)))
    running = session.running_tasks(agent.id, "agent")
    return Wait(tuple(running)) if running else ended


def _before_request(session: Session, agent: Agent, state: State) -> Action:
    if state.inbox:
        return Drain(tuple(event.seq for event in inbox_order(state)))
    changed = attachments_due(session.surface(agent.id), agent.context)
    if changed:
        return Attach(tuple(item.label for item in changed))
    trigger = compaction.due(session, agent.id, agent.profile, agent.strategies, agent.marks)
    if trigger and compaction.thrashing(session, agent.id):
        return End("prompt_too_long", {"thrash": trigger, "refill": state.last_refill})
    return Compact(trigger) if trigger else Call()


def over_limits(session: Session, agent: Agent) -> End | None:
    """Return the hard stop a limit asks for before the next request or call (guard.md §12)."""
    state = session.state(agent.id)
    for scope, limits in (("turn", agent.limits), ("notebook", agent.session_limits)):
        for name, limit, used in _used(state, agent, limits, scope):
            if limit is not None and used is not None and used >= limit:
                detail: Json = {"limit": name, "allowed": limit, "used": used, "scope": scope}
                return End("max_steps" if name == "steps" else "budget", detail)
    return None


def _used(
    state: State, agent: Agent, limits: Limits, scope: str
) -> Sequence[tuple[str, float | None, float | None]]:
    usage = state.turn_usage if scope == "turn" else state.session_usage
    began = state.turn_start.time if state.turn_start else time.time()
    answer_open = state.step_open and (state.answer is None or bool(state.open_calls))
    steps = state.steps_in_turn - 1 if answer_open else state.steps_in_turn
    return (
        ("steps", limits.steps, steps if scope == "turn" else state.steps_total),
        ("tool_calls", limits.tool_calls, _finished_calls(state)),
        ("tokens", limits.tokens, usage.total),
        ("dollars", limits.dollars, cost(agent.model, usage) if limits.dollars else None),
        ("seconds", limits.seconds, time.time() - began if scope == "turn" else None),
    )


def _finished_calls(state: State) -> int:
    return state.tool_calls_in_turn - len(state.open_calls)


# ---- doing it once ------------------------------------------------------------------------------


async def advance(session: Session, agent: Agent) -> Action:
    """Do the next action, append its events, and return it.

    Raises ProviderError, or what a tool raised that is not the model's fault, after the turn was
    closed.
    """
    if agent.system is None or _at_boundary(session.state(agent.id)):
        await agent.refresh(session)
    action = next_action(session, agent)
    try:
        await _perform(session, agent, action)
    except asyncio.CancelledError:
        raise
    except ProviderError as error:
        reason: TurnReason = "prompt_too_long" if error.overflow else "error"
        detail: Json = {"kind": error.kind, "text": error.text, "status": error.status}
        session.close_turn(reason, {**detail, "request_id": error.request_id}, agent.id)
        raise
    except Exception as error:
        detail = {"kind": type(error).__name__, "text": str(error)}
        session.close_turn("error", detail, agent.id)
        raise
    return action


def _at_boundary(state: State) -> bool:
    """Tell whether the next step has not begun, so that its context is due to be looked at."""
    return state.turn_open and not state.open_calls and not (state.step_open and not state.answer)


async def _perform(session: Session, agent: Agent, action: Action) -> None:
    match action:
        case Drain(items):
            _open_step(session, agent)
            _drain(session, agent, items)
        case Attach():
            _open_step(session, agent)
            session.append(
                *attachments_due(session.surface(agent.id), agent.context), agent=agent.id
            )
        case Compact(trigger):
            _open_step(session, agent)
            await compact(session, agent, trigger)
        case Call():
            _open_step(session, agent)
            await call_model(session, agent)
        case Wait():
            mine = agent.tasks.all if agent.tasks is not None else {}
            if not lose_tasks(session, lambda task_id: task_id in mine) and agent.tasks:
                await agent.tasks.wait_any(agent.id)
        case Ask(call_id):
            await _ask(session, agent, call_id)
        case RunBatch():
            session.complete_calls(agent.id)
            await run_batch(session, agent.runner, next_batch(session, agent.runner))
        case End(reason, detail) if reason is not None:
            session.close_turn(reason, detail, agent.id)
            await session.log.commit()


def _open_step(session: Session, agent: Agent) -> None:
    """Begin the next step, unless the present one has not been answered yet."""
    state = session.state(agent.id)
    if state.step_open and state.answer is None:
        return
    events: list[Event] = [StepEnd()] if state.step_open else []
    events.append(StepStart())
    answer = state.answer
    if answer is not None and answer.stop_reason == "max_tokens" and not state.calls:
        tokens = answer.usage.output
        where = f"at {tokens} output tokens" if tokens else "at the output limit"
        text = f"Your answer was cut {where}. Go on where it stopped."
        events.append(Attachment(kind="reminder", label="cut", content=blocks_of(text)))
    session.append(*events, agent=agent.id)


def _drain(session: Session, agent: Agent, items: Sequence[int]) -> None:
    waiting = session.state(agent.id).inbox
    for seq in items:
        claimed = InboxClaimed(item=seq)
        session.append(inbox_event(waiting[seq], session), claimed, agent=agent.id)


async def _ask(session: Session, agent: Agent, call_id: str) -> None:
    state = session.state(agent.id).calls[call_id]
    assert state.ask is not None
    given = session.true_inputs.get(call_id, state.call.input)
    question = Question(call_id, state.call.name, given, state.call.input_hash, state.ask)
    if agent.ask is None:
        why = f" ({state.ask.reason})" if state.ask.reason else ""
        reply = Reply("deny", by="policy", reason=f"nobody is there to ask{why}")
    else:
        reply = await agent.ask(question)
    current = session.state(agent.id).calls.get(call_id)
    if current is not None and current.decision is None and current.result is None:
        decide(session, agent.runner, question, reply)
    await session.log.commit()


# ---- until the end ------------------------------------------------------------------------------


def start_turn(
    session: Session,
    agent: Agent,
    prompt: str | Sequence[Block],
    *,
    text: str | None = None,
    source: Any = "cell",
    cell: str | None = None,
    key: str | None = None,
    settings: Json | None = None,
) -> int:
    """Log turn/start and the person's message; return the turn's number. Nothing is sent yet.

    Raises TurnError when a turn is open, or dollars are limited and the model's price is unknown.
    """
    _check_start(session, agent)
    content = blocks_of(prompt)
    if not any(getattr(block, "text", "x").strip() for block in content):
        raise TurnError("the prompt is empty; write what the agent should do")
    start = TurnStart(
        text=text_of(content) if text is None else text,
        source=source,
        key=key,
        cell=cell,
        settings=settings or {},
    )
    session.append(start, UserMessage(content=content, cell=cell), agent=agent.id)
    return session.state(agent.id).turn


def wake_turn(session: Session, agent: Agent) -> int:
    """Log the start of a turn for what waits in the inbox, without a person's message (F6.8).

    Raises TurnError as `start_turn` does, and when nothing waits.
    """
    _check_start(session, agent)
    if not session.state(agent.id).inbox:
        raise TurnError("nothing waits in the inbox; a turn needs a prompt")
    session.append(TurnStart(text="", source="notification"), agent=agent.id)
    return session.state(agent.id).turn


def _check_start(session: Session, agent: Agent) -> None:
    if session.state(agent.id).turn_open:
        raise TurnError("a turn is open; finish it with %agent continue or %agent stop")
    priced = cost(agent.model, Usage(1, 1)) is not None
    if not priced and (agent.limits.dollars or agent.session_limits.dollars):
        raise TurnError(
            f"a dollar budget is set and {agent.model!r} has no price; set a token budget"
        )


async def query(
    session: Session, agent: Agent, prompt: str | Sequence[Block] | None = None, **options: Any
) -> TurnResult:
    """Run a turn to its end: a new one of `prompt`, or the open one; return how it ended.

    Cancelled, it keeps the text so far, answers open calls, ends the turn as interrupted and
    re-raises.
    """
    if prompt is not None:
        start_turn(session, agent, prompt, **options)
        await session.log.commit()
    try:
        while not isinstance(await advance(session, agent), End):
            pass
    except asyncio.CancelledError:
        interrupt(session, agent)
        raise
    return result(session, agent.id)


def interrupt(session: Session, agent: Agent) -> None:
    """Close an interrupted turn: text so far is kept, calls are answered, the reason says where."""
    state = session.state(agent.id)
    where = "approval" if any(c.ask and not c.decision for c in state.open_calls) else "stream"
    if where == "stream" and state.open_calls:
        where = "tools"
    keep_partial(session, agent)
    session.close_turn("interrupted", where, agent.id)


def result(session: Session, agent: str = "main") -> TurnResult:
    """Return how the last turn of `agent` ended. Raises ValueError while it is open."""
    state = session.state(agent)
    if state.turn_end is None:
        raise ValueError(f"turn {state.turn} of {agent!r} is still open; run query() or advance()")
    answer = text_of(state.answer.content) if state.answer else ""
    end = state.turn_end
    return TurnResult(
        state.turn, end.reason, answer, state.turn_usage, state.steps_in_turn, end.detail
    )


def queue(session: Session, item: Json, priority: Any = "next", agent: str = "main") -> int:
    """Put an item into the inbox of `agent`; return its seq. It is read at the next step
    boundary."""
    (stored,) = session.append(InboxQueued(item=item, priority=priority), agent=agent)
    return stored.seq
