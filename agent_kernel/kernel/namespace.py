"""Namespace: the user's names, their kinds and fingerprints, and what changed between two looks.

May not show a value: names, types, shapes and hashes leave; `describe` is an act of the person.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Mapping
from typing import Any

from agent_kernel.core.messages import Json

_HIDDEN = {"In", "Out", "exit", "quit", "get_ipython", "open"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
DESCRIBE_CHARS = 4_000
_ROWS = 5
_SAMPLE = 1 << 16  # bytes hashed of one array


def snapshot(space: Mapping[str, Any]) -> Json:
    """Return {name: {type, shape?, print}} of the person's own names, modules left out."""
    out: Json = {}
    for name, value in sorted(space.items()):
        if name.startswith("_") or name in _HIDDEN or isinstance(value, types.ModuleType):
            continue
        out[name] = _facts(value)
    return out


def _facts(value: Any) -> Json:
    facts: Json = {"type": type(value).__name__}
    shape = _shape(value)
    if shape is not None:
        facts["shape"] = shape
    facts["print"] = _fingerprint(value, facts)
    return facts


def _shape(value: Any) -> list[int] | None:
    if isinstance(value, (list, dict, set, tuple, frozenset)):
        return [len(value)]
    found = getattr(value, "shape", None)
    if isinstance(found, tuple) and all(isinstance(part, int) for part in found):
        return list(found)
    return None


def _fingerprint(value: Any, facts: Json) -> str:
    """Return 12 hex digits: of the value where that is cheap, else of its type and shape alone."""
    made = hashlib.blake2b(repr(sorted(facts.items())).encode(), digest_size=6)
    if isinstance(value, _PLAIN):
        made.update(repr(value)[:_SAMPLE].encode("utf-8", "surrogatepass"))
    elif isinstance(value, (list, tuple)) and all(isinstance(v, _PLAIN) for v in value[:50]):
        made.update(repr(value[:50]).encode("utf-8", "surrogatepass"))
    elif isinstance(value, dict):
        made.update(repr(list(value)[:50]).encode("utf-8", "surrogatepass"))
    elif isinstance(value, types.FunctionType):
        made.update(value.__code__.co_code)
    else:
        made.update(_array_bytes(value))
    return made.hexdigest()


def _array_bytes(value: Any) -> bytes:
    """Return bytes that stand for a frame's or an array's content, b"" for anything else."""
    kind = type(value).__module__.partition(".")[0]
    if kind == "numpy" and hasattr(value, "tobytes") and getattr(value, "size", 0) <= 1 << 20:
        return bytes(value.tobytes()[:_SAMPLE])
    if kind == "pandas" and getattr(value, "size", 1 << 30) <= 1 << 20:
        columns = [str(name) for name in getattr(value, "columns", ())]
        ends = value.head(50), value.tail(50)
        return repr((columns, [end.to_json() for end in ends])).encode("utf-8", "surrogatepass")
    return b""


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Json:
    """Return {added, changed, removed} between two snapshots; the first two hold the new facts."""
    return {
        "added": {name: now[name] for name in now if name not in before},
        "changed": {n: now[n] for n in now if n in before and now[n] != before[n]},
        "removed": [name for name in before if name not in now],
    }


def in_words(change: Json) -> str:
    """Return a change as lines `+ df DataFrame 120 × 8`, `~ model Model`, `- tmp`, or ""."""
    lines = [f"+ {name} {kind_words(facts)}" for name, facts in change["added"].items()]
    lines += [f"~ {name} {kind_words(facts)}" for name, facts in change["changed"].items()]
    lines += [f"- {name}" for name in change["removed"]]
    return "\n".join(lines)


def worded(change: Json) -> Json:
    """Return a change with each name's facts as words, as tool results hold it."""
    named = ("added", "changed")
    out: Json = {key: {n: kind_words(facts) for n, facts in change[key].items()} for key in named}
    return {**out, "removed": change["removed"]}


def kind_words(facts: Json) -> str:
    """Return a name's facts in words: its type, and its shape where it has one."""
    shape = facts.get("shape")
    return f"{facts['type']} {' × '.join(map(str, shape))}" if shape else str(facts["type"])


def describe(name: str, value: Any) -> str:
    """Return what writing $`name` hands over: of a frame columns, dtypes, shape, first rows."""
    columns, dtypes = getattr(value, "columns", None), getattr(value, "dtypes", None)
    if columns is not None and dtypes is not None and hasattr(value, "head"):
        kinds = ", ".join(f"{column} {kind}" for column, kind in zip(columns, dtypes, strict=False))
        rows = value.head(_ROWS).to_string(max_colwidth=80)
        text = f"{type(value).__name__} {' × '.join(map(str, value.shape))}\n{kinds}\n{rows}"
    else:
        text = value if isinstance(value, str) else repr(value)
    if len(text) > DESCRIBE_CHARS:
        left = len(text) - DESCRIBE_CHARS
        text = f"{text[:DESCRIBE_CHARS]}\n[{left:,} more characters of {name} left out]"
    return text


def frames_in(space: Mapping[str, Any]) -> Json:
    """Return the pandas DataFrames of a namespace by name, those that are SQL names."""
    return {
        name: value
        for name, value in list(space.items())
        if not name.startswith("_")
        and type(value).__name__ == "DataFrame"
        and type(value).__module__.partition(".")[0] == "pandas"
    }
