"""Cassette clean: a recorded answer without secrets, also those that lie across many deltas.

May not change an answer in which nothing is found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_DATA = re.compile(rb"(?m)^data: ?(.*)$")
_PIECES = ("text", "thinking", "partial_json")


def clean(data: bytes, redact: Callable[[str], str]) -> bytes:
    """Return an answer's bytes with its secrets masked: as text, then in the joined deltas."""
    text = data.decode("utf-8", "surrogateescape")
    masked = redact(text)
    if masked != text:
        data = masked.encode("utf-8", "surrogateescape")
    return _clean_deltas(data, redact)


def _clean_deltas(data: bytes, redact: Callable[[str], str]) -> bytes:
    lines = list(_DATA.finditer(data))
    events = [_parsed(match[1]) for match in lines]
    joined: dict[tuple[Any, str], list[int]] = {}
    for at, event in enumerate(events):
        for piece in _PIECES:
            if isinstance(_delta(event).get(piece), str):
                joined.setdefault((event.get("index"), piece), []).append(at)
    changed = False
    for (_, piece), places in joined.items():
        whole = "".join(_delta(events[at])[piece] for at in places)
        masked = redact(whole)
        if masked != whole:
            changed = True
            _spread(masked, [_delta(events[at]) for at in places], piece)
    return _written(data, lines, events) if changed else data


def _delta(event: Any) -> dict[str, Any]:
    delta = event.get("delta") if isinstance(event, dict) else None
    return delta if isinstance(delta, dict) else {}


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # a line that is broken in the recording stays as it is


def _spread(text: str, deltas: list[dict[str, Any]], piece: str) -> None:
    """Cut `text` over the deltas by the lengths they had; the last takes the rest."""
    at = 0
    for delta in deltas[:-1]:
        size = len(delta[piece])
        delta[piece] = text[at : at + size]
        at += size
    deltas[-1][piece] = text[at:]


def _written(data: bytes, lines: list[re.Match[bytes]], events: list[Any]) -> bytes:
    out, at = [], 0
    for match, event in zip(lines, events, strict=True):
        out.append(data[at : match.start(1)])
        out.append(match[1] if event is None else json.dumps(event, ensure_ascii=False).encode())
        at = match.end(1)
    return b"".join([*out, data[at:]])
