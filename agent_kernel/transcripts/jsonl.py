"""Lines: a JSONL file as (offset, raw line, parsed object or what is wrong with it).

May not know any harness's fields. Lines end at byte LF only: U+2028 and U+0085 are text.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from agent_kernel.transcripts.rows import Issue, sample

HUGE = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class Parsed(NamedTuple):
    """A line: where it stands, its bytes, the object (None when there is none) and its status."""

    offset: int
    raw: bytes
    value: dict[str, Any] | None
    status: str


def parse(raw: bytes) -> Any:
    """Return the JSON value of `raw`; raises ValueError when it is none.

    What orjson refuses and JSON writers do produce is read by the stdlib: a lone surrogate escape,
    a raw control character, NaN, a number beyond 64 bits.
    """
    try:
        return _load(raw)
    except (ValueError, RecursionError):
        try:
            return json.loads(raw.decode("utf-8"), strict=False)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def dumps(value: Any) -> str:
    """Return `value` as JSON without spaces, text unescaped."""
    try:
        return str(_dump(value))
    except TypeError:  # orjson refuses a lone surrogate and a number beyond 64 bits
        return _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _codec() -> tuple[Any, Any]:
    """Return (loads, dumps) of orjson when it is installed, else of the stdlib; equal values."""
    if importlib.util.find_spec("orjson") is None:
        return json.loads, _plain
    orjson = importlib.import_module("orjson")
    return orjson.loads, lambda value: orjson.dumps(value).decode()


_load, _dump = _codec()


def lines(file: BinaryIO, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line without blank lines) from byte `start`; offsets count unpacked bytes."""
    offset = start
    for raw in file:
        if offset == 0 and raw.startswith(_BOM):
            yield offset, b"   " + raw[3:]
        elif not raw.isspace():
            yield offset, raw
        offset += len(raw)


def parsed(file: BinaryIO, start: int = 0) -> Iterator[Parsed]:
    """Yield every line that is not blank with its object and status.

    Status is ok, bad_json, torn (the last line, without its LF) or not_object.
    """
    for offset, raw in lines(file, start):
        yield parsed_line(offset, raw)


def parsed_line(offset: int, raw: bytes) -> Parsed:
    """Return one line with its object and status."""
    try:
        value = parse(raw)
    except ValueError:
        return Parsed(offset, raw, None, "bad_json" if raw.endswith(b"\n") else "torn")
    if not isinstance(value, dict):
        return Parsed(offset, raw, None, "not_object")
    return Parsed(offset, raw, value, "ok")


_WRONG = {
    "bad_json": ("bad_json", "the line is not JSON; it is kept as a record without fields"),
    "torn": ("torn_tail", "the last line is cut; the next append may complete it"),
    "not_object": ("not_object", "the line is JSON but no object; it is kept without fields"),
}


def line_issue(line: Parsed) -> Issue | None:
    """Return the finding a line deserves by its status and size, None when it is whole."""
    size = len(line.raw)
    if line.status in _WRONG:
        code, message = _WRONG[line.status]
        return Issue(code, line.offset, size, message, sample(line.raw))
    if size > HUGE:
        return Issue("huge_line", line.offset, size, f"one line of {size} bytes")
    return None
