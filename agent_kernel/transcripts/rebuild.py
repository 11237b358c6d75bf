"""Rebuild: the messages a Claude Code session would send, from the lines on its chain.

May not invent text: an attachment stands as one text block that says its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent_kernel.transcripts.fields import items, mapping, text

Json = dict[str, Any]


def messages(records: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return messages in wire form; pieces of one response are one, results stand after them."""
    out: list[Json] = []
    pieces: dict[str, Json] = {}
    for record in records:
        kind = record.get("type")
        message = mapping(record.get("message"))
        if kind == "assistant":
            name = text(message.get("id")) or text(record.get("uuid")) or ""
            if name in pieces:
                pieces[name]["content"] += _blocks(message)
            else:
                pieces[name] = {"role": "assistant", "content": _blocks(message)}
                out.append(pieces[name])
        elif kind == "user":
            out.append({"role": "user", "content": _blocks(message)})
        elif kind == "attachment":
            name = text(mapping(record.get("attachment")).get("type")) or "unknown"
            out.append({"role": "user", "content": [{"type": "text", "text": f"[{name}]"}]})
    return _merged([message for message in out if message["content"]])


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for block in items(content) if isinstance(block, dict)]


def _merged(out: list[Json]) -> list[Json]:
    """Join neighbours of one role, tool results first, as the client does."""
    joined: list[Json] = []
    for message in out:
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1]["content"] += message["content"]
        else:
            joined.append({"role": message["role"], "content": list(message["content"])})
    for message in joined:
        if message["role"] == "assistant":  # the client drops thinking that nothing follows
            while message["content"] and "thinking" in str(message["content"][-1].get("type")):
                message["content"].pop()
        else:
            message["content"].sort(key=lambda block: block.get("type") != "tool_result")
    return [message for message in joined if message["content"]]
