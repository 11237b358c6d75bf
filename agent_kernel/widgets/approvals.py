"""Approvals: what a person reads and may press before a call runs.

May not decide and may not shorten: a long text is folded in three parts, never cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import agent_kernel.widgets.diffs as diffs
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.units as units
from agent_kernel.core.messages import Json
from agent_kernel.widgets.calls import Call, diff_of, main_field, short_id
from agent_kernel.widgets.turnview import Approval, Ask, Choice, Glyph, Line, Shown

WHOLE, HEAD, TAIL = 600, 300, 160
"""Characters: shown whole up to WHOLE, above that HEAD and TAIL with the middle folded."""
_LEVELS = {"", "low", "medium", "none"}
_STAGES = {
    "ask": "an ask rule",
    "headless": "the mode, nobody being here",
    "path": "the path check",
    "address": "the address check",
    "taint": "untrusted text in view",
    "budget": "the budget",
    "repeat": "the repeat guard",
    "risk": "the high-risk list",
}
_EDITED = {"edit": "new", "write": "content", "notebook": "source"}
"""Tools whose card is a diff, with the input field that Edit… opens."""

_WHOLE = {("bash", "command"), ("python", "code")}


def approval(call: Call, ask: Ask | None, mode: str, live: bool) -> Approval:
    """Return the card of a call that waits, or waited; without `ask` no answer can be taken."""
    asked = call.ask
    assert asked is not None
    name = call.call.name
    high = bool(asked.risk) and str(asked.risk).lower() not in _LEVELS
    stale = ask.stale if ask is not None else ""
    rows = diffs.unified(ask.diff) if ask is not None and ask.diff else diff_of(call)
    shown, edit, note = None, None, ""
    if rows and name in _EDITED:
        field = _EDITED[name]
        edit = {"field": field, "text": str(call.input.get(field, ""))}
    else:
        rows = []
        shown, edit, note = _exact(call)
    glyph, word, title = _title(name, high, stale, live, edits=bool(rows))
    short = short_id(call.call.id)
    rules = list(ask.rules) if ask is not None else []
    python = name == "python" and not high
    return {
        "id": call.call.id,
        "short": short,
        "nonce": ask.nonce if ask is not None and live else "",
        "hash": ask.hash if ask is not None else call.call.input_hash,
        "tool": hidden.one_line(name),
        "glyph": glyph,
        "word": word,
        "title": title,
        "path": _path(call) if rows else "",
        "note": note,
        "asked": _asked(call, mode),
        "shown": shown,
        "diff": rows,
        "bullets": _bullets(call, ask, high),
        "choices": _choices(python, bool(stale), rules, edit is not None),
        "rules": [hidden.one_line(rule) for rule in rules],
        "edit": edit,
        "stale": hidden.one_line(stale),
        "commands": _commands(short, python),
        "answered": not live,
    }


def _title(name: str, high: bool, stale: str, live: bool, *, edits: bool) -> tuple[Glyph, str, str]:
    tool = hidden.one_line(name)
    if not live:
        return "off", "inactive", f"Was waiting: {tool}"
    if stale:
        return "stale", "stale", f"Stale: {tool}"
    asks = {"bash": "run this bash command?", "python": "run Python in this kernel?"}
    words = asks.get(name, f"{tool} this file?" if edits else f"run {tool}?")
    if high:
        return "risk", "high risk", f"High risk: {words}"
    return "ask", "waiting for you", words[:1].upper() + words[1:]


def _path(call: Call) -> str:
    for key in ("path", "file", "file_path"):
        if isinstance(call.input.get(key), str):
            return hidden.one_line(str(call.input[key]))
    return ""


def _exact(call: Call) -> tuple[Shown, dict[str, str], str]:
    """Return the exact text in its parts, what Edit… opens, and the size when it was folded."""
    text, field = whole(call.call.name, call.input)
    shown = fold(text)
    note = f"{len(text):,} characters" if shown["hidden"] else ""
    return shown, {"field": field, "text": text.encode("utf-8", "replace").decode()}, note


def exact(name: str, given: Json) -> Line:
    """Return the exact text of a call: its command or code, else its whole input as JSON."""
    return hidden.spans(whole(name, given)[0])


def whole(name: str, given: Json) -> tuple[str, str]:
    """Return the exact text of a call and the input field it is, "" for the whole input."""
    main = main_field(name, given)
    alone = main is not None and len([v for v in given.values() if v is not None]) == 1
    if main is not None and (alone or (name, main) in _WHOLE):
        return str(given[main]), main
    return json.dumps(given, ensure_ascii=False, indent=2), ""


def fold(text: str) -> Shown:
    """Return `text` whole up to 600 characters, else its first 300, its middle and its last 160."""
    if len(text) <= WHOLE:
        return {"head": hidden.spans(text), "middle": [], "tail": [], "hidden": 0}
    middle = text[HEAD:-TAIL]
    return {
        "head": hidden.spans(text[:HEAD]),
        "middle": hidden.spans(middle),
        "tail": hidden.spans(text[-TAIL:]),
        "hidden": len(middle),
    }


def _asked(call: Call, mode: str) -> Line:
    ask = call.ask
    assert ask is not None
    if ask.rule:
        return [["t", "asked by rule "], ["c", hidden.one_line(ask.rule)]]
    if ask.stage in _STAGES:
        return [["t", f"asked by {_STAGES[ask.stage]}"]]
    return [["t", "asked by mode "], ["c", mode]]


def _bullets(call: Call, ask: Ask | None, high: bool) -> list[Line]:
    asked = call.ask
    assert asked is not None
    out: list[Line] = []
    if high:
        out += [hidden.spans(line) for line in str(asked.risk).split("\n") if line.strip()]
    if call.call.name == "python":
        out.append([["t", "It can do whatever you can: your variables, files and network."]])
    if asked.reason and asked.reason != asked.risk:
        out.append(hidden.spans(" ".join(asked.reason.split())))
    extra = ask.bullets if ask is not None else ()
    out += [hidden.spans(line) for line in extra]
    for part in asked.parts:
        if part not in asked.reason and part not in call.input.values():
            out.append([["t", "Asks for: "], *_code(part)])
    names = [name for text in _strings(call.input) for name in hidden.names_in(text)]
    if names:
        line: Line = [["t", f"Holds {units.count(len(names), 'character')} that may hide text: "]]
        for at, name in enumerate(dict.fromkeys(names)):
            line += [["t", ", "]] if at else []
            line.append(["x", name])
        out.append(line)
    return out


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _code(text: str) -> Line:
    return [["c" if kind == "t" else kind, piece] for kind, piece in hidden.spans(text)]


def _choices(python: bool, stale: bool, rules: list[str], editable: bool) -> list[Choice]:
    once: Choice = {"type": "approve", "label": "Allow once", "send": {"scope": "once"}}
    if stale:
        again: Choice = {"type": "rediff", "label": "Make the diff again", "send": {}}
        return [again, once]
    out: list[Choice] = [once]
    if python:
        turn: Choice = {
            "type": "approve",
            "label": "Allow Python for this turn",
            "primary": True,
            "send": {"scope": "turn"},
        }
        out.insert(0, turn)
    elif rules:
        out.append({"type": "rules", "label": "Allow rule…", "send": {"scope": "rule"}})
    if editable:
        out.append({"type": "edit", "label": "Edit…", "send": {}})
    return out


def _commands(short: str, python: bool) -> list[str]:
    allow = [f"%agent approve {short} --turn"] if python else []
    return [*allow, f"%agent approve {short}", f'%agent deny {short} "why"']
