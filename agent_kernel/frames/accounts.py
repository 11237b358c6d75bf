"""Accounts: the tables of prices used, of issues, and of what other counters would say.

May not leave a finding out.
"""

from __future__ import annotations

from typing import Any

from agent_kernel.frames.issues import severity
from agent_kernel.frames.load import Load
from agent_kernel.frames.reader import Columns
from agent_kernel.frames.schema import of_rows
from agent_kernel.frames.tools import findings


def prices(load: Load) -> Columns:
    """Return one row a rate used, and one a model without a price."""
    book = load.priced.book
    rows: list[dict[str, Any]] = []
    for name, used in book.used.items():
        rates = used.rates
        rows.append(
            {
                "price_id": name,
                "model": rates.model,
                "provider": rates.provider,
                "input": rates.input,
                "output": rates.output,
                "cache_write_5m": rates.cache_write_5m,
                "cache_write_1h": rates.cache_write_1h,
                "cache_read": rates.cache_read,
                "tier_above": rates.tier_above,
                "web_search": rates.web_search,
                "valid_from": _day(rates.valid_from),
                "source": rates.source,
                "calls": used.calls,
                "tokens": used.tokens,
            }
        )
    rows += [
        {"model": model or None, "tokens_unpriced": tokens}
        for model, tokens in book.unpriced.items()
    ]
    return of_rows("prices", rows)


def _day(value: Any) -> int | None:
    if value is None:
        return None
    from_epoch = value.toordinal() - 719_163  # days since 1970-01-01
    return int(from_epoch * 86_400_000)


def issues(load: Load) -> Columns:
    """Return one row a finding: of the walk, readers, ledger, prices, chain and tools."""
    rows = [*load.store.issues(), *load.priced.issues, *_chain(load), *findings(load)]
    rows.sort(key=lambda row: (_file(row), row["offset"] or 0))
    return of_rows("issues", (_issue(load, row) for row in rows))


def _file(row: dict[str, Any]) -> int:
    return -1 if row["file"] is None else int(row["file"])


def _chain(load: Load) -> list[dict[str, Any]]:
    return [
        {
            "code": code,
            "file": rec.file,
            "offset": rec.offset,
            "bytes": rec.bytes,
            "message": message,
            "sample": "",
            "session": rec.session,
        }
        for chain in load.chains.values()
        for code, rec, message in chain.issues
    ]


def _issue(load: Load, row: dict[str, Any]) -> dict[str, Any]:
    file, offset = row["file"], row["offset"]
    rec = load.assembled.places.get((file, offset))
    live = load.store.live
    path = row.get("path") or (load.store.files[file].path if file is not None else None)
    return {
        "session_id": row.get("session") or (rec.session if rec else None),
        "code": row["code"],
        "severity": severity(row["code"]),
        "path": None if live else path,
        "offset": None if live else offset,
        "bytes": None if live else row["bytes"],
        "record_id": rec.id if rec else None,
        "message": row["message"],
        "sample": row["sample"],
    }
