"""Cassette keys: what makes two requests the same, and where two requests first differ.

May not read a file or a socket; every function is pure in its arguments.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_kernel.core.messages import Json, canonical

Canonicaliser = Callable[[Any], Any]
_LEFT_OUT = ("metadata", "diagnostics")  # fields that say who asks, not what
_DATE = re.compile(
    r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?\b"
)
_UUID = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE
)
_SECONDS = re.compile(r"\b\d+(?:\.\d+)?(?: ?(?:s|ms|sec|seconds|milliseconds))\b")


def texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with every string inside it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [texts(inner, change) for inner in value]
    return value


def standard(cwd: Path | None = None, home: Path | None = None) -> dict[str, Canonicaliser]:
    """Return the canonicalisers by name: what differs between two runs of the same work."""
    here, there = str(cwd or Path.cwd()), str(home or Path.home())
    return {
        "cwd": lambda body: texts(body, lambda t: t.replace(here, "[cwd]")),
        "dates": lambda body: texts(body, lambda t: _DATE.sub("[date]", t)),
        "home": lambda body: texts(body, lambda t: t.replace(there, "[home]")),
        "tool_ids": _tool_ids,
        "tool_seconds": lambda body: _in_results(body, lambda t: _SECONDS.sub("[seconds]", t)),
        "uuids": lambda body: texts(body, lambda t: _UUID.sub("[uuid]", t)),
    }


def _tool_ids(body: Any) -> Any:
    """Tool-use ids become tool-1, tool-2 … by first use."""
    names: dict[str, str] = {}

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(inner) for inner in value]
        if not isinstance(value, Mapping):
            return value
        out = {key: walk(inner) for key, inner in value.items()}
        for key in ("id", "tool_use_id"):
            used = key == "tool_use_id" or value.get("type") == "tool_use"
            if used and isinstance(value.get(key), str):
                out[key] = names.setdefault(value[key], f"tool-{len(names) + 1}")
        return out

    return walk(body)


def _in_results(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with the strings inside its tool results changed."""
    if isinstance(value, list):
        return [_in_results(inner, change) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if value.get("type") == "tool_result":
        return {**value, "content": texts(value.get("content"), change)}
    return {key: _in_results(inner, change) for key, inner in value.items()}


def canonical_body(
    body: Any, canonicalisers: Mapping[str, Canonicaliser], redact: Callable[[str], str]
) -> Any:
    """Return the part of a request body that makes its key, secrets masked."""
    if isinstance(body, Mapping):
        body = {key: value for key, value in body.items() if key not in _LEFT_OUT}
    body = texts(body, redact)
    for name in sorted(canonicalisers):
        body = canonicalisers[name](body)
    return body


def key_of(method: str, path: str, body: Any) -> str:
    """Return the SHA-256 (hex) of method, path and canonical body."""
    made = f"{method} {path}\n".encode() + canonical(body)
    return hashlib.sha256(made).hexdigest()


def first_difference(a: Any, b: Any, path: str = "$") -> tuple[str, Any, Any] | None:
    """Return the first place, in key order, where two JSON values differ, and both values."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted({*a, *b}):
            found = first_difference(a.get(key), b.get(key), f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        for at in range(max(len(a), len(b))):
            left = a[at] if at < len(a) else None
            right = b[at] if at < len(b) else None
            found = first_difference(left, right, f"{path}[{at}]")
            if found:
                return found
        return None
    return None if a == b else (path, a, b)


def nearest(body: Json, others: list[Any]) -> int | None:
    """Return the index of the body that shares the longest canonical beginning with `body`."""
    wanted = canonical(body)
    shared = [_shared(wanted, canonical(other)) for other in others]
    return max(range(len(shared)), key=lambda i: shared[i]) if shared else None


def _shared(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def cut(value: Any, size: int = 80) -> str:
    """Return a value as text of at most `size` characters."""
    text = value if isinstance(value, str) else canonical(value).decode()
    return repr(text if len(text) <= size else text[: size - 1] + "…")
