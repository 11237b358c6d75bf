"""Limits: what an agent has spent, where its turn ends, and what it is told before.

May not append: what is due is a pure function of the log and the agent's settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent_kernel.core.actions import End
from agent_kernel.core.agent import Agent, Limits
from agent_kernel.core.events import (
    AssistantMessage,
    Attachment,
    CompactionSummary,
    Event,
    TaskCreated,
)
from agent_kernel.core.messages import Json, Usage, blocks_of
from agent_kernel.core.prompt import reminder
from agent_kernel.core.session import Session
from agent_kernel.core.state import State
from agent_kernel.core.usage import cost

NOTICE = 0.8  # share of a limit at which person and model are told (setting budget_notice)
SMALLEST = 256  # output tokens below which a request is not worth sending
REPEATS = (3, 5, 8)  # equal calls of one turn after which the model is told (F4.16)
_SHARPER = (
    "You made the same call {n} times in this turn. If its answer did not help, try another way.",
    (
        "The same call {n} times now: it gives the same answer each time. Change what you do, or "
        "say what is missing."
    ),
    "{n} equal calls. Stop making this call: answer with what you know, or ask the person.",
)
Used = tuple[str, str, float, float]  # scope, name, limit, used


def over_limits(session: Session, agent: Agent) -> End | None:
    """Return the hard stop a limit asks for before the next request or call (guard.md §12)."""
    for scope, name, limit, used in _all_used(session, agent):
        if used >= limit:
            detail: Json = {"limit": name, "allowed": limit, "used": used, "scope": scope}
            return End("max_steps" if name == "steps" else "budget", detail)
    return None


def room(session: Session, agent: Agent, estimate: int, wanted: int) -> int:
    """Return how many output tokens the next request may ask for: `wanted`, or what is left.

    `estimate` is the tokens it sends. At least SMALLEST: less is no answer, and the limit itself
    ends the turn before a request once it is reached (guard.md §12).
    """
    left = float(wanted)
    for scope, limits in (("turn", agent.limits), ("notebook", agent.session_limits)):
        if limits.tokens is None and limits.dollars is None:
            continue
        usages = spent(session, agent.id, scope)
        if limits.tokens is not None:
            left = min(left, limits.tokens - sum(u.total for u in usages.values()) - estimate)
        paid, price = dollars(session, agent, usages), cost(agent.model, Usage(0, 1_000_000))
        if limits.dollars is not None and paid is not None and price:
            sending = cost(agent.model, Usage(estimate)) or 0.0
            left = min(left, (limits.dollars - paid - sending) * 1e6 / price)
    return min(wanted, max(SMALLEST, int(left)))


def spent(session: Session, agent: str, scope: str = "turn") -> dict[str, Usage]:
    """Return the tokens of a turn of `agent` with all it started in it, or of the session, by
    agent."""
    if scope != "turn":
        return {name: session.state(name).session_usage for name in session.agents}
    found = {agent: session.state(agent).turn_usage}
    for task_id, made in session.made.items():
        if made[-1].agent in found and made[-1].turn == session.state(made[-1].agent).turn:
            state = session.state(task_id)
            found[task_id] = state.session_usage if len(made) == 1 else state.turn_usage
    return found


def by_call(events: Iterable[Event]) -> dict[str, Usage]:
    """Return the tokens each `agent` call caused: its agent's own and those of all below it
    (F7.8)."""
    begun: dict[str, tuple[str | None, str]] = {}  # agent: the call it works for now, its parent
    found: dict[str, Usage] = {}
    for event in events:
        if isinstance(event, TaskCreated) and event.kind == "agent":
            begun[event.id] = (event.tool_use_id, event.agent)
        elif isinstance(event, (AssistantMessage, CompactionSummary)):
            name = event.agent
            while name in begun:
                call, name = begun[name]
                if call is not None:
                    found[call] = found.get(call, Usage()) + event.usage
    return found


def dollars(session: Session, agent: Agent, usages: dict[str, Usage]) -> float | None:
    """Return what tokens cost, each agent's by its own model; None where a price is unknown."""
    total = 0.0
    for name, usage in usages.items():
        header = session.state(name).header
        found = cost(header.model if header is not None else agent.model, usage)
        if found is None and usage.total:
            return None
        total += found or 0.0
    return total


def _all_used(session: Session, agent: Agent) -> Iterator[Used]:
    for scope, limits in (("turn", agent.limits), ("notebook", agent.session_limits)):
        for name, limit, used in _used(session, agent, limits, scope):
            if limit is not None and used is not None:
                yield scope, name, limit, used


def _used(
    session: Session, agent: Agent, limits: Limits, scope: str
) -> Iterator[tuple[str, float | None, float | None]]:
    state, turn = session.state(agent.id), scope == "turn"
    answer_open = state.step_open and (state.answer is None or bool(state.open_calls))
    steps = state.steps_in_turn - 1 if answer_open else state.steps_in_turn
    yield "steps", limits.steps, steps if turn else state.steps_total
    made = state.tool_calls_in_turn if turn else state.tool_calls_total
    yield "tool_calls", limits.tool_calls, made - len(state.open_calls)
    if limits.tokens is not None or limits.dollars is not None:
        usages = spent(session, agent.id, scope)
        yield "tokens", limits.tokens, sum(each.total for each in usages.values())
        if limits.dollars is not None:
            yield "dollars", limits.dollars, dollars(session, agent, usages)
    now = session.elapsed(agent.id)
    yield "seconds", limits.seconds, now if turn else now + state.seconds_before


# ---- what is said before ------------------------------------------------------------------------


def reminders_due(session: Session, agent: Agent) -> list[Attachment]:
    """Return the reminders due before the next request: a budget nearly used, a call made again."""
    state = session.state(agent.id)
    return [*_budget(session, agent, state), *_repeats(state)]


def _budget(session: Session, agent: Agent, state: State) -> Iterator[Attachment]:
    for scope, name, limit, used in _all_used(session, agent):
        key = f"{scope}:{name}"
        if limit <= 0 or used < NOTICE * limit or key in state.reminded:
            continue
        context = state.answer.usage.context if state.answer is not None else 0
        share = f"; the context holds {context / agent.profile.window:.0%} of the window"
        text = (
            f"{used / limit:.0%} of the {'turn' if scope == 'turn' else 'session'}'s {name} are "
            f"used: {_number(used)} of {_number(limit)}, {_number(limit - used)} left"
            f"{share if context else ''}. Come to an end in time."
        )
        yield _reminder("budget", key, text, hidden=False)


def _repeats(state: State) -> Iterator[Attachment]:
    for (name, digest), count in state.repeats.items():
        reached = [at for at, n in enumerate(REPEATS) if count >= n]
        key = f"repeat:{digest}:{len(reached)}"
        if reached and key not in state.reminded:
            text = _SHARPER[reached[-1]].format(n=count)
            yield _reminder("repeat", key, f"{name}: {text}")


def _reminder(label: str, key: str, text: str, hidden: bool = True) -> Attachment:
    return Attachment(
        kind="reminder",
        label=label,
        content=blocks_of(reminder(text)),
        meta={"reminder": key},
        hidden=hidden,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"
