"""Compactions: the table of boundaries, with what each hid, saved and cost.

May not take the harness's own token counts for the wire's: both stand side by side.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from agent_kernel.frames.assemble import Mark, Session
from agent_kernel.frames.blocks import compaction_id
from agent_kernel.frames.facts import around, recall
from agent_kernel.frames.load import Load, estimate
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.rereads import windows
from agent_kernel.frames.schema import names, of_rows

NEAR = 15 * 60_000  # a summary call ends at most this many ms before its boundary line


def build(load: Load) -> Columns:
    """Return one row a compaction, by session and order, with the recall of its summary."""
    told = load.once(around)
    found = []
    for row in load.once(rows_of):
        here = told.get((row["session_id"], row["seq"]))
        found.append({**row, "fur": None if here is None else recall(here)})
    return of_rows("compactions", found)


def rows_of(load: Load) -> list[dict[str, Any]]:
    """Return the rows without what needs text."""
    load.records  # noqa: B018 - the chain must be known
    calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in load.rows("calls"):
        row["seq"] = load.by_id[row["record_id"]].seq
        calls[row["session_id"]].append(row)
    sizes = _summaries(load)
    again = {
        (one.session, one.seq): {"rereads": one.again, "reread_tokens": one.tokens}
        for one in load.once(windows)
        if one.boundary
    }
    rows: list[dict[str, Any]] = []
    for session in load.assembled.sessions.values():
        marks = [
            mark
            for mark in session.marked("boundary", "micro", "uncommitted")
            if mark.rec.agent == "main"
        ]
        for number, mark in enumerate(marks):
            later = [m for m in marks[number + 1 :] if m.kind == "boundary"]
            until = later[0].rec.seq if later else None
            row = _row(session, mark, calls[session.id], until)
            if mark.kind == "boundary":
                row |= _summary(session, mark, sizes)
                row |= _bill(mark, calls[session.id])
                row |= again.get((session.id, mark.rec.seq or 0), {})
                row |= _payback(load, row, calls[session.id])
            rows.append(row)
    blank = dict.fromkeys(names("compactions"))
    return [{**blank, **row} for row in rows]


def _row(
    session: Session, mark: Mark, calls: list[dict[str, Any]], until: int | None
) -> dict[str, Any]:
    rec, data = mark.rec, mark.data
    seq = rec.seq or 0
    main = [call for call in calls if call["agent_kind"] == "main" and not call["nested"]]
    before = [call for call in main if call["seq"] < data.get("first_seq", seq) and call["context"]]
    after = [call for call in main if call["seq"] > seq and call["context"]]
    pre = before[-1]["context"] if before else None
    post = after[0]["context"] if after else None
    first = after[0] if after else None
    return {
        "session_id": session.id,
        "compaction_id": compaction_id(rec, data),
        "kind": _kind(mark),
        "trigger": data.get("trigger"),
        "layer": data.get("layer") or ("micro" if mark.kind == "micro" else None),
        "status": data.get("status") or "committed",
        "hidden": data.get("hidden", _hidden(session, mark)),
        "requests_after": sum(1 for call in after if until is None or call["seq"] < until),
        "seq": rec.seq,
        "epoch": rec.epoch,
        "time": rec.time,
        "pre_meta": data.get("pre"),
        "pre_wire": pre,
        "post_meta": data.get("post"),
        "post_wire": post,
        "dropped": data.get("dropped") or data.get("saved"),
        "kept": data.get("kept") or [],
        "cleared": data.get("cleared") or [],
        "ratio": post / pre if pre and post is not None else None,
        "rewrite_tokens": first["rewritten"] if first else None,
        "rewrite_usd": first["rewrite_usd"] if first else None,
        "seconds": data.get("seconds"),
        "flags": [],
    }


def _kind(mark: Mark) -> str:
    if mark.kind == "micro":
        return "micro"
    if mark.data.get("precomputed"):
        return "precompute"
    return "manual" if mark.data.get("trigger") == "manual" else "auto"


def _hidden(session: Session, mark: Mark) -> int | None:
    """Return how many messages of the epoch before the boundary it hid."""
    if mark.kind == "micro":
        return len(mark.data.get("cleared", ()))
    kept = set(mark.data.get("kept") or ())
    return sum(
        1
        for rec in session.main
        if rec.epoch == mark.rec.epoch - 1
        and rec.chain in ("history", "preserved", "official", "sibling", "repaired")
        and rec.type in ("user", "assistant", "attachment")
        and rec.uuid not in kept
    )


def _summaries(load: Load) -> dict[int, int]:
    """Return the code points of summaries by record id."""
    return {
        block["rec"].id: block["chars"]
        for block in load.blocks
        if block["kind"] in ("summary", "compaction")
    }


def _summary(session: Session, mark: Mark, sizes: dict[int, int]) -> dict[str, Any]:
    """Return the size of the first summary of the epoch a boundary begins."""
    chars = mark.data.get("summary_chars")
    if chars is None:
        epoch = [rec for rec in session.main if rec.epoch == mark.rec.epoch]
        chars = next((sizes[rec.id] for rec in epoch if rec.id in sizes), None)
    return {
        "summary_chars": chars,
        "summary_tokens": None if chars is None else estimate(chars),
    }


def _payback(load: Load, row: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return after how many calls the smaller context has paid for the summary and the rewrite."""
    after = [call for call in calls if call["agent_kind"] == "main" and call["seq"] > row["seq"]]
    pre, post, usd = row["pre_wire"], row["post_wire"], row.get("call_usd")
    if not after or usd is None or None in (pre, post) or after[0]["price_id"] is None:
        return {}
    rate = load.priced.book.rates_of(after[0]["price_id"]).cache_read
    saved = (pre - post) * (rate or 0.0) / 1e6
    if saved <= 0:
        return {"paid_back": False}
    needed = (usd + (row["rewrite_usd"] or 0.0)) / saved
    return {"payback_calls": needed, "paid_back": needed <= row["requests_after"]}


def _bill(mark: Mark, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the call that wrote the summary: stated, or the hidden one that ended just before."""
    data, rec = mark.data, mark.rec
    said = [call for call in calls if call["call_id"] in data.get("calls", ())]
    if not said and rec.time is not None:
        near = [
            call
            for call in calls
            if call["agent_kind"] in ("acompact", "compaction")
            and call["time_last"] is not None
            and -NEAR <= call["time_last"] - rec.time <= 60_000
        ]
        said = sorted(near, key=lambda call: abs(call["time_last"] - rec.time))[:1]
    if not said:
        return {"call_cache": "unknown"}
    usd = [call["usd_best"] for call in said]
    read, context = (sum(call[name] for call in said) for name in ("cache_read", "context"))
    return {
        "call_id": said[-1]["call_id"],
        "call_usd": None if None in usd else sum(usd),
        "call_cache": "warm" if read >= context / 2 else "cold",
        "call_estimated": any(call["output_quality"] != "final" for call in said),
    }
