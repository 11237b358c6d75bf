"""Calls: one row of a turn for each tool call: its state in a word, main argument, numbers, body.

May not decide what is allowed and may not render: a row is plain JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import agent_kernel.widgets.diffs as diffs
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.units as units
from agent_kernel.core.events import (
    FileChanged,
    TaskCreated,
    ToolAsk,
    ToolCall,
    ToolDecision,
    ToolProgress,
    ToolResultEvent,
    ToolStart,
)
from agent_kernel.core.messages import Image, Json, text_of
from agent_kernel.core.usage import estimate
from agent_kernel.widgets.turnview import Body, DiffRow, Glyph, Item, Line, Live

MAIN = {
    "read": "path", "write": "path", "edit": "path", "glob": "pattern", "grep": "pattern",
    "bash": "command", "python": "code", "notebook": "action", "agent": "label",
    "ask": "question", "task_output": "task", "task_stop": "task", "tool_search": "query",
    "skill": "name", "lsp": "symbol", "web_search": "query", "web_fetch": "url",
    "concept_search": "query", "sql": "query", "recall_history": "query", "data_risk": "object",
}  # fmt: skip
"""The input field a tool's row shows; any other tool shows its first text."""
PATHS = frozenset({"path", "file", "url", "file_path"})
CODE = frozenset({"command", "code", "query", "sql"})
SHOWN_LINES = 12
SHOWN_CHARS = 2_000
TAIL_LINES = 3
ROW_CHARS = 240


@dataclass(slots=True)
class Call:
    """Everything the log says of one call, gathered while events are folded."""

    call: ToolCall
    ask: ToolAsk | None = None
    decision: ToolDecision | None = None
    start: ToolStart | None = None
    result: ToolResultEvent | None = None
    progress: list[ToolProgress] = field(default_factory=list)
    changed: list[FileChanged] = field(default_factory=list)
    task: TaskCreated | None = None

    @property
    def input(self) -> Json:
        """The input that runs: the person's edit, else the model's."""
        edited = self.decision.edited_input if self.decision else None
        return edited if edited is not None else self.call.input

    @property
    def waits(self) -> bool:
        """True while a person is asked and has not answered."""
        return self.ask is not None and self.decision is None and self.result is None


def main_field(name: str, given: Mapping[str, object]) -> str | None:
    """Return the input field the row of tool `name` shows: by table, else its first text."""
    if isinstance(given.get(MAIN.get(name, "")), str):
        return MAIN[name]
    return next((key for key, value in given.items() if isinstance(value, str)), None)


def argument(name: str, given: Mapping[str, object]) -> tuple[str, Literal["middle", "end"]]:
    """Return the main argument as one line and where it may be cut: paths in the middle."""
    main = main_field(name, given)
    if name == "todo" and isinstance(given.get("items"), list):
        return _todo(given["items"]), "end"
    if main is None:
        return (hidden.one_line(json.dumps(given))[:ROW_CHARS] if given else ""), "end"
    text = str(given[main])
    line = hidden.one_line(text)
    if main in PATHS:
        return line + _range(given), "middle"
    where = given.get("path")
    if name in {"grep", "glob", "notebook"} and isinstance(where, str):
        line = f"{line} in {hidden.one_line(where)}"
    return (line if len(line) <= ROW_CHARS else line[: ROW_CHARS - 1] + "…"), "end"


def _todo(items: object) -> str:
    rows = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    done = sum(item.get("status") == "done" for item in rows)
    return f"{done} of {len(rows)} done"


def _range(given: Mapping[str, object]) -> str:
    first, limit = given.get("offset"), given.get("limit")
    if not isinstance(limit, int):
        return f" from {first}" if isinstance(first, int) and first > 1 else ""
    start = first if isinstance(first, int) else 1
    return f" {start}-{start + limit - 1}"


def state(call: Call, live: bool) -> tuple[Glyph, str]:
    """Return the glyph and the word of a call's state; `live` False means its turn is over."""
    if call.result is not None:
        return _ended(call, call.result)
    if call.decision is not None and call.decision.verdict == "deny":
        return "off", "denied"
    if call.start is not None:
        return ("run", "running") if live else ("unknown", "outcome unknown")
    if call.waits:
        return ("ask", "waiting for you") if live else ("off", "was waiting")
    return ("none", "next") if live else ("off", "never ran")


_ENDS: dict[str, tuple[Glyph, str]] = {
    "denied": ("off", "denied"),
    "not_started": ("off", "never ran"),
    "outcome_unknown": ("unknown", "outcome unknown"),
    "timeout": ("err", "timed out"),
}
"""States by the `error_kind` of a result's meta (core/session.py, core/batch.py)."""


def _ended(call: Call, result: ToolResultEvent) -> tuple[Glyph, str]:
    if not result.is_error:
        return "ok", "done"
    return _ENDS.get(str(result.meta.get("error_kind")), ("err", "failed"))


def took(call: Call, now: float | None) -> float | None:
    """Return the seconds a call ran, or runs at `now`; None when the log does not say."""
    if call.result is not None:
        said = call.result.meta.get("seconds")
        if isinstance(said, int | float):
            return float(said)
        return call.result.time - call.start.time if call.start is not None else None
    return now - call.start.time if call.start is not None and now is not None else None


def size(result: ToolResultEvent) -> str:
    """Return the tokens of a result; uncounted ones are estimated and marked ~."""
    said = result.meta.get("tokens")
    if isinstance(said, int):
        return units.count(said, "token")
    return "~" + units.count(max(1, estimate(len(text_of(result.content)))), "token")


def row(call: Call, live: Live | None, over: bool) -> Item:
    """Return the row of a call; `over` when its turn has ended."""
    glyph, word = state(call, not over)
    arg, cut = argument(call.call.name, call.input)
    body = _body(call, live, over)
    running = word == "running"
    return {
        "kind": "call",
        "key": call.call.id,
        "glyph": glyph,
        "word": word,
        "name": hidden.one_line(call.call.name),
        "arg": arg,
        "cut": cut,
        "seconds": took(call, live.now if live is not None else None),
        "ticking": running and live is not None,
        "size": size(call.result) if word == "done" and call.result is not None else word,
        "open": running or glyph == "err" or bool(body.get("diff")),
        "body": body,
    }


def _body(call: Call, live: Live | None, over: bool) -> Body:
    body: Body = {}
    code = _code(call)
    if code:
        body["code"] = code
    notes = _notes(call)
    if call.result is not None:
        _result(call, call.result, body, notes)
    elif not over:
        tail = live.tails.get(call.call.id, "") if live is not None else ""
        lines = hidden.output(tail or _said(call)).rstrip("\n").split("\n")[-TAIL_LINES:]
        if any(lines):
            body["tail"] = lines
    if notes:
        body["notes"] = notes
    return body


def _code(call: Call) -> Line | None:
    """Return the whole input where a row cannot show it: long, of lines, or with hidden names."""
    main = main_field(call.call.name, call.input)
    text = str(call.input[main]) if main in CODE else ""
    if call.call.bad_input is not None:
        text = call.call.bad_input
    if not text or ("\n" not in text.strip() and len(text) <= 80 and not hidden.names_in(text)):
        return None
    return hidden.spans(clip(text, 6_000))


def _said(call: Call) -> str:
    for event in reversed(call.progress):
        for key in ("tail", "text", "message"):
            said = (event.model_extra or {}).get(key)
            if isinstance(said, str) and said:
                return said
    return ""


def _result(call: Call, result: ToolResultEvent, body: Body, notes: list[Line]) -> None:
    text = text_of(result.content)
    if result.is_error:
        body["error"] = hidden.output(clip(text, SHOWN_CHARS))
        return
    rows = diff_of(call)
    if rows:
        body["diff"] = rows[: diffs.SHOWN]
        if len(rows) > diffs.SHOWN:
            body["more"] = f"{len(rows) - diffs.SHOWN} more lines"
    elif text:
        body["text"], body["more"] = excerpt(text)
    images = sum(isinstance(block, Image) for block in result.content)
    if images:
        notes.append([["t", f"{units.count(images, 'image')} sent to the model"]])


def diff_of(call: Call) -> list[DiffRow]:
    """Return the diff of an edit or a write: by the result's meta or text, else by its input."""
    meta: Json = call.result.meta if call.result is not None else {}
    said = meta.get("diff")
    if isinstance(said, str) and said.startswith("+"):
        return diffs.added(said)
    if not isinstance(said, str) and call.call.name in {"edit", "write", "notebook"}:
        said = text_of(call.result.content) if call.result is not None else ""
    if isinstance(said, str) and said:
        rows = diffs.unified(said)
        if rows:
            return rows
    return diffs.of_input(call.call.name, call.input)


def excerpt(text: str) -> tuple[str, str]:
    """Return the first lines of a result and the words for the rest ("" when there is none)."""
    head = "\n".join(clip(text, SHOWN_CHARS).split("\n")[:SHOWN_LINES]).rstrip("\n")
    rest = text.rstrip("\n").count("\n") - head.count("\n")
    more = f"{units.count(rest, 'more line')}, all sent to the model" if rest > 0 else ""
    if not more and head.endswith("…") and len(text) > SHOWN_CHARS:
        more = "the rest was sent to the model too"
    return hidden.output(head), more


def clip(text: str, limit: int) -> str:
    """Return `text`, or its first `limit` characters and an ellipsis."""
    return text if len(text) <= limit else text[:limit] + "…"


def _notes(call: Call) -> list[Line]:
    notes: list[Line] = []
    decision = call.decision
    if decision is not None and (decision.verdict == "deny" or decision.edited_input is not None):
        notes.append(_decided(decision))
    if call.task is not None:
        command = f"%agent output {call.task.id}"
        notes.append([["t", f"task {call.task.id} · "], ["c", command]])
    meta = call.result.meta if call.result is not None else {}
    if meta.get("exit_code") not in (None, 0):
        notes.append([["t", f"exit {meta['exit_code']}"]])
    if meta.get("truncated") and isinstance(meta.get("original_bytes"), int):
        kept = f", whole in blob {str(meta['blob'])[:12]}" if meta.get("blob") else ""
        notes.append([["t", f"cut for the model: {meta['original_bytes']:,} bytes{kept}"]])
    if meta.get("taint") in ("web", "mcp", "notebook"):
        notes.append([["t", f"untrusted text from {meta['taint']}"]])
    for event in call.changed:
        hashes = f"{_hash(event.before)} → {_hash(event.after)}"
        notes.append([["c", hidden.one_line(event.path)], ["t", f" {hashes}"]])
    return notes


def _hash(digest: str | None) -> str:
    return f"{digest[:6]}…" if digest else "none"


_BY = {"person": "you", "rule": "a rule", "policy": "policy", "hook": "a hook", "mode": "the mode"}


def _decided(decision: ToolDecision) -> Line:
    who = _BY[decision.by]
    if decision.verdict == "allow":
        return [["t", f"input edited by {who} before it ran"]]
    line: Line = [["t", f"denied by {who}"]]
    if decision.rule:
        line += [["t", " "], ["c", hidden.one_line(decision.rule)]]
    if decision.reason:
        line.append(["t", f": {hidden.one_line(decision.reason)}"])
    return line


def short_id(call_id: str) -> str:
    """Return the end of a call's id as commands take it: its last 6 letters and digits."""
    plain = re.sub(r"[^A-Za-z0-9]", "", call_id)
    return plain[-6:] if len(plain) > 8 else hidden.one_line(call_id)
