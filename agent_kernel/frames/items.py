"""Items: the table of blocks around a compaction, and what became of each.

May not call a block summarised that the summary does not quote.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from agent_kernel.frames.assemble import Mark, Session
from agent_kernel.frames.blocks import compaction_id
from agent_kernel.frames.load import Block, Load, estimate
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows
from agent_kernel.frames.texts import Texts

QUOTE = 24  # code points in a row that make a quotation


def build(load: Load) -> Columns:
    """Return one row a block of the epoch before each boundary or micro compaction."""
    load.records  # noqa: B018 - the chain must be known
    by_session: dict[str, list[Block]] = defaultdict(list)
    for block in load.blocks:
        if block["agent"] == "main" and not block["nested"]:
            by_session[block["rec"].session].append(block)
    texts = Texts(load.store)
    rows: list[dict[str, Any]] = []
    for session in load.assembled.sessions.values():
        blocks = by_session[session.id]
        for mark in session.marked("boundary", "micro"):
            if mark.kind == "micro":
                rows += _cleared(session, mark, blocks)
            else:
                rows += _hidden(session, mark, blocks, texts)
    return of_rows("compaction_items", rows)


def _cleared(session: Session, mark: Mark, blocks: list[Block]) -> list[dict[str, Any]]:
    gone = set(mark.data.get("cleared", ()))
    return [
        _row(session, mark, block, "cleared", "none")
        for block in blocks
        if block["kind"] == "tool_result"
        and block["tool_use_id"] in gone
        and (block["rec"].seq or 0) < (mark.rec.seq or 0)
    ]


def _hidden(
    session: Session, mark: Mark, blocks: list[Block], texts: Texts
) -> list[dict[str, Any]]:
    epoch, kept = mark.rec.epoch, set(mark.data.get("kept") or ())
    after = {block["sha"] for block in blocks if block["rec"].epoch == epoch and block["sha"]}
    summary = "\n".join(
        text
        for block in blocks
        if block["rec"].epoch == epoch and block["source"] == "summary"
        for text in texts.blocks(block["rec"], [block["sha"]])
    )
    rows = []
    for block in blocks:
        rec = block["rec"]
        if rec.epoch != epoch - 1 or rec.chain in ("rewound", "side_line", "copy"):
            continue
        if rec.uuid in kept or rec.chain == "preserved" or rec.active:
            rows.append(_row(session, mark, block, "kept", "exact"))
        elif block["sha"] in after:
            rows.append(_row(session, mark, block, "reinjected", "exact"))
        else:
            (text,) = texts.blocks(rec, [block["sha"]])
            quoted = quotes(summary, text)
            fate, how = ("summarised", "quoted") if quoted else ("dropped", "none")
            rows.append(_row(session, mark, block, fate, how))
    return rows


def quotes(summary: str, text: str) -> bool:
    """Return whether the summary holds a line of `text`, or QUOTE code points of it in a row."""
    for line in text.splitlines()[:400]:
        piece = line.strip()
        if len(piece) >= QUOTE and piece[: QUOTE * 3] in summary:
            return True
    return False


def _row(session: Session, mark: Mark, block: Block, fate: str, how: str) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "compaction_id": compaction_id(mark.rec, mark.data),
        "record_id": block["rec"].id,
        "block": block["block"],
        "fate": fate,
        "tokens": estimate(block["chars"] or 0),
        "cites": [],
        "matched": how,
    }
