"""Batch: the guard's decisions over JSON lines, for checking it from outside.

Nothing is executed, fetched or written; each verb reads one object a line and gives one back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import agent_kernel.guard.redact as redact
import agent_kernel.guard.render as render
from agent_kernel.guard.addresses import (
    REDIRECT,
    Refusal,
    Url,
    check_answers,
    check_url,
    stays,
)
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


def _address(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on a URL and on what a resolver answered; nothing is looked up."""
    text, answers = _text(asked, "url"), asked.get("answers")
    if answers is not None and not _are_answers(answers):
        raise TypeError(f"'answers' is {answers!r}; give a list of addresses, or one a lookup")
    redirect = REDIRECT.fullmatch(text.strip())
    first = check_url(redirect[1] if redirect else text, answered=answers is not None)
    if isinstance(first, Refusal):
        return {"verdict": "block", "reason": first.reason}
    if first.literal is not None or answers is None:
        dial = [] if first.literal is None else [str(first.literal)]
    else:
        checked = check_answers(first.host, answers, port=first.port)
        if isinstance(checked, Refusal):
            return {"verdict": "block", "reason": checked.reason}
        dial = [str(address) for address in checked]
    verdict, reason = ("allow", "a public address") if redirect is None else _to(first, redirect[2])
    return {"verdict": verdict, "reason": reason, **({"dial": dial} if dial else {})}


def _are_answers(answers: Any) -> bool:
    return isinstance(answers, list) and all(
        isinstance(item, str)
        or (isinstance(item, list) and all(isinstance(part, str) for part in item))
        for item in answers
    )


def _to(origin: Url, target: str) -> tuple[str, str]:
    after = check_url(target, answered=True)
    if isinstance(after, Refusal):
        return "block", f"redirects to {target!r}: {after.reason}"
    if stays(origin, after):
        return "allow", "a redirect within its origin is followed"
    return "report", f"redirects to {target!r}, another origin: reported, not followed"


def _render(asked: Mapping[str, Any]) -> dict[str, Any]:
    text = asked.get("text")
    if not isinstance(text, str):
        raise TypeError(f"'text' is {text!r}; give a text")
    return {
        "html": render.html(text),
        "markdown": render.markdown(text),
        "plain": render.plain(text),
        "visible": render.visible(text),
    }


def _redact(asked: Mapping[str, Any]) -> dict[str, Any]:
    text, env = asked.get("text"), asked.get("env") or {}
    if not isinstance(text, str):
        raise TypeError(f"'text' is {text!r}; give a text")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise TypeError(f"'env' is {env!r}; give names with their values")
    masked, found = redact.redact(text, redact.Secrets.from_env(env))
    return {"text": masked, "found": [{"kind": kind, "count": count} for kind, count in found]}


VERBS: Final[Mapping[str, Callable[[Iterable[str]], Iterator[str]]]] = {
    "permit": permit_lines,
    "address": lambda lines: _answers(lines, _address),
    "render": lambda lines: _answers(lines, _render),
    "redact": lambda lines: _answers(lines, _redact),
}
