"""Tasks: the panel of background work: running, finished, failed, stopped and lost.

May not start or stop anything: it is a fold of task events, with tails handed in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import agent_kernel.widgets.approvals as approvals
import agent_kernel.widgets.asked as asked
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.tree as tree
import agent_kernel.widgets.turn as turn
import agent_kernel.widgets.units as units
from agent_kernel.core.events import (
    AssistantMessage,
    Event,
    TaskCreated,
    TaskFinished,
    TaskLost,
    TaskStatus,
)
from agent_kernel.core.messages import Usage
from agent_kernel.widgets.calls import TAIL_LINES
from agent_kernel.widgets.doc import Block, Commands, Fold, Para, Pre, Table
from agent_kernel.widgets.doc import Head as PageHead
from agent_kernel.widgets.turnview import Glyph, Head, Line, Live, PanelView, TaskRow

_END: dict[str, tuple[Glyph, str]] = {
    "completed": ("ok", "finished"),
    "failed": ("err", "failed"),
    "stopped": ("off", "stopped"),
}


def rows(
    events: Sequence[Event], live: Live | None = None, rowed: Collection[str] = ()
) -> list[TaskRow]:
    """Return one row a task, in the order they began; `live` gives the clock and the tails.

    Tasks of the calls in `rowed` are left out: a row of the turn shows them while they run.
    """
    ends: dict[str, TaskFinished | TaskLost] = {}
    states: dict[str, str] = {}
    spent: dict[str, Usage] = {}
    for event in events:
        if isinstance(event, TaskFinished | TaskLost):
            ends[event.id] = event
        elif isinstance(event, TaskStatus):
            states[event.id] = event.status
        elif isinstance(event, AssistantMessage):
            spent[event.agent] = spent.get(event.agent, Usage()) + event.usage
    made = [e for e in events if isinstance(e, TaskCreated) and e.tool_use_id not in rowed]
    return [_row(task, ends.get(task.id), states.get(task.id), spent, live) for task in made]


def _row(
    task: TaskCreated,
    end: TaskFinished | TaskLost | None,
    status: str | None,
    spent: dict[str, Usage],
    live: Live | None,
) -> TaskRow:
    glyph, word, line = _state(end, status, live)
    seconds = end.seconds if isinstance(end, TaskFinished) else None
    if end is None and live is not None:
        seconds = live.now - task.time
    tail = live.tails.get(task.id, "") if live is not None else ""
    if isinstance(end, TaskFinished) and not tail:
        tail = end.summary
    usage = spent.get(task.id)
    lines = hidden.output(tail[-4_000:]).rstrip("\n").split("\n")[-TAIL_LINES:]
    return {
        "id": hidden.one_line(task.id),
        "glyph": glyph,
        "word": word,
        "kind": task.kind,
        "label": hidden.one_line(task.label),
        "seconds": seconds,
        "ticking": end is None and live is not None,
        "size": f"{units.short(usage.total)} tokens" if usage is not None else "",
        "tail": [text for text in lines if text],
        "line": line,
        "action": "cancel" if end is None and live is not None else "output",
    }


def _state(
    end: TaskFinished | TaskLost | None, status: str | None, live: Live | None
) -> tuple[Glyph, str, Line]:
    if isinstance(end, TaskFinished):
        glyph, word = _END[end.status]
        code = f", exit {end.exit_code}" if end.exit_code is not None else ""
        return glyph, word, [["b", word], ["t", code]]
    if isinstance(end, TaskLost):
        why = hidden.one_line(end.summary) or "its process is gone"
        words = f": {why}. Nothing runs again by itself."
        return "lost", "lost", [["b", "lost"], ["t", words]]
    said = hidden.one_line(status) if status and status != "running" else ""
    if live is None:
        return "unknown", "running when saved", [["b", "running when saved"]]
    return "run", "running", [["t", said]] if said else []


def title(events: Sequence[Event]) -> str:
    """Return `Waiting for 1 of 3 tasks`, or how many there are when none runs."""
    made = sum(isinstance(event, TaskCreated) for event in events)
    ended = sum(isinstance(event, TaskFinished | TaskLost) for event in events)
    running = made - ended
    whole = units.count(made, "task")
    return f"Waiting for {running} of {whole}" if running > 0 else f"{whole}, none running"


def panel(events: Sequence[Event], live: Live | None, *, background: bool = False) -> PanelView:
    """Return the task panel of a session's events of tasks, agents and calls.

    `background` says that a turn runs beside the cells: what it asks stands here, and its text
    line. Without `live` it reads as saved.
    """
    found = rows(events, live)
    on = live is not None
    open_calls = asked.of_others(events, None if background else "main")
    asks = live.asks if live is not None else {}
    waiting = [call for call in open_calls if call.waits]
    glyph, word = ("run", "running") if title(events).startswith("Waiting") else ("ok", "done")
    if any(row["word"] == "lost" for row in found) and glyph == "ok":
        glyph, word = "lost", "lost"
    head: Head = {"glyph": glyph, "word": word, "title": _panel_title(found), "actions": []}  # type: ignore[typeddict-item]
    head["note"], head["quiet"] = "", None
    if background and on:
        head["actions"] = [{"type": "stop", "label": "Stop the turn", "send": {}}]
    last = events[-1].time if events else 0.0
    return {
        "head": head,
        "saved": units.moment(live.now if live is not None else last),
        "todo": [],
        "tasks": found,
        "tree": "\n".join(tree.drawn(tree.agents(events))) if _nested(events) else "",
        "approvals": [
            approvals.approval(call, asks.get(call.call.id), "ask", on) for call in waiting
        ],
        "questions": [
            *asked.questions(open_calls, asks, live=on),
            *(live.questions if live is not None and background else ()),
        ],
        "steer": background and on,
        "queued": asked.queued(events) if on else [],
        "foot": ["%agent output ID", "%agent cancel ID", '%agent send ID "text"', "%agent wait"],
    }


def shown(text: str) -> str:
    """Return a line of a task's output as it may be shown."""
    return hidden.output(text)


def _panel_title(found: Sequence[TaskRow]) -> str:
    running = sum(row["word"].startswith("running") for row in found)
    whole = units.count(len(found), "task")
    return f"{running} of {whole} running" if running else f"{whole}, none running"


def _nested(events: Sequence[Event]) -> bool:
    """Tell whether an agent started another: then the panel draws the tree."""
    made = [e for e in events if isinstance(e, TaskCreated) and e.kind == "agent"]
    return any(event.agent != "main" for event in made)


def panel_document(view: PanelView) -> list[Block]:
    """Return the task panel as blocks, for where no widget runs."""
    out: list[Block] = [PageHead([["b", view["head"]["title"]]], f"as of {view['saved']}")]
    for approval in view["approvals"]:
        out += turn.approval_document(approval)
    for question in view["questions"]:
        out += turn.question_document(question)
    if view["tasks"]:
        out.append(turn.tasks_table(view["tasks"]))
    for row in view["tasks"]:
        words = [Para(row["line"])] if row["line"] else []
        tail = [Pre([["t", "\n".join(row["tail"])]])] if row["tail"] else []
        if words or tail:
            out.append(Fold([["c", row["id"]], ["t", f" {row['word']}"]], (*words, *tail)))
    if view["tree"]:
        out.append(Pre([["t", view["tree"]]]))
    return [*out, *turn.queued_document(view["queued"]), Commands(view["foot"])]


def view(events: Sequence[Event], live: Live | None = None) -> list[Block]:
    """Return the task panel of `%agent tasks` as blocks: a table, then tails, then commands."""
    found = rows(events, live)
    if not found:
        return [PageHead([["b", "No tasks"]]), Commands(["%agent help all"])]
    table = Table(("state", "id", "kind", "task", "elapsed", "tokens"), tuple(map(_cells, found)))
    blocks: list[Block] = [PageHead([["b", title(events)]]), table]
    for row in found:
        words = [Para(row["line"])] if row["line"] else []
        tail = [Pre([["t", "\n".join(row["tail"])]])] if row["tail"] else []
        if words or tail:
            blocks.append(Fold([["c", row["id"]], ["t", f" {row['word']}"]], (*words, *tail)))
    commands = ["%agent output ID", "%agent cancel ID", '%agent send ID "text"', "%agent wait"]
    return [*blocks, Commands(commands)]


def _cells(row: TaskRow) -> tuple[Line, ...]:
    took = row["seconds"]
    return (
        [["t", row["word"]]],
        [["c", row["id"]]],
        [["t", row["kind"]]],
        [["t", row["label"]]],
        [["t", units.seconds(took) if took is not None else "unknown"]],
        [["t", row["size"] or "–"]],
    )
