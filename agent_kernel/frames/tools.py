"""Tools: the table of tool calls, each joined to its one result.

May not pair by position: a result belongs to the call whose id it names, the first one wins.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import Any

from agent_kernel.frames.lanes import lanes
from agent_kernel.frames.load import Block, Load, estimate
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows

TIERS = {
    "path": ("glob", "ls", "list_files", "find_files"),
    "text": ("grep", "search", "rg", "search_files"),
    "symbol": ("lsp", "symbols", "definition"),
    "concept": ("concept_search", "web_search", "websearch", "semantic_search"),
}
READS = ("read", "notebookread", "read_file", "view")
Key = tuple[str, str]
Given = dict[tuple[int, int, int], tuple[str | None, str | None]]


def build(load: Load) -> Columns:
    """Return one row a tool call, by session and order."""
    load.records  # noqa: B018 - the chain must be known
    uses, results, images = paired(load)
    sizes = Counter((key[0], use["call_id"]) for key, use in uses.items() if use["call_id"])
    facts, carried, given = _facts(load), _carried(load), _given(load)
    reread: dict[tuple[str, str, str], str] = {}
    rows = []
    for key, use in uses.items():
        row = _row(key, use, results.get(key), sizes[key[0], use["call_id"]], given)
        row["image"] = key in images
        row |= carried.get(key, {})
        row |= facts.get(key, {})
        name = (use["name"] or "").lower()
        if name in READS and use["path"]:
            place = (key[0], use["agent"], use["path"])
            row["reread_of"] = reread.get(place)
            reread.setdefault(place, key[1])
        rows.append(_timed(row))
    return of_rows("tools", rows)


def _given(load: Load) -> Given:
    """Return input and shell command of every tool call, by file, offset and block."""
    part = load.store.part("givens")
    keys = zip(part["file"], part["offset"], part["block"], strict=True)
    return dict(zip(keys, zip(part["given"], part["command"], strict=True), strict=True))


def paired(load: Load) -> tuple[dict[Key, Block], dict[Key, Block], set[Key]]:
    """Return calls, their first results and the calls whose result holds an image, by id."""
    uses: dict[Key, Block] = {}
    results: dict[Key, Block] = {}
    images: set[Key] = set()
    for block in load.blocks:
        name = block["tool_use_id"]
        if not name:
            continue
        key = (block["rec"].session, name)
        if block["kind"] == "tool_use":
            uses.setdefault(key, block)
        elif is_answer(block):
            results.setdefault(key, block)
        elif block["kind"] == "image":
            images.add(key)
    return uses, results, images


def is_answer(block: Block) -> bool:
    """Return whether the block answers a call, and is not what a compaction left of an answer."""
    return bool(block["kind"] == "tool_result" and block["source"] != "summary")


def findings(load: Load) -> list[dict[str, Any]]:
    """Return results without a call and second results of one call."""
    uses, results, _ = paired(load)
    rows: list[dict[str, Any]] = []
    for block in load.blocks:
        if not is_answer(block) or not block["tool_use_id"]:
            continue
        key = (block["rec"].session, block["tool_use_id"])
        first = results[key]
        if key not in uses:
            text = f"a result for {key[1]!r}, which nothing asked for"
            rows.append(_finding("orphan_result", block, text))
        elif first is not block and not _again(first, block):
            text = f"a second result for {key[1]!r}; the first is used"
            rows.append(_finding("duplicate_result", block, text))
    return rows


def _again(first: Block, block: Block) -> bool:
    """Whether `block` is the same result written again, as kept messages are."""
    return block["uuid"] == first["uuid"] and block["uuid"] is not None


def _finding(code: str, block: Block, text: str) -> dict[str, Any]:
    return {
        "code": code,
        "file": block["file"],
        "offset": block["offset"],
        "bytes": block["rec"].bytes,
        "message": text,
        "sample": "",
        "session": block["rec"].session,
    }


def _carried(load: Load) -> dict[Key, dict[str, Any]]:
    """Return what each result cost after it was read, and how many calls carried it."""
    found: dict[Key, dict[str, Any]] = {}
    for lane in load.once(lanes):
        for item in lane.items:
            name = item.block["tool_use_id"]
            if item.source == "tool_results" and name:
                usd = item.first_usd + item.later_usd
                found.setdefault(
                    (lane.session, name), {"carried_calls": item.calls, "carry_usd": usd}
                )
    return found


@cache
def tier(name: str) -> str | None:
    """Return how a tool looks for things: path, text, symbol or concept; None when it does not."""
    return next((kind for kind, names in TIERS.items() if name in names), None)


def _row(key: Key, use: Block, result: Block | None, size: int, given: Given) -> dict[str, Any]:
    rec = use["rec"]
    said = given.get((use["file"], use["offset"], use["block"]), (None, None))
    row: dict[str, Any] = {
        "session_id": key[0],
        "tool_use_id": key[1],
        "call_id": use["call_id"],
        "turn": rec.turn,
        "step": rec.step,
        "agent_id": use["agent"],
        "name": use["name"],
        "input": said[0],
        "path": use["path"],
        "command": said[1],
        "started": use["time"],
        "answered": result is not None,
        "batch": use["call_id"],
        "batch_size": size or None,
        "tier": tier((use["name"] or "").lower()),
    }
    if result is not None:
        said = result["is_error"]
        row |= {
            "ended": result["time"],
            "seconds": result["seconds"],
            "is_error": result["error_kind"] is not None if said is None else said,
            "is_error_explicit": said is not None,
            "error_kind": result["error_kind"],
            "interrupted": bool(result["interrupted"]) or result["error_kind"] == "interrupted",
            "result_chars": result["chars"],
            "result_tokens": estimate(result["chars"] or 0),
            "spilled_bytes": result["spilled"],
            "permission": "deny" if result["error_kind"] == "denied" else None,
        }
    return row


def _timed(row: dict[str, Any]) -> dict[str, Any]:
    begin, end = row.get("started"), row.get("ended")
    if row.get("seconds") is None and begin is not None and end is not None and end >= begin:
        row["seconds"] = (end - begin) / 1000
    return row


def _facts(load: Load) -> dict[Key, dict[str, Any]]:
    """Return what marks say of tool calls: a start, a decision, what a compaction cleared."""
    found: dict[Key, dict[str, Any]] = defaultdict(dict)
    for name, session in load.assembled.sessions.items():
        for mark in session.marks:
            data = mark.data
            if mark.kind == "tool_start":
                found[name, str(data.get("id"))]["started"] = mark.rec.time
            elif mark.kind == "decision":
                found[name, str(data.get("id"))]["permission"] = data.get("verdict")
            elif mark.kind == "micro":
                for one in data.get("cleared", ()):
                    dropped = str(data.get("id") or mark.rec.uuid or f"c{mark.rec.seq}")
                    found[name, one].setdefault("dropped_by", dropped)
    return found
