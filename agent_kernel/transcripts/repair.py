"""Repair: a new Claude Code file from a damaged one: one line of parents, every call answered.

May not change the input, nor drop what it can read: what cannot be read goes to `OUT.bad`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from agent_kernel.transcripts.fields import items, mapping, text
from agent_kernel.transcripts.jsonl import Parsed, dumps, parsed

CODES = frozenset(
    [
        "bad_json",
        "torn_tail",
        "not_object",
        "dangling_parent",
        "parent_cycle",
        "preserved_missing",
        "orphan_result",
        "duplicate_result",
    ]
)
MARK = "agent-kernel doctor"
_ON = ("official", "sibling", "repaired", "preserved", "history")
_BODIES = ("normalizedMessages", "fullOutput", "output")


class Placed(Protocol):
    """What is known of a record: where it stands and why it is on the chain or off."""

    @property
    def offset(self) -> int:
        """Byte offset of its line."""

    @property
    def chain(self) -> str | None:
        """Why it is in or out."""


@dataclass(slots=True)
class Repaired:
    """What a repair did: `lines` of the new file, `bad` bytes set aside, counts by act."""

    lines: list[bytes] = field(default_factory=list)
    bad: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def repair(
    file: BinaryIO, places: Mapping[int, Placed], findings: Mapping[int, set[str]]
) -> Repaired:
    """Return the repaired lines of a file; `places` and `findings` are by byte offset in it."""
    out = Repaired()
    lines = list(parsed(file))
    whole = list(_whole(lines, out))
    answered = _answered(whole, places)
    order = _order(whole, places)
    last: str | None = None
    for line in order:
        record = _mended(line, findings.get(line.offset, set()), out)
        place = places.get(line.offset)
        if place is not None and place.chain in _ON and text(record.get("uuid")):
            last = _linked(record, last, out)
        _write(out, line, record)
        if place is not None and place.chain in _ON:
            for added in _missing(record, answered, last):
                last = text(added["uuid"])
                out.lines.append(dumps(added).encode() + b"\n")
                out.counts["answered"] += 1
    return out


def _whole(lines: list[Parsed], out: Repaired) -> list[Parsed]:
    """Set aside what cannot be read and lines that repeat a line byte for byte."""
    seen: set[bytes] = set()
    kept = []
    for line in lines:
        same = line.raw.strip()
        if line.value is None:
            out.bad.append(line.raw if line.raw.endswith(b"\n") else line.raw + b"\n")
            out.counts["set_aside"] += 1
        elif same in seen and text(line.value.get("uuid")):
            out.counts["duplicates_removed"] += 1
        else:
            seen.add(same)
            kept.append(line)
    return kept


def _order(lines: list[Parsed], places: Mapping[int, Placed]) -> list[Parsed]:
    """Return the lines with the pieces of a response together, where the first one stood."""
    pieces: dict[str, list[Parsed]] = {}
    for line in lines:
        name = _piece(line, places)
        if name:
            pieces.setdefault(name, []).append(line)
    out: list[Parsed] = []
    for line in lines:
        name = _piece(line, places)
        if not name:
            out.append(line)
        elif pieces[name] and pieces[name][0] is line:
            out.extend(pieces[name])
    return out


def _piece(line: Parsed, places: Mapping[int, Placed]) -> str | None:
    record = line.value or {}
    place = places.get(line.offset)
    if record.get("type") != "assistant" or place is None or place.chain not in _ON:
        return None
    name = text(mapping(record.get("message")).get("id"))
    # a kept message written again in a later epoch is another place of the same response
    return f"{name} {place.chain == 'history'}" if name else None


def _answered(lines: list[Parsed], places: Mapping[int, Placed]) -> set[str]:
    return {
        block["tool_use_id"]
        for line in lines
        for block in _content(line.value or {})
        if str(block.get("type")).endswith("tool_result") and text(block.get("tool_use_id"))
    }


def _content(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = items(mapping(record.get("message")).get("content"))
    return [block for block in found if isinstance(block, dict)]


def _mended(line: Parsed, codes: set[str], out: Repaired) -> dict[str, Any]:
    """Return the record without progress bodies, stray results and names of lost messages."""
    record: dict[str, Any] = json.loads(json.dumps(line.value))
    data = record.get("data")
    if record.get("type") == "progress" and isinstance(data, dict):
        for name in _BODIES:
            if name in data:
                del data[name]
                out.counts["progress_bodies_dropped"] += 1
    if codes & {"orphan_result", "duplicate_result"}:
        _as_text(record, out)
    if "preserved_missing" in codes:
        meta = mapping(record.get("compactMetadata"))
        for name in ("preservedMessages", "preservedSegment"):
            if isinstance(meta, dict) and meta.pop(name, None) is not None:
                out.counts["lost_names_dropped"] += 1
    return record


def _as_text(record: dict[str, Any], out: Repaired) -> None:
    """Turn results nobody can use into text that says so."""
    content = mapping(record.get("message")).get("content")
    if not isinstance(content, list):
        return
    for number, block in enumerate(content):
        if isinstance(block, dict) and str(block.get("type")).endswith("tool_result"):
            said = f"[{MARK}: a stray result of {block.get('tool_use_id')}] "
            content[number] = {"type": "text", "text": said + dumps(block.get("content"))}
            out.counts["stray_results_kept_as_text"] += 1


def _linked(record: dict[str, Any], last: str | None, out: Repaired) -> str:
    """Set the parent to the record before; a boundary begins anew and names it as logical."""
    name = "parentUuid"
    if record.get("subtype") == "compact_boundary":
        record["parentUuid"], name = None, "logicalParentUuid"
    if record.get(name) != last:
        record[name] = last
        out.counts["relinked"] += 1
    return str(record["uuid"])


def _missing(
    record: Mapping[str, Any], answered: set[str], last: str | None
) -> list[dict[str, Any]]:
    """Return one marked error record for each call of the record that has no result."""
    added: list[dict[str, Any]] = []
    for block in _content(record):
        name = text(block.get("id"))
        if block.get("type") != "tool_use" or name is None or name in answered:
            continue
        answered.add(name)
        kept = ("sessionId", "version", "cwd", "gitBranch", "userType", "isSidechain", "timestamp")
        result = {
            "type": "tool_result",
            "tool_use_id": name,
            "is_error": True,
            "content": f"[{MARK}: no result was recorded; the outcome is unknown]",
        }
        added.append(
            {
                "parentUuid": added[-1]["uuid"] if added else last,
                **{key: record[key] for key in kept if key in record},
                "type": "user",
                "message": {"role": "user", "content": [result]},
                "uuid": f"doctor-{name}",
                "addedBy": MARK,
            }
        )
    return added


def _write(out: Repaired, line: Parsed, record: dict[str, Any]) -> None:
    if record == line.value:
        out.counts["kept"] += 1
        out.lines.append(line.raw.rstrip(b"\r\n") + b"\n")
    else:
        out.counts["changed"] += 1
        out.lines.append(dumps(record).encode("utf-8", "surrogatepass") + b"\n")
