"""Values: what a part's cell or a mark's field may hold; anything else counts as unknown.

May not raise: a stranger's reader and a damaged log may say anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WHOLE = frozenset(
    "offset bytes time flags crc seq turn step input output write_5m write_1h read thinking "
    "searches chars block spilled width height pre post dropped saved hidden depth exit_code "
    "first_seq start end node summary_chars attempt window tokens_estimated".split()
)
_SIGNED = frozenset(["time", "offset", "exit_code"])
_FRACTION = frozenset(["ttft", "seconds", "usd", "waited", "wait"])
_YES_NO = frozenset(
    "sidechain nested is_error interrupted background precomputed notice append".split()
)
_LISTS = frozenset(["kept", "cleared", "calls", "tool_use_ids", "cites"])
_OBJECTS = frozenset(["restores"])
_NUMBERS = frozenset(["sources"])
_LIMIT = 2**62


def kind_of(column: str) -> str:
    """Return what a column of a part holds: b yes/no, i whole, f fraction, s text."""
    if column in _YES_NO:
        return "b"
    if column in _WHOLE:
        return "i"
    return "f" if column in _FRACTION else "s"


def clean(name: str, value: Any) -> Any:
    """Return `value` when it is what a column or field `name` holds, None when it is not."""
    if value is None:
        return None
    if name in _YES_NO:
        return value if isinstance(value, bool) else None
    if name in _WHOLE or name in _FRACTION:
        return _number(name, value)
    if name in _LISTS:
        return [one for one in value if isinstance(one, str)] if isinstance(value, list) else None
    if name in _NUMBERS:
        return [one for one in value if isinstance(one, int)] if isinstance(value, list) else None
    if name in _OBJECTS:
        return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else None
    return value if isinstance(value, str) else None


def _number(name: str, value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -_LIMIT < value < _LIMIT or (value < 0 and name not in _SIGNED):
        return None
    return int(value) if name in _WHOLE else float(value)


def clean_mark(data: Any) -> dict[str, Any]:
    """Return the fields of a mark that hold what they may."""
    if not isinstance(data, Mapping):
        return {}
    cleaned = {str(key): clean(str(key), value) for key, value in data.items()}
    return {key: value for key, value in cleaned.items() if value is not None}
