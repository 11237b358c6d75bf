"""Own notebooks: a saved notebook's session: the log beside it, inside it, or its turn records.

May not follow a sidecar name that leaves the notebook's folder.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from agent_kernel.frames.own import OwnRows
from agent_kernel.frames.reader import PARTS, Part
from agent_kernel.frames.values import clean

KEY = "agent_kernel"
_NAME = re.compile(r"[^/\\:\x00-\x1f]+\.jsonl")
_MOST = 1 << 30  # an embedded log larger than this is not unpacked
Json = dict[str, Any]


class OwnNotebook:
    """The reader of notebooks with agent turns whose log does not lie beside them."""

    name = "notebook"

    def sniff(self, path: str, head: bytes) -> tuple[float, str] | None:
        """Return (0.9, schema) for a notebook whose metadata hold our key.

        They stand at its end, so it is read whole.
        """
        if not path.endswith(".ipynb") or not head.lstrip().startswith(b"{"):
            return None
        return (0.9, "1") if own_metadata(path) is not None else None

    def parts(self, file: BinaryIO, start: int, want: frozenset[str]) -> Iterator[Part]:
        """Yield the parts of the embedded log, else of the turn records with issue log_missing."""
        if start:
            file.seek(0)
        rows = OwnRows()
        held = _metadata(file.read())
        log = embedded_log(held)
        if log is not None:
            offset = 0
            for raw in io.BytesIO(log):
                rows.take_line(offset, raw)
                offset += len(raw)
        else:
            _turn_records(rows, held)
        for name in PARTS:
            if name in want and rows.rows[name]:
                yield name, rows.columns(name)


def own_metadata(path: str) -> Json | None:
    """Return what a notebook's metadata hold under our key, None when it is none of ours."""
    try:
        return _metadata(Path(path).read_bytes()) or None
    except OSError:
        return None


def _metadata(data: bytes) -> Json:
    try:
        notebook = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    held = metadata.get(KEY) if isinstance(metadata, dict) else None
    return held if isinstance(held, dict) else {}


def sidecar(path: str, held: Mapping[str, Any]) -> str | None:
    """Return the real path of the log beside a notebook, None when it is not there."""
    name = held.get("sidecar")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    place = Path(path).with_name(name)
    return str(place.resolve()) if place.is_file() and not place.is_symlink() else None


def differs(log: str, held: Mapping[str, Any]) -> str | None:
    """Return how the head a notebook remembers differs from its log; None when it does not."""
    head = held.get("head")
    seq, want = (head.get("seq"), head.get("h")) if isinstance(head, dict) else (None, None)
    if not isinstance(want, str):
        return None
    found: str | None = None
    with Path(log).open("rb") as file:
        for raw in file:
            if f'"seq":{seq},'.encode() in raw or f'"seq": {seq},'.encode() in raw:
                mark = re.search(rb'"h": ?"([0-9a-f]+)"', raw)
                found = mark[1].decode() if mark else None
    if found == want:
        return None
    return f"the notebook knows head {seq} {want}, its log has {found or 'no such event'}"


def embedded_log(held: Mapping[str, Any]) -> bytes | None:
    """Return the log inside a notebook's metadata, None when there is none or it is damaged."""
    kept = held.get("log")
    data = kept.get("data") if isinstance(kept, dict) else None
    if not isinstance(data, str):
        return None
    try:
        packed = base64.b64decode(data, validate=True)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            return file.read(_MOST)
    except (binascii.Error, ValueError, OSError, EOFError, zlib.error):
        return None


def _turn_records(rows: OwnRows, held: Mapping[str, Any]) -> None:
    """Take the records of a notebook's outputs: sessions and turns, and that the log is missing."""
    listed = held.get("turns")
    for number, turn in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(turn, dict):
            continue
        session, seq = clean("session", turn.get("session")), turn.get("seq")
        last = seq[1] if isinstance(seq, list) and len(seq) == 2 else number
        place = {"offset": number, "bytes": 0}
        line = {"type": "turn/record", "status": "ok", "session": session, "flags": 256}
        line |= {"seq": clean("seq", last), "turn": clean("turn", turn.get("turn"))}
        rows.rows["lines"].append({**line, **place})
        for mark, data in (
            ("prompt", {"origin": "human"}),
            ("turn_end", {"reason": turn.get("reason")}),
        ):
            kept = {"mark": mark, "session": session, "data": json.dumps(data)}
            rows.rows["marks"].append({**kept, "offset": number})
    text = "the log is neither beside the notebook nor in it; only its turns are known"
    rows.rows["issues"].append({"code": "log_missing", "offset": 0, "bytes": 0, "message": text})
