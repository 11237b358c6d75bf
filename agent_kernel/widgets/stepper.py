"""Stepper: what the loop does next, in words, with the exact request or call.

May not step: the words name the commands that do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import agent_kernel.widgets.approvals as approvals
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.request as request
import agent_kernel.widgets.units as units
from agent_kernel.core.actions import Action, Ask, Attach, Call, Compact, Drain, End, RunBatch, Wait
from agent_kernel.core.events import ToolCall
from agent_kernel.core.messages import dumps
from agent_kernel.core.model import Request
from agent_kernel.core.usage import estimate
from agent_kernel.widgets.calls import argument, short_id
from agent_kernel.widgets.doc import Block, Commands, Fold, Head, Pairs, Pre, code, text
from agent_kernel.widgets.turnview import Line


def words(action: Action, calls: Mapping[str, ToolCall]) -> str:
    """Return the next action in words; `calls` are the open calls by id."""
    match action:
        case Drain():
            return f"read {units.count(len(action.items), 'waiting item')} from the inbox"
        case Attach():
            return f"attach what changed: {', '.join(map(hidden.one_line, action.names))}"
        case Compact():
            return f"compact the context, trigger {action.trigger}"
        case Call():
            return "send the next request"
        case Ask():
            return f"wait for your decision on {_name(action.id, calls)}"
        case RunBatch():
            names = ", ".join(_name(one, calls) for one in action.ids)
            return f"run {names}, then send a request with the results"
        case Wait():
            return f"wait for {units.count(len(action.tasks), 'background agent')}"
        case End():
            if action.reason is None:
                return "nothing, no turn is open"
            return f"end the turn, reason {action.reason}"


def _name(call_id: str, calls: Mapping[str, ToolCall]) -> str:
    call = calls.get(call_id)
    name = hidden.one_line(call.name) if call is not None else "a call"
    return f"{name} {short_id(call_id)}"


def view(
    action: Action,
    calls: Mapping[str, ToolCall],
    *,
    next_request: Request | None = None,
    label: str = "",
    stopped_by: str = "",
    price: tuple[float, float] | None = None,
    cached: int | None = None,
) -> list[Block]:
    """Return the stepper: the action, the calls it would run, the request that would be sent.

    `price` is the least and the most in dollars, None = unknown; `cached` the tokens expected from
    the cache.
    """
    note = f"stopped by {hidden.one_line(stopped_by)}" if stopped_by else ""
    out: list[Block] = [Head(text(f"Next: {words(action, calls)}"), note)]
    ids: Sequence[str] = ()
    if isinstance(action, RunBatch):
        ids = action.ids
    elif isinstance(action, Ask):
        ids = (action.id,)
    out += [Pre(_exact(calls[one])) for one in ids if one in calls]
    if next_request is not None:
        out.append(Pairs(_facts(next_request, label, price, cached)))
        inner = request.view(next_request, label=label or "next", sent=False)
        size = f"{len(next_request.body):,} bytes"
        out.append(Fold(text(f"Exact request, as it would be sent, {size}"), inner))
    commands = ["%agent step", "%agent step turn", "%agent stop"]
    if ids:
        short = short_id(ids[0])
        commands[1:1] = [
            f"%agent edit {short}",
            f"%agent skip {short}",
            f'%agent answer {short} "text"',
        ]
    return [*out, Commands(commands)]


def state(
    action: Action,
    calls: Mapping[str, ToolCall],
    *,
    key: str,
    next_request: Request | None = None,
    label: str = "",
    stopped_by: str = "",
    price: tuple[float, float] | None = None,
    cached: int | None = None,
    done: bool = False,
) -> dict[str, Any]:
    """Return what the widget draws: words, exact calls, facts of the next request, commands.

    A click carries `key` back, so that one on a former stop changes nothing; `done` = no button.
    """
    ids: Sequence[str] = ()
    if isinstance(action, RunBatch):
        ids = action.ids
    elif isinstance(action, Ask):
        ids = (action.id,)
    short = short_id(ids[0]) if ids else ""
    more = [f"%agent edit {short}", f"%agent skip {short}", f'%agent answer {short} "text"']
    return {
        "state": "stepper",
        "key": key,
        "next": f"Next: {words(action, calls)}",
        "stopped": hidden.one_line(stopped_by),
        "verb": "Run" if ids else "Step",
        "done": done,
        "calls": [_call(calls[one]) for one in ids if one in calls],
        "facts": _facts(next_request, label, price, cached) if next_request is not None else [],
        "request": _layers(next_request) if next_request is not None else [],
        "size": f"{len(next_request.body):,} bytes" if next_request is not None else "",
        "commands": ["%agent step", *(more if ids else []), "%agent continue", "%agent stop"],
    }


def _call(call: ToolCall) -> dict[str, Any]:
    name, _ = argument(call.name, call.input)
    text_, field = approvals.whole(call.name, call.input)
    shown = approvals.fold(text_)
    if name and not field:
        shown["head"] = [["t", f"{hidden.one_line(call.name)} "], *shown["head"]]
    return {
        "short": short_id(call.id),
        "name": hidden.one_line(call.name),
        "shown": shown,
        "text": text_.encode("utf-8", "replace").decode(),
    }


def _layers(made: Request) -> list[list[str]]:
    """Return system, tools and messages with their tokens and what is in them."""
    system = estimate(sum(len(part.text) for part in made.system))
    tools = estimate(sum(len(dumps(tool.wire())) for tool in made.tools))
    messages = estimate(sum(len(message.bytes) for message in made.messages))
    named = [hidden.one_line(tool.name) for tool in made.tools]
    more = f", {len(named) - 5} more" if len(named) > 5 else ""
    parts = ", ".join(hidden.one_line(part.name) for part in made.system)
    return [
        ["system", f"{system:,} tokens", parts],
        ["tools", f"{tools:,} tokens", ", ".join(named[:5]) + more],
        ["messages", f"{messages:,} tokens", units.count(len(made.messages), "message")],
    ]


def _exact(call: ToolCall) -> Line:
    name, _ = argument(call.name, call.input)
    shown = approvals.exact(call.name, call.input)
    return [["t", f"{hidden.one_line(call.name)} "], *shown] if name else shown


def _facts(
    made: Request, label: str, price: tuple[float, float] | None, cached: int | None
) -> list[tuple[str, Line]]:
    tokens = f"~{units.count(estimate(len(made.body)), 'token')}"
    warm = f" ({cached:,} expected from cache)" if cached is not None else ""
    parts = f"{units.count(len(made.messages), 'message')} · {units.count(len(made.tools), 'tool')}"
    limit = f"out at most {made.max_tokens:,}"
    cost = "price unknown"
    if price is not None:
        cost = f"{units.dollars(price[0])} to {units.dollars(price[1])}"
    return [
        (
            f"Request {label}".strip(),
            [*code(made.model), ["t", f" · {parts} · {tokens}{warm} · {limit}"]],
        ),
        ("Price", text(cost)),
    ]
