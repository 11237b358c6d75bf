"""Texts: the text behind a block, fetched from its file by offset and told by its hash.

May not keep text: what is fetched is handed on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

from agent_kernel.frames.assemble import Rec
from agent_kernel.frames.own_rows import digest
from agent_kernel.frames.store import Store
from agent_kernel.frames.unpack import opened


class StaleSource(Exception):
    """The bytes a row came from are not what they were; load again."""


class Texts:
    """Records of a load as JSON objects, one file open at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path: str | None = None
        self._data = b""

    def raw(self, rec: Rec) -> dict[str, Any]:
        """Return the JSON object of a record; {} for a line that is none.

        Raises StaleSource when the file changed there.
        """
        if self._store.live:
            return dict(self._store.events[rec.seq])
        path = self._store.files[rec.file].path
        if path != self._path:
            stream, _ = opened(path)
            with stream:
                self._data = stream.read()
            self._path = path
        line = self._data[rec.offset : rec.offset + rec.bytes]
        if rec.crc and crc32(line.rstrip()) != rec.crc:
            raise StaleSource(f"{path!r} changed at byte {rec.offset}; load it again")
        try:
            value = json.loads(line.decode("utf-8-sig"), strict=False)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def blocks(self, rec: Rec, shas: Iterable[str | None]) -> list[str]:
        """Return the texts of blocks of one record by their hashes; "" for one without."""
        wanted = list(shas)
        missing = {sha for sha in wanted if sha}
        found: dict[str, str] = {}
        for text in candidates(self.raw(rec)):
            if not missing:
                break
            sha = digest(text)
            if sha in missing:
                found[sha] = text
                missing.discard(sha)
        return [found.get(sha or "", "") for sha in wanted]


def candidates(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield every text a block of the record may stand for.

    That is every string; every object as compact JSON (a tool's input); the joined texts of every
    array (a result in parts); the joined strings of an attachment.
    """
    stack: list[Any] = [record]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            if "attachment" in one and isinstance(one["attachment"], dict):
                kept = {key: value for key, value in one["attachment"].items() if key != "type"}
                yield "\n".join(strings(kept))
            for key in ("input", "arguments", "action"):
                if key in one and not isinstance(one[key], str):
                    yield json.dumps(one[key], ensure_ascii=False, separators=(",", ":"))
            stack.extend(one.values())
        elif isinstance(one, list):
            parts = [part["text"] for part in one if _has_text(part)]
            if len(parts) != 1:
                yield "".join(parts)
            stack.extend(one)


def _has_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def strings(value: Any) -> Iterator[str]:
    """Yield every string inside `value`, in order."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            stack.extend(reversed(one.values()))
        elif isinstance(one, list):
            stack.extend(reversed(one))
