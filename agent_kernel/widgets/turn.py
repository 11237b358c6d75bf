"""Turn: a TurnView as static blocks, the twin that reads where no widget runs.

May not say more or less than the widget does: same order, same words, buttons as their commands.
"""

from __future__ import annotations

from collections.abc import Sequence

import agent_kernel.widgets.units as units
from agent_kernel.widgets.doc import (
    Block,
    Commands,
    Diff,
    Fold,
    Head,
    Items,
    Para,
    Pre,
    Prose,
    Table,
)
from agent_kernel.widgets.turnview import (
    Approval,
    Asked,
    Body,
    Item,
    Line,
    Note,
    Queued,
    TaskRow,
    TurnView,
)

_TYPED = {"stop": "%agent stop", "background": "%agent background"}


def document(view: TurnView) -> list[Block]:
    """Return the blocks of a turn in reading order."""
    out: list[Block] = [Para([["d", f"Saved view of {view['saved']}."]])]
    head = view["head"]
    if head is not None:
        out.append(Head([["t", f"{head['title']}, when saved"]], head.get("note", "")))
        typed = [_TYPED[a["type"]] for a in head["actions"] if a["type"] in _TYPED]
        out += [Commands(typed)] if typed else []
    for note in view["notes"]:
        out += _note(note)
    out += [_item(item) for item in view["items"]]
    if view["todo"]:
        out += [Head([["t", "Todo"]]), Items([_todo(item) for item in view["todo"]])]
    for approval in view["approvals"]:
        out += _approval(approval)
    for question in view["questions"]:
        out += question_document(question)
    if view["tasks"]:
        out.append(tasks_table(view["tasks"]))
    out += queued_document(view["queued"])
    if view["phases"]:
        out.append(Para([["d", view["phases"]]]))
    out.append(Para([["d", " · ".join(view["footer"])]]))
    return out


def _note(note: Note) -> list[Block]:
    out: list[Block] = [Para(line) for line in note["lines"]]
    return [*out, Commands(note["commands"])] if note["commands"] else out


def _item(item: Item) -> Block:
    match item["kind"]:
        case "text":
            return Prose(item["md"])
        case "note":
            return Para([["d", f"{item['word']}: "], *item["line"]])
        case "group":
            return Fold(_row(item), [_item(one) for one in item["items"]])
    blocks = body(item.get("body", {}))
    return Fold(_row(item), blocks, item["open"]) if blocks else Para(_row(item))


def _row(item: Item) -> Line:
    line: Line = [["b", item.get("name") or item["word"]]]
    if item.get("arg"):
        line += [["t", " "], ["c", item["arg"]]]
    seconds = item.get("seconds")
    if seconds is not None:
        line.append(["t", f" · {units.seconds(seconds)}"])
    size = "running when saved" if item.get("size") == "running" else item.get("size")
    return [*line, ["t", f" · {size}"]] if size else line


def body(content: Body) -> list[Block]:
    """Return what a row shows unfolded as blocks."""
    out: list[Block] = []
    if content.get("code"):
        out.append(Pre(content["code"]))
    if content.get("diff"):
        out.append(Diff(content["diff"]))
    said = content.get("error") or content.get("text")
    if said:
        out.append(Pre([["t", said]]))
    if content.get("tail"):
        out.append(Pre([["t", "\n".join(content["tail"])]]))
    if content.get("more"):
        out.append(Para([["d", f"… {content['more']}"]]))
    return out + [Para(line) for line in content.get("notes", [])]


def _todo(item: dict[str, str]) -> Line:
    blocked = f" (waits for {item['blocked']})" if item["blocked"] else ""
    return [["t", f"{item['status']}: {item['text']}{blocked}"]]


def _approval(card: Approval) -> list[Block]:
    title = f"{card['title']} {card['path']}".strip()
    note = ", ".join(part for part in (card["note"], _words(card["asked"])) if part)
    out: list[Block] = [Head([["t", title]], note)]
    if card["stale"]:
        out.append(Para([["t", card["stale"]]]))
    if card["diff"]:
        out.append(Diff(card["diff"]))
    shown = card["shown"]
    if shown is not None:
        out.append(Pre([*shown["head"], *shown["middle"], *shown["tail"]]))
    out += [Items(card["bullets"])] if card["bullets"] else []
    if card["answered"]:
        out.append(Para([["t", "Never answered, so it never ran."]]))
    return [*out, Commands(card["commands"])]


def _words(line: Line) -> str:
    return "".join(text for _, text in line)


def question_document(question: Asked) -> list[Block]:
    """Return the blocks of one question of the model."""
    out: list[Block] = [Head([["t", question["title"]]]), Prose(question["md"])]
    if question["options"]:
        options = enumerate(question["options"], 1)
        out.append(Items([[["t", f"{number}. {option}"]] for number, option in options]))
    if question["answered"]:
        out.append(Para([["t", "Never answered."]]))
    return [*out, Commands(question["commands"])]


def queued_document(items: Sequence[Queued]) -> list[Block]:
    """Return the blocks of words that wait for the next step."""
    return [Para([["d", "waits to be read: "], ["t", item["text"]]]) for item in items]


def tasks_table(tasks: Sequence[TaskRow]) -> Table:
    """Return the rows of tasks as a table."""
    rows: list[Sequence[Line]] = []
    for task in tasks:
        took = task["seconds"]
        cells: list[Line] = [
            [["t", task["word"]]],
            [["c", task["id"]]],
            [["b", task["kind"]], ["t", f" {task['label']}"]],
            [["t", units.seconds(took) if took is not None else "unknown"]],
            [["t", task["size"] or "–"]],
        ]
        rows.append(cells)
    return Table(("state", "id", "task", "elapsed", "tokens"), rows)


def approval_document(card: Approval) -> list[Block]:
    """Return the blocks of one approval alone."""
    return _approval(card)
