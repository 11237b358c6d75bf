"""Notebook: a session's summary folded from outputs into the metadata, and the log embedded.

May not read or write a file and may not load nbformat: a notebook is a dict here.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator
from typing import Any

from agent_kernel.core.messages import Json

KEY = "agent_kernel"
SCHEMA = 1
BUCKETS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_OWN = ("schema", "session", "sidecar", "head", "turns", "totals", "compactions", "log")
_NAME = re.compile(r"[^/\\:\x00-\x1f]+\.jsonl")


def fold_metadata(nb: Json) -> Json:
    """Return `nb` with `metadata.agent_kernel` brought up to date from its cells' outputs.

    The argument is not changed; keys that are not ours stay. A notebook without agent outputs, or
    with equal ones, comes back equal.
    """
    records = list(_records(nb))
    before = dict(nb.get("metadata", {}).get(KEY) or {})
    if not records:
        return nb
    last = max(records, key=lambda record: record.get("time") or 0.0)
    made: Json = {
        "schema": SCHEMA,
        "session": last.get("session"),
        "sidecar": bare_name(last.get("sidecar")),
        "head": {"seq": last["seq"][1], "h": last.get("head_h")},
        "turns": [_turn(record) for record in records],
        "totals": _totals(records),
        "compactions": _compactions(records),
        "log": before.get("log"),
    }
    kept = {name: value for name, value in before.items() if name not in _OWN}
    return {**nb, "metadata": {**nb.get("metadata", {}), KEY: {**made, **kept}}}


def _records(nb: Json) -> Iterator[Json]:
    """Yield the record of each agent output, in cell order."""
    for cell in nb.get("cells") or ():
        for output in cell.get("outputs") or ():
            found = (output.get("metadata") or {}).get(KEY) if isinstance(output, dict) else None
            if isinstance(found, dict) and _whole(found):
                yield found


def _whole(record: Json) -> bool:
    seq = record.get("seq")
    two = isinstance(seq, list) and len(seq) == 2 and all(isinstance(each, int) for each in seq)
    return two and isinstance(record.get("session"), str) and isinstance(record.get("turn"), int)


def _turn(record: Json) -> Json:
    left_out = ("sidecar", "compactions", "time")
    return {name: value for name, value in record.items() if name not in left_out}


def _totals(records: list[Json]) -> Json:
    """Return the sums over turns, each counted once; cost is None when one is unknown."""
    seen = {(r["session"], r["turn"]): r for r in records}.values()  # a stepped one: its last
    usage = {
        bucket: sum(int((r.get("usage") or {}).get(bucket) or 0) for r in seen)
        for bucket in BUCKETS
    }
    costs = [r.get("cost") for r in seen]
    known = [cost for cost in costs if isinstance(cost, int | float)]
    return {
        "turns": len(seen),
        "steps": sum(int(r.get("steps") or 0) for r in seen),
        "usage": usage,
        "cost": round(sum(known), 6) if len(known) == len(costs) else None,
    }


def _compactions(records: list[Json]) -> list[Json]:
    found: dict[Any, Json] = {}
    for record in records:
        for each in record.get("compactions") or ():
            if isinstance(each, dict):
                found[each.get("seq")] = each
    return [found[seq] for seq in sorted(found, key=lambda seq: seq or 0)]


def bare_name(name: Any) -> str | None:
    """Return a sidecar's name when it is a bare file name of a log, else None."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


# ---- the log inside the notebook ----------------------------------------------------------------


def embedded(nb: Json, log: bytes) -> Json:
    """Return the folded `nb` with the whole log in it, gzip and base64.

    Raises ValueError when no agent turn is in the notebook.
    """
    folded = fold_metadata(nb)
    own = folded.get("metadata", {}).get(KEY)
    if not isinstance(own, dict):
        raise ValueError("the notebook holds no agent turn; run one, save it, then embed its log")
    packed = gzip.compress(log, mtime=0)
    data: Json = {
        "encoding": "gzip+base64",
        "sha256": hashlib.sha256(log).hexdigest(),
        "bytes": len(log),
        "data": base64.b64encode(packed).decode("ascii"),
    }
    return {**folded, "metadata": {**folded["metadata"], KEY: {**own, "log": data}}}


def extracted(nb: Json) -> tuple[str, bytes]:
    """Return (bare file name, bytes) of the log inside a notebook.

    Raises ValueError when there is none, its name leaves the folder, or its bytes were changed.
    """
    own = nb.get("metadata", {}).get(KEY) or {}
    held = own.get("log")
    if not isinstance(held, dict) or not isinstance(held.get("data"), str):
        raise ValueError("no log is embedded in this notebook; `agent-kernel embed` puts it there")
    name = bare_name(own.get("sidecar"))
    if name is None:
        raise ValueError(f"the sidecar {own.get('sidecar')!r} is no bare file name of a log")
    size = held.get("bytes")
    if not isinstance(size, int) or size < 0:
        raise ValueError("the embedded log does not say its size")
    data = _unpacked(base64.b64decode(held["data"], validate=True), size)
    if hashlib.sha256(data).hexdigest() != held.get("sha256"):
        raise ValueError("the embedded log was changed: its hash is not the one recorded")
    return name, data


def _unpacked(packed: bytes, size: int) -> bytes:
    """Return at most `size` bytes of a gzip, so that a small file cannot fill the memory."""
    import io

    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        data = file.read(size + 1)
    if len(data) != size:
        raise ValueError(f"the embedded log is not the {size:,} bytes it says")
    return data
