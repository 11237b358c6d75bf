"""Issues: every finding's code and how bad it is.

May not hide one: a code that is not listed is `wrong`.
"""

from __future__ import annotations

# loss: something of the session could not be read; wrong: the session contradicts itself;
# info: read as it stands, and worth knowing.
CODES: dict[str, str] = {
    "bad_json": "loss",
    "torn_tail": "loss",
    "not_object": "loss",
    "needs_zstd": "loss",
    "unknown_format": "loss",
    "unreadable": "loss",
    "log_missing": "loss",
    "preserved_missing": "loss",
    "replay_unresolved": "loss",
    "sidecar_differs": "wrong",
    "bad_provenance": "wrong",
    "total_mismatch": "wrong",
    "cache_split_mismatch": "wrong",
    "duplicate_result": "wrong",
    "orphan_result": "wrong",
    "parent_cycle": "wrong",
    "unknown_type": "info",
    "unknown_block": "info",
    "wrong_field": "info",
    "missing_uuid": "info",
    "ambiguous_format": "info",
    "dangling_parent": "info",
    "no_call_id": "info",
    "huge_line": "info",
    "projected": "info",
    "aggregated_calls": "info",
    "unknown_model": "info",
    "no_rate": "info",
    "price_modifier": "info",
    "stale_cache": "info",
}


def severity(code: str) -> str:
    """Return info, loss or wrong."""
    return CODES.get(code, "wrong")
