"""Claude Code usage: the tokens an assistant line states, as rows of one call each.

May not merge lines: the same `message.id` recurs on every line of a response, in copies and in
progress records, and whoever reads the parts takes the maximum of each field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agent_kernel.transcripts.fields import count, items, mapping, moment, text
from agent_kernel.transcripts.jsonl import dumps
from agent_kernel.transcripts.rows import Usage

SYNTHETIC = "<synthetic>"


class Place(NamedTuple):
    """Where a message stands: the line, its session and the agent that speaks."""

    offset: int
    session: str | None
    agent: str | None
    sidechain: bool
    nested: bool


def agent_kind(place: Place) -> str:
    """Return main, subagent or acompact (the hidden call that writes a compaction summary)."""
    if place.agent and place.agent.startswith("acompact"):
        return "acompact"
    return "subagent" if place.agent or place.sidechain or place.nested else "main"


def usages(record: Mapping[str, Any], place: Place) -> Iterator[Usage]:
    """Yield the call of an assistant record, then the compaction calls inside its iterations.

    Their tokens are not in the top-level totals (Messages API, server-side compaction).
    """
    message = mapping(record.get("message"))
    usage = message.get("usage")
    if not isinstance(usage, dict) or message.get("model") == SYNTHETIC:
        return
    call_id = text(message.get("id"))
    chars = visible_chars(message.get("content"))
    yield _row(record, message, usage, place, (call_id, agent_kind(place), chars))
    for number, entry in enumerate(items(usage.get("iterations"))):
        if isinstance(entry, dict) and entry.get("type") == "compaction":
            owner = call_id or text(record.get("requestId")) or text(record.get("uuid"))
            name = f"{owner}#it{number}"
            yield _row(record, message, entry, place, (name, "compaction", None))


def _row(
    record: Mapping[str, Any],
    message: Mapping[str, Any],
    usage: Mapping[str, Any],
    place: Place,
    own: tuple[str | None, str, int | None],
) -> Usage:
    short, long, how = _writes(usage)
    get = record.get
    said = usage.get
    details, server = said("output_tokens_details"), said("server_tool_use")
    return Usage(  # by position: this runs once a line, and keywords take twice as long
        place.offset,
        text(get("uuid")),
        own[0],
        text(get("requestId")),
        place.session,
        place.agent,
        own[1],
        place.nested,
        place.sidechain or place.nested,
        "anthropic",
        text(message.get("model")),
        moment(get("timestamp")),
        count(said("input_tokens")) or 0,
        count(said("output_tokens")),
        short,
        long,
        how,
        count(said("cache_read_input_tokens")) or 0,
        count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
        text(message.get("stop_reason")) if own[2] is not None else None,
        "error" if get("isApiErrorMessage") is True else "ok",
        text(said("speed")),
        text(said("service_tier")),
        text(said("inference_geo")),
        count(server.get("web_search_requests")) if isinstance(server, dict) else None,
        chars=own[2],
    )


def _writes(usage: Mapping[str, Any]) -> tuple[int, int, str | None]:
    """Return (5-minute writes, 1-hour writes, how it is known); a bare sum counts as 5 minutes."""
    total = count(usage.get("cache_creation_input_tokens"))
    split = usage.get("cache_creation")
    if not isinstance(split, dict):
        return total or 0, 0, "assumed_5m" if total else None
    short = count(split.get("ephemeral_5m_input_tokens")) or 0
    long = count(split.get("ephemeral_1h_input_tokens")) or 0
    if total is None or short + long == total:
        return short, long, "recorded"
    return short + max(0, total - short - long), long, "mismatch"


def visible_chars(content: Any) -> int:
    """Return the code points a response shows: text, thinking, tool name and its input as JSON."""
    if isinstance(content, str):
        return len(content)
    total = 0
    for block in items(content):
        if isinstance(block, dict):
            for field in ("text", "thinking", "name"):
                value = block.get(field)
                total += len(value) if isinstance(value, str) else 0
            if "input" in block:
                total += len(dumps(block["input"]))
    return total
