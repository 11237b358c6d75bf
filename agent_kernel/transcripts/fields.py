"""Fields: what a stranger's JSON value may be taken for; anything else is None, never an exception.

May not decide what a field means.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

_LIMIT = 2**62


def text(value: Any) -> str | None:
    """Return `value` when it is a string that says something."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """Return `value` as a count of tokens, bytes or items; None when it is not one."""
    if type(value) is int:  # nearly all are, and there are many
        return value if 0 <= value < _LIMIT else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LIMIT:
        return None
    return int(value)


def seconds(value: Any) -> float | None:
    """Return `value` as seconds; None when it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LIMIT:
        return None
    return float(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` when it is an object, an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return `value` when it is an array, an empty one otherwise."""
    return value if isinstance(value, list) else []


def moment(value: Any) -> int | None:
    """Return milliseconds since 1970 UTC of an ISO 8601 string, or of epoch (milli)seconds."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return round(when.timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e14:
        return None
    return round(value) if value > 1e11 else round(value * 1000)


def digest(value: str) -> str:
    """Return 16 hex digits of the BLAKE2b of `value`."""
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
