"""Records: the table of lines and events, each with the reason it is in or out of the chain.

May not drop a line: what could not be read is a record with its parse status.
"""

from __future__ import annotations

from agent_kernel.frames.assemble import Rec
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import LOG_ONLY, Columns
from agent_kernel.frames.schema import names

HUGE = 64 * 1024 * 1024


def build(load: Load) -> Columns:
    """Return one row a line, in file order."""
    columns: Columns = {name: [] for name in names("records")}
    add = [held.append for held in columns.values()]
    for rec in load.records:
        path = load.store.files[rec.file].path
        for append, value in zip(add, _row(rec, path, load.store.live), strict=True):
            append(value)
    return columns


def _row(rec: Rec, path: str, live: bool) -> tuple[object, ...]:
    status = "huge" if rec.status == "ok" and rec.bytes > HUGE else rec.status
    unread = status in ("bad_json", "torn", "not_object")
    return (
        rec.session,
        rec.id,
        rec.file,
        path,
        None if live else rec.offset,
        None if live else rec.bytes,
        rec.seq,
        rec.type,
        rec.subtype,
        rec.uuid,
        rec.parent,
        rec.logical,
        rec.time,
        rec.agent,
        rec.sidechain,
        rec.epoch,
        rec.turn,
        None if unread else rec.chain,
        rec.active,
        rec.copy_of,
        rec.superseded,
        status,
        bool(rec.flags & LOG_ONLY),
    )
