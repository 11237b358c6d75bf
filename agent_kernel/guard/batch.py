"""Batch: the guard's decisions over JSON lines, for checking it from outside.

Nothing is executed, fetched or written; each verb reads one object a line and gives one back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from agent_kernel.guard.calls import MODES, Call, Context, Mode
from agent_kernel.guard.evaluate import evaluate
from agent_kernel.guard.rules import Rules, parse_rules


def permit_lines(lines: Iterable[str]) -> Iterator[str]:
    """One verdict a line for `{id, tool, input, rules, mode, cwd, …}`; a bad line gives an error.

    Also read: `headless`, `tainted`, `trusted` (booleans), `root` (the workspace folder).
    """
    return _answers(lines, _permit)


def _answers(
    lines: Iterable[str], verb: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> Iterator[str]:
    """The verb's answer to each line that is not blank, `{id, error}` where it has none."""
    for line in lines:
        if not line.strip():
            continue
        name: Any = None
        try:
            asked = json.loads(line)
            if not isinstance(asked, dict):
                raise TypeError(f"the line is no JSON object: {line[:80]!r}")
            name = asked.get("id")
            answer = {"id": name, **verb(asked)}
        except (ValueError, TypeError, KeyError) as error:
            answer = {"id": name, "error": str(error) or type(error).__name__}
        yield json.dumps(answer, ensure_ascii=True)


def _permit(asked: Mapping[str, Any]) -> dict[str, Any]:
    given = asked.get("rules") or {}
    if not isinstance(given, str | dict):
        raise TypeError(f"rules is {given!r}; give an object or one line")
    rules = _rules(given)
    call = Call(_text(asked, "tool"), _input(asked))
    found = evaluate(call, rules, _mode(asked, rules), _context(asked, rules))
    answer: dict[str, Any] = {
        "verdict": found.verdict,
        "reason": found.reason,
        "stage": found.stage,
    }
    if found.rule:
        answer["rule"] = found.rule
    if found.parts:
        answer["parts"] = list(found.parts)
    return answer


_parsed: dict[str, Rules] = {}


def _rules(given: str | dict[str, Any]) -> Rules:
    """The parsed rules; equal texts are parsed once."""
    key = given if isinstance(given, str) else json.dumps(given, sort_keys=True)
    if key not in _parsed:
        if len(_parsed) > 1_000:
            _parsed.clear()
        _parsed[key] = parse_rules(given)
    return _parsed[key]


def _text(asked: Mapping[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name!r} is {value!r}; give a text")
    return value


def _input(asked: Mapping[str, Any]) -> dict[str, Any] | str:
    value = asked.get("input")
    if not isinstance(value, str | dict):
        raise TypeError(f"'input' is {value!r}; give the tool's input object or a text")
    return value


def _mode(asked: Mapping[str, Any], rules: Rules) -> Mode:
    given = asked.get("mode") or rules.mode or "ask"
    mode = next((mode for mode in MODES if mode == given), None)
    if mode is None:
        raise ValueError(f"mode {given!r} is unknown; use one of {', '.join(MODES)}")
    return mode


def _context(asked: Mapping[str, Any], rules: Rules) -> Context:
    cwd = asked.get("cwd") or rules.cwd or ""
    if not isinstance(cwd, str):
        raise TypeError(f"'cwd' is {cwd!r}; give a folder")
    root = asked.get("root")
    roots = (root,) if isinstance(root, str) and root else ()
    return Context(
        cwd=cwd,
        roots=roots,
        headless=bool(asked.get("headless")),
        tainted=bool(asked.get("tainted")),
        trusted=bool(asked.get("trusted")),
    )


VERBS: Final[Mapping[str, Callable[[Iterable[str]], Iterator[str]]]] = {"permit": permit_lines}
