"""Demo intents: a prompt, English or Chinese, read into what to do, in its order.

May not see the transcript: the same prompt always gives the same intents.
"""

from __future__ import annotations

import re
from functools import cache

from agent_kernel.providers.demo_makers import BARE_PATH, Intent, Maker, with_path
from agent_kernel.providers.demo_rules import RULES


def chinese(text: str) -> bool:
    """Return whether `text` is to be answered in Chinese."""
    return re.search(r"[\u4e00-\u9fff]", text) is not None


def intents_of(prompt: str) -> list[Intent]:
    """Return the intents of a prompt in order; [] when no rule knows any of its words."""
    found: list[tuple[int, int, int, Intent]] = []
    for rank, (pattern, make) in enumerate(_rules()):
        for match in pattern.finditer(prompt):
            intent = make(match)
            if intent is not None:
                found.append((match.start(), rank, match.end(), intent))
    out: list[Intent] = []
    reached = 0
    path = ""
    at = 0
    for start, _, end, intent in sorted(found, key=lambda each: each[:2]):
        if start < reached:
            continue
        path = _last_path(prompt[at:start]) or path
        out.append(with_path(intent, path))
        path = out[-1].path or path
        at, reached = start, end
    return out


def _last_path(text: str) -> str:
    """The file a text names last; words in quotes may be anything."""
    paths: list[str] = _path_pattern().findall(text)
    return paths[-1].lstrip("@") if paths else ""


@cache
def _path_pattern() -> re.Pattern[str]:
    return re.compile(BARE_PATH)


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Maker], ...]:
    """The rules compiled, at the first prompt: it costs more than all the rest of the demo."""
    return tuple((re.compile(text, re.IGNORECASE | re.MULTILINE), make) for text, make in RULES)
