"""Demo summary: a compaction's summary filled from the transcript by rules.

May not invent: every line is a quotation or a count of what stands in the request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent_kernel.providers.demo_transcript import blocks, result_text

# The headings of compaction design, section 6, in order.
HEADINGS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code",
    "Errors and Fixes",
    "Pending Tasks",
    "Current Work",
    "Next Step",
    "Critical Context",
)
_PATH = re.compile(r"(?<![\w/.])(?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,7}\b")


def asks_for_summary(last_text: str) -> bool:
    """Return whether the last user text is a summary instruction: it names most headings."""
    return sum(heading in last_text for heading in HEADINGS) >= 6


def summary(body: Mapping[str, Any]) -> str:
    """Return a summary with every heading, from the messages before the instruction."""
    messages = [m for m in body.get("messages") or () if isinstance(m, Mapping)][:-1]
    asked, calls, errors = _gather(messages)
    names = sorted({name for name, _ in calls})
    paths = sorted({p for _, value in calls for p in _paths(value)})
    last = next((t for m in reversed(messages) for t in _said(m, "assistant")), "None")
    parts = {
        "Primary Request and Intent": _lines(asked[:3]),
        "Key Technical Concepts": _lines(f"tool {name}" for name in names),
        "Files and Code": _lines(paths[:40]),
        "Errors and Fixes": _lines(errors[-10:]),
        "Pending Tasks": "None",
        "Current Work": _lines(asked[-1:]),
        "Next Step": _lines([_short(last)]),
        "Critical Context": f"- {len(messages)} messages, {len(calls)} tool calls so far",
    }
    return "\n\n".join(f"## {heading}\n{parts[heading]}" for heading in HEADINGS)


def _gather(messages: list[Mapping[str, Any]]) -> tuple[list[str], list[Any], list[str]]:
    asked, calls, errors = [], [], []
    for message in messages:
        asked += [_short(t) for t in _said(message, "user") if not t.lstrip().startswith("<")]
        for block in blocks(message):
            if block.get("type") == "tool_use":
                calls.append((str(block.get("name")), block.get("input")))
            elif block.get("type") == "tool_result" and block.get("is_error"):
                errors.append(_short(result_text(block)))
    return asked, calls, errors


def _said(message: Mapping[str, Any], role: str) -> list[str]:
    if message.get("role") != role:
        return []
    return [str(b.get("text")) for b in blocks(message) if b.get("type") == "text"]


def _paths(value: Any) -> list[str]:
    if isinstance(value, str):
        return _PATH.findall(value)
    if isinstance(value, Mapping):
        return [path for inner in value.values() for path in _paths(inner)]
    return [path for inner in value for path in _paths(inner)] if isinstance(value, list) else []


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


def _lines(values: Any) -> str:
    return "\n".join(f"- {value}" for value in values) or "None"
