"""Fold: a turn's events, and what is still only streaming, into one TurnView.

May not keep state or look anything up: the same events give the same view, live or replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import agent_kernel.widgets.approvals as approvals
import agent_kernel.widgets.asked as asked
import agent_kernel.widgets.calls as calls
import agent_kernel.widgets.footer as footer
import agent_kernel.widgets.groups as groups
import agent_kernel.widgets.notes as notes
import agent_kernel.widgets.phases as phases
import agent_kernel.widgets.tasks as tasks
import agent_kernel.widgets.units as units
from agent_kernel.core.events import Event, TurnStart
from agent_kernel.widgets.gather import Folding, stream, take
from agent_kernel.widgets.turnview import SCHEMA, Item, Live, Replayed, TurnView


def fold_turn(
    events: Iterable[Event],
    live: Live | None = None,
    *,
    price: footer.Price | None = None,
    window: int | None = None,
    replayed: Replayed | None = None,
) -> TurnView:
    """Return the view of one turn from its events, in log order, its agents' own events among them.

    `live` is what no event holds yet; without it an open turn reads as saved. `price` gives dollars
    by model and usage, None = unknown; `window` is the model's, in tokens. Raises ValueError when
    there is no event.
    """
    seen = list(events)
    if not seen:
        raise ValueError("a turn has at least its turn/start; pass the events of one turn")
    start = next((event for event in seen if isinstance(event, TurnStart)), None)
    state = Folding(agent=(start or seen[0]).agent)
    for event in seen:
        if event.agent == state.agent:
            take(state, event)
    if live is not None and not state.over:
        stream(state, live)
    return _view(state, seen, live, price, window, replayed)


def _rows(state: Folding, live: Live | None) -> list[Item]:
    placed = {item for item in state.order if isinstance(item, str)}
    late = [call for call in state.calls if call not in placed]
    rows: list[Item] = []
    for item in [*state.order, *late]:
        if not isinstance(item, str):
            rows.append(item)
        elif item in state.calls:
            saved = state.over or live is None
            rows.append(calls.row(state.calls[item], live, saved))
    return rows


def _view(
    state: Folding,
    seen: Sequence[Event],
    live: Live | None,
    price: footer.Price | None,
    window: int | None,
    replayed: Replayed | None,
) -> TurnView:
    running = live is not None and not state.over
    now = live.now if live is not None and running else None
    open_calls = [*state.calls.values(), *asked.of_others(seen, state.agent)]
    waiting = [call for call in open_calls if call.waits]
    asks = live.asks if live is not None else {}
    rowed = {key for key, call in state.calls.items() if call.result is None}
    panel = tasks.rows(seen, live if running else None, rowed)
    head = notes.head(state, seen, live, waiting) if running and live is not None else None
    questions = asked.questions(open_calls, asks, live=running)
    questions += live.questions if live is not None and running else ()
    return {
        "schema": SCHEMA,
        "turn": seen[0].turn,
        "agent": state.agent,
        "state": notes.word(state, running, waiting=bool(waiting or questions)),
        "seq": [seen[0].seq, seen[-1].seq],
        "saved": units.moment(now if now is not None else seen[-1].time),
        "head": head,
        "notes": notes.all_of(state, seen, running, replayed),
        "items": groups.grouped(_rows(state, live), running),
        "todo": notes.todo(state.calls.values()),
        "tasks": panel,
        "approvals": [
            approvals.approval(call, asks.get(call.call.id), state.mode, running)
            for call in waiting
        ],
        "questions": questions,
        "answer": state.answer,
        "steer": running,
        "queued": asked.queued(seen, state.agent) if running else [],
        "phases": phases.line(seen, state.agent),
        "footer": footer.parts(seen, state.agent, price, window, now, replayed),
    }
