"""MCP content: what a server sends, as our blocks, fenced: it is a stranger's.

May not trust a word of it: descriptions are cut, tags that only we may write are escaped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from agent_kernel.core.messages import Block, Image, Json, Text, canonical
from agent_kernel.guard.fence import escape_tags, fence

DESCRIPTION = 2000  # characters of a tool's description, and of a server's instructions
NAME = 64  # characters of a tool's whole name
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PICTURE_BYTES = 5 << 20


def tool_name(server: str, tool: str) -> str:
    """Return `mcp__server__tool`, with other characters as `_`; a long one ends in its hash."""
    name = f"mcp__{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) <= NAME:
        return name
    return f"{name[: NAME - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"


def description(text: str | None) -> str:
    """Return a description cut to 2,000 characters, without look-alikes of our tags."""
    said = escape_tags(text or "")
    return said if len(said) <= DESCRIPTION else f"{said[:DESCRIPTION]} [cut]"


def pin(name: str, text: str | None, schema: Json) -> str:
    """Return the hash of name, description and schema: another hash is another tool."""
    return hashlib.sha256(canonical([name, text or "", schema])).hexdigest()[:32]


def blocks(server: str, content: Sequence[Any], structured: Any) -> tuple[Block, ...]:
    """Return a result's text in one fence, then its pictures."""
    parts: list[str] = []
    pictures: list[Block] = []
    for each in content:
        kind = getattr(each, "type", "")
        if kind == "image" and _shown(each):
            pictures.append(Image(each.mime_type, each.data))
        else:
            parts.append(part(each))
    if structured is not None and not any(_same(text, structured) for text in parts):
        parts.append(json.dumps(structured, ensure_ascii=False, indent=1))
    text = "\n".join(each for each in parts if each)
    if not text and pictures:
        return tuple(pictures)
    return (Text(fence(text or "[no content]", f"mcp server {server}")), *pictures)


def _same(text: str, structured: Any) -> bool:
    """Tell whether a text is the structured content written out, as servers often add it."""
    try:
        return bool(json.loads(text) == structured)
    except ValueError:
        return False


def _shown(image: Any) -> bool:
    return image.mime_type in PICTURES and len(image.data) * 3 // 4 <= PICTURE_BYTES


def part(each: Any) -> str:
    """Return one content item as text: text as it is, anything else by kind and size."""
    match getattr(each, "type", ""):
        case "text":
            return str(each.text)
        case "resource":
            return resource(each.resource)
        case "resource_link":
            return f"[resource {each.uri}: {each.name}]"
        case "image" | "audio" as kind:
            return f"[{kind} {each.mime_type}, {len(each.data) * 3 // 4:,} bytes, not shown]"
    return f"[{getattr(each, 'type', 'unknown content')}]"


def resource(found: Any) -> str:
    """Return a resource's text, or its kind and size."""
    if getattr(found, "text", None) is not None:
        return f"{found.uri}\n{found.text}"
    kind = getattr(found, "mime_type", None) or "binary"
    return f"[{found.uri}: {kind}, {len(getattr(found, 'blob', '')) * 3 // 4:,} bytes, not shown]"
