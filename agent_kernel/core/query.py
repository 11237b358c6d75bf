"""Query: the loop. `next_action` says what comes next, `advance` does it once, `query` until the
end.

The log is the program counter: nothing the loop needs lives only in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agent_kernel.core import compaction
from agent_kernel.core.actions import Action, Ask, Attach, Call, Compact, Drain, End, RunBatch, Wait
from agent_kernel.core.agent import Agent
from agent_kernel.core.batch import Question, Reply, decide, next_batch, run_batch
from agent_kernel.core.calling import call_model, compact, keep_partial
from agent_kernel.core.events import (
    Attachment,
    Event,
    InboxClaimed,
    MemoryLoaded,
    Replace,
    StepEnd,
    StepStart,
    TurnReason,
    UserMessage,
)
from agent_kernel.core.hooks import STOPS, run_hooks
from agent_kernel.core.limits import over_limits, reminders_due
from agent_kernel.core.mending import mended
from agent_kernel.core.messages import Block, Json, blocks_of, text_of
from agent_kernel.core.model import ProviderError
from agent_kernel.core.prompt import attachments_due, reminder
from agent_kernel.core.session import Session
from agent_kernel.core.state import State, inbox_order, urgent
from agent_kernel.core.tasks import Watch, inbox_event, lose_tasks
from agent_kernel.core.turns import (
    TurnError,
    TurnResult,
    drop,
    queue,
    result,
    reword,
    start_turn,
    wake_turn,
)

__all__ = [
    "TurnError",
    "TurnResult",
    "advance",
    "driving",
    "drop",
    "interrupt",
    "next_action",
    "over_limits",
    "query",
    "queue",
    "result",
    "reword",
    "start_turn",
    "wake_turn",
]


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
    changed += reminders_due(session, agent)
    if changed:
        return Attach(tuple(item.label for item in changed))
    trigger = compaction.due(session, agent.id, agent.profile, agent.strategies, agent.marks)
    if trigger and compaction.thrashing(session, agent.id):
        return End("prompt_too_long", {"thrash": trigger, "refill": state.last_refill})
    return Compact(trigger) if trigger else Call()


# ---- doing it once ------------------------------------------------------------------------------


async def advance(session: Session, agent: Agent) -> Action:
    """Do the next action, append its events, and return it.

    Raises ProviderError, or what a tool raised that is not the model's fault, after the turn was
    closed.
    """
    if agent.system is None or _at_boundary(session.state(agent.id)):
        await agent.refresh(session)
    state = session.state(agent.id)
    if agent.hooks and state.turn_open and not state.steps_in_turn:
        await _heard(session, agent)
    action = next_action(session, agent)
    try:
        await _until_now(session, agent, action)
    except ProviderError as error:
        reason: TurnReason = "prompt_too_long" if error.overflow else "error"
        detail: Json = {"kind": error.kind, "text": error.text, "status": error.status}
        session.close_turn(reason, {**detail, "request_id": error.request_id}, agent.id)
        raise
    except Exception as error:
        detail = {"kind": type(error).__name__, "text": str(error)}
        session.close_turn("error", detail, agent.id)
        raise
    if isinstance(action, End) and session.state(agent.id).turn_open:
        return Wait(())  # a hook keeps the turn going
    return action


async def _until_now(session: Session, agent: Agent, action: Action) -> None:
    """Perform an action; an item of priority `now` stops it, and the loop goes on with the item."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    with Watch(session, agent.id, ("now",), task.cancel) as watch:
        if isinstance(action, Ask | Call | Wait):  # queued since the action was chosen
            watch.look()
        try:
            await _perform(session, agent, action)
        except asyncio.CancelledError:
            if not watch.event.is_set() or task.uncancel() > before:
                raise
            keep_partial(session, agent)
            session.answer_open_calls("the person wrote something to be read at once", agent.id)


async def _heard(session: Session, agent: Agent) -> None:
    """Let hooks look at a turn's prompt once; a refused one is withheld and the turn is over."""
    state, surface = session.state(agent.id), session.surface(agent.id)
    words = next((n for n in reversed(surface.nodes) if isinstance(n, UserMessage)), None)
    if state.hooked["UserPromptSubmit"] or not state.prompted or words is None:
        return
    facts = {"prompt": text_of(words.content)}
    said = await run_hooks(session, agent.id, agent.hooks, "UserPromptSubmit", facts)
    if said.verdict == "deny":
        span = Replace(first=words.seq, last=words.seq)
        text = "[a prompt of the person was withheld by their hook]"
        gone = Attachment(
            kind="reminder",
            label="withheld",
            content=blocks_of(text),
            replaces=span,
            sources=(words.seq,),
        )
        session.append(gone, agent=agent.id)
        session.close_turn("refused", {"hook": said.reason}, agent.id)
    elif said.text:
        content = blocks_of(said.text)
        session.append(Attachment(kind="context", label="hook", content=content), agent=agent.id)


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
            session.append(*_due(session, agent), agent=agent.id)
        case Compact(trigger):
            _open_step(session, agent)
            await compact(session, agent, trigger)
        case Call():
            _open_step(session, agent)
            await _call(session, agent)
        case Wait():
            await _wait(session, agent)
        case Ask(call_id):
            await _ask(session, agent, call_id)
        case RunBatch():
            session.complete_calls(agent.id)
            await run_batch(session, agent.runner, next_batch(session, agent.runner))
        case End(reason, detail) if reason is not None:
            if reason != "completed" or not await _kept_going(session, agent):
                session.close_turn(reason, detail, agent.id)
                await session.log.commit()


async def _call(session: Session, agent: Agent) -> None:
    """Ask the model; a refusal that can be mended is, once, and the step asks again."""
    try:
        await call_model(session, agent)
    except ProviderError as error:
        if not await mended(session, agent, error):
            raise


async def _wait(session: Session, agent: Agent) -> None:
    """Wait for one of the agent's tasks, or words for it; those no process has are lost."""
    mine = agent.tasks.all if agent.tasks is not None else {}
    if not lose_tasks(session, lambda task_id: task_id in mine) and agent.tasks is not None:
        await agent.tasks.wait_any(agent.id)


async def _kept_going(session: Session, agent: Agent) -> bool:
    """Tell whether a Stop hook wants the turn to go on; its reason is queued for the model then."""
    state = session.state(agent.id)
    stopped = state.hooked["Stop:deny"]
    if not agent.hooks or agent.depth or stopped >= STOPS:
        return False
    said = await run_hooks(
        session, agent.id, agent.hooks, "Stop", {"stop_hook_active": bool(stopped)}
    )
    if said.verdict != "deny":
        return False
    text = reminder(f"A hook of the person keeps the turn going: {said.reason}")
    queue(session, {"text": text, "kind": "reminder", "label": "hook"}, "next", agent.id)
    return True


def _due(session: Session, agent: Agent) -> list[Event]:
    """Return what is attached before the next request: changed context, reminders, with what was
    read for it."""
    due = attachments_due(session.surface(agent.id), agent.context)
    read = [MemoryLoaded(**each.meta["memory"]) for each in due if "memory" in each.meta]
    return [*read, *due, *reminders_due(session, agent)]


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
        events.append(Attachment(kind="reminder", label="cut", content=blocks_of(reminder(text))))
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


async def query(
    session: Session, agent: Agent, prompt: str | Sequence[Block] | None = None, **options: Any
) -> TurnResult:
    """Run a turn to its end: a new one of `prompt`, or the open one; return how it ended.

    While another `query` of this agent runs, the prompt joins that turn, read before its next
    request (F1.7). Cancelled, it keeps the text so far, answers open calls, ends the turn as
    interrupted and re-raises.
    """
    while (running := session.driven.get(agent.id)) is not None:
        if await _joined(session, agent.id, running, prompt):
            return result(session, agent.id)
    with driving(session, agent):
        try:
            if prompt is not None:
                start_turn(session, agent, prompt, **options)
                await session.log.commit()
            while not isinstance(await advance(session, agent), End):
                pass
        except asyncio.CancelledError:
            interrupt(session, agent)
            raise
        return result(session, agent.id)


@contextmanager
def driving(session: Session, agent: Agent) -> Iterator[None]:
    """While it is entered, this is the one loop that runs turns of `agent`; entered in the turn's
    own task, the provider's budgets of a turn begin here."""
    begin_turn = getattr(agent.provider, "begin_turn", None)
    if begin_turn is not None:
        begin_turn()
    session.driven[agent.id] = over = asyncio.get_running_loop().create_future()
    try:
        yield
    finally:
        del session.driven[agent.id]
        over.set_result(None)


async def _joined(session: Session, agent: str, running: asyncio.Future[None], prompt: Any) -> bool:
    """Queue a prompt for the turn that runs and wait for its end; False when it came too late."""
    item = None
    if prompt is not None and session.state(agent).turn_open:
        blocks = [block.wire() for block in blocks_of(prompt)]
        item = queue(
            session, {"content": blocks, "text": text_of(blocks_of(prompt))}, "next", agent
        )
    await asyncio.wait([running])
    if item is None:
        return prompt is None
    if item in session.state(agent).inbox:
        drop(session, item, "the turn it was for ended first", agent)
        return False
    return True


def interrupt(session: Session, agent: Agent) -> None:
    """Close an interrupted turn: text so far is kept, calls are answered, the reason says where."""
    state = session.state(agent.id)
    where = "approval" if any(c.ask and not c.decision for c in state.open_calls) else "stream"
    if where == "stream" and state.open_calls:
        where = "tools"
    keep_partial(session, agent)
    session.close_turn("interrupted", where, agent.id)
