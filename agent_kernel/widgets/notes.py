"""Notes: the words over and under a turn: its head, its banners, its state, its todo list.

May not invent a cause: what the log does not say is called unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.tasks as tasks
import agent_kernel.widgets.units as units
from agent_kernel.core.events import Event, StepEnd, StepStart, TurnEnd
from agent_kernel.widgets.calls import Call, short_id
from agent_kernel.widgets.gather import Folding
from agent_kernel.widgets.turnview import Choice, Head, Line, Live, Note, Replayed

QUIET = 30.0
"""Seconds without anything heard before a view says so."""
_STATES = {"completed": "done", "interrupted": "stopped", "error": "failed", "refused": "refused"}


def word(state: Folding, running: bool, *, waiting: bool) -> str:
    """Return the turn's state: running, waiting, saved, done, stopped, failed or refused."""
    if state.end is not None:
        return _STATES.get(state.end.reason, "stopped")
    if not running:
        return "saved"
    return "waiting" if waiting else "running"


def steps(seen: Sequence[Event], agent: str) -> int:
    """Return how many steps of `agent` began."""
    return sum(isinstance(event, StepStart) and event.agent == agent for event in seen)


def head(state: Folding, seen: Sequence[Event], live: Live, waiting: list[Call]) -> Head:
    """Return the line over a running turn: what it does now, the step, its buttons."""
    stop: Choice = {"type": "stop", "label": "Stop", "send": {}}
    background: Choice = {"type": "background", "label": "Move to background", "send": {}}
    detach: Choice = {"type": "detach", "label": "Detach", "send": {}}
    out: Head = {"glyph": "run", "word": "running", "actions": [background, stop], "quiet": None}
    step = steps(seen, state.agent)
    out["note"] = f"step {step}" if step else ""
    if live.stopped_by:
        out["glyph"], out["word"] = "pause", "stopped before the next action"
        out["title"] = "Stopped"
        out["note"] = f"stopped by {hidden.one_line(live.stopped_by)}"
    elif waiting:
        out["glyph"], out["word"], out["title"] = "ask", "waiting for you", _waits(waiting)
    elif live.waiting_tasks:
        out["title"] = tasks.title(seen)
        out["note"], out["actions"] = "The cell answers when they end.", [detach, stop]
    else:
        out["title"] = _doing(state, live)
    heard = live.heard if live.heard is not None else seen[-1].time
    if not waiting and not live.stopped_by:
        out["quiet"] = max(0.0, live.now - heard)
    return out


def _waits(waiting: list[Call]) -> str:
    names = ", ".join(hidden.one_line(call.call.name) for call in waiting)
    return f"Waiting for you: {names}"


def _doing(state: Folding, live: Live) -> str:
    if state.retry is not None:
        retry = state.retry
        status = f" ({retry.status})" if retry.status else ""
        what = hidden.one_line(retry.error)[:120]
        return f"Trying again in {retry.wait:.0f} s: {what}{status}"
    if state.compacting:
        return "Compacting the context"
    running = [c for c in state.calls.values() if c.start is not None and c.result is None]
    if running:
        return "Running " + ", ".join(hidden.one_line(c.call.name) for c in running[:4])
    if live.text:
        return "Answering"
    return "Thinking" if live.thinking else "Waiting for the model"


def all_of(
    state: Folding, seen: Sequence[Event], running: bool, replayed: Replayed | None
) -> list[Note]:
    """Return the banners: replayed, saved while open, or the reason a turn did not complete."""
    out: list[Note] = []
    if replayed is not None:
        out.append(_replayed(seen[0].time, replayed))
    if state.end is not None:
        ended = _ended(state, seen, state.end)
        return out if ended is None else [*out, ended]
    if not running:
        out.append(_open(seen))
    return out


def _replayed(time: float, replayed: Replayed) -> Note:
    first: Line = [["b", "Replayed from the log"], ["t", f" of {units.moment(time)}. "]]
    first.append(["t", "Nothing was sent, it cost nothing."])
    lines = [first]
    if replayed.missing:
        lines.append([["t", "Missing in this kernel: "], *_listed(replayed.missing)])
    if replayed.changed:
        said = ", ".join(hidden.one_line(text) for text in replayed.changed)
        lines.append([["t", f"Changed since: {said}."]])
    actions: list[Choice] = [{"type": "fresh", "label": "Run anew", "send": {}}]
    commands = ["%%agent --fresh"]
    if replayed.calls:
        label = f"Re-run {units.count(replayed.calls, 'Python call')}"
        actions.insert(0, {"type": "replay_python", "label": label, "send": {}})
        commands.insert(0, "%agent replay --python")
    note: Note = {"glyph": "stale", "word": "replayed", "role": "status", "lines": lines}
    note["actions"], note["commands"] = actions, commands
    return note


def _listed(names: Sequence[str]) -> Line:
    line: Line = []
    for at, name in enumerate(names[:12]):
        line += [["t", ", "]] if at else []
        line.append(["c", hidden.one_line(name)])
    line.append(["t", f", {len(names) - 12} more." if len(names) > 12 else "."])
    return line


def _open(seen: Sequence[Event]) -> Note:
    lines: list[Line] = [
        [
            ["b", f"Saved while running, {units.moment(seen[-1].time)}."],
            ["t", " Its end is not in this log."],
        ]
    ]
    note: Note = {"glyph": "off", "word": "inactive", "role": "status", "lines": lines}
    note["actions"], note["commands"] = [], ["%agent continue", "%agent log"]
    return note


_WHY = {
    "interrupted": ("pause", "stopped", "Stopped by you", ["%agent continue", "%agent retry"]),
    "max_steps": ("pause", "stopped", "Stopped at the step limit", ["%agent continue"]),
    "budget": ("pause", "stopped", "Stopped by the budget", ["%agent budget", "%agent continue"]),
    "prompt_too_long": (
        "err",
        "failed",
        "The context is full",
        ["%agent compact --dry-run", "%agent context"],
    ),
    "refused": ("off", "refused", "The model refused", ["%agent retry"]),
}


def _ended(state: Folding, seen: Sequence[Event], end: TurnEnd) -> Note | None:
    turn = seen[0].turn
    said = _detail(end)
    if end.reason == "completed":
        return _plain("off", "done", "Ended", said, []) if said else None
    if end.reason == "error":
        log = f"%agent log --turn {turn}" if turn is not None else "%agent log"
        step, kept = steps(seen, state.agent), _kept(state, seen)
        title = f"Turn failed at step {step}:" if step else "Turn failed:"
        note = _plain("err", "failed", title, f"{said or 'no reason given'}; {kept}.", [])
        retry = f"Retry from step {step}" if step else "Retry"
        note["actions"] = [
            {"type": "retry", "label": retry, "send": {}},
            {"type": "log", "label": "Details", "send": {}},
        ]
        note["role"], note["commands"] = "alert", ["%agent retry", log]
        return note
    glyph, name, title, commands = _WHY[end.reason]
    words = f"{said}; {_kept(state, seen)}." if said else f"{_kept(state, seen)}."
    return _plain(glyph, name, f"{title}:", words, commands)


def _plain(glyph: str, name: str, title: str, words: str, commands: list[str]) -> Note:
    note: Note = {"word": name, "role": "status", "actions": [], "commands": commands}
    note["glyph"] = glyph  # type: ignore[typeddict-item]
    note["lines"] = [[["b", title], *([["t", " "]] if words else []), *hidden.spans(words)]]
    return note


def _detail(end: TurnEnd) -> str:
    detail = end.detail
    if isinstance(detail, dict):
        for key in ("text", "message", "error", "why"):
            if isinstance(detail.get(key), str):
                return hidden.one_line(detail[key])
        if "limit" in detail:
            used = f", used {detail['used']}" if "used" in detail else ""
            return hidden.one_line(f"limit {detail['limit']}{used}")
        return hidden.one_line(", ".join(f"{key} {value}" for key, value in detail.items()))
    return hidden.one_line(detail or "").rstrip(".")


def _kept(state: Folding, seen: Sequence[Event]) -> str:
    """Return what is left of the turn: the whole steps, and calls whose end is not known."""
    whole = sum(isinstance(event, StepEnd) and event.agent == state.agent for event in seen)
    unknown = [
        f"{hidden.one_line(c.call.name)} {short_id(c.call.id)}"
        for c in state.calls.values()
        if c.start is not None
        and (c.result is None or c.result.meta.get("error_kind") == "outcome_unknown")
    ]
    kept = f"{units.count(whole, 'whole step')} kept" if whole else "no step was completed"
    if unknown:
        return f"{kept}, outcome unknown of {', '.join(unknown)}"
    return f"{kept}, nothing else ran"


def todo(calls: Iterable[Call]) -> list[dict[str, str]]:
    """Return the todo list as the last accepted `todo` call left it: id, text, status, blocked."""
    last = None
    for call in calls:
        accepted = call.result is not None and not call.result.is_error
        if call.call.name == "todo" and accepted and isinstance(call.input.get("items"), list):
            last = call
    if last is None:
        return []
    rows = [item for item in last.input["items"] if isinstance(item, dict)]
    done = {str(item.get("id")) for item in rows if item.get("status") == "done"}
    out = []
    for item in rows:
        blockers = item.get("blocked_by")
        names = [str(b) for b in blockers] if isinstance(blockers, list) else []
        blocked = [hidden.one_line(name) for name in names if name not in done]
        out.append(
            {
                "id": hidden.one_line(str(item.get("id", ""))),
                "text": hidden.one_line(str(item.get("text", ""))),
                "status": hidden.one_line(str(item.get("status", "pending"))),
                "blocked": ", ".join(blocked),
            }
        )
    return out
