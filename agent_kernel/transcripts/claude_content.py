"""Claude Code content: the blocks of a message or attachment, sizes and hashes, never the text.

May not keep text: offsets lead back to it. Tool inputs are the one exception, they are the calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_kernel.transcripts.claude_marks import text_origin
from agent_kernel.transcripts.claude_usage import Place
from agent_kernel.transcripts.fields import count, digest, items, mapping, moment, seconds, text
from agent_kernel.transcripts.images import measure
from agent_kernel.transcripts.jsonl import dumps
from agent_kernel.transcripts.rows import Block

_PLAIN = {"text": "text", "thinking": "thinking", "redacted_thinking": "data"}
_ERRORS = (
    ("denied", ("The user doesn't want", "User rejected", "Permission to use", "was blocked")),
    ("interrupted", ("[Request interrupted",)),
    ("sibling", ("Sibling tool call errored",)),
    ("invalid_input", ("InputValidationError",)),
    ("exit_code", ("Exit code ",)),
    ("not_found", ("does not exist", "No such file", "not found")),
    ("not_read", ("has not been read", "modified since read")),
    ("no_match", ("String to replace not found",)),
    ("ambiguous", ("matches of the string",)),
    ("timeout", ("timed out", "Timeout")),
)
_PATHS = ("file_path", "path", "notebook_path", "filePath", "url")


def content_blocks(
    record: Mapping[str, Any], kind: str | None, place: Place
) -> tuple[list[Block], list[str]]:
    """Return the blocks of one record and the block types nobody knows."""
    base = Block(
        place.offset,
        0,
        uuid=text(record.get("uuid")),
        session=place.session,
        agent=place.agent,
        nested=place.nested,
        time=moment(record.get("timestamp")),
    )
    if kind == "attachment":
        return [_attachment(mapping(record.get("attachment")), base)], []
    if kind not in ("user", "assistant"):
        return [], []
    message = mapping(record.get("message"))
    content = message.get("content")
    base = base._replace(role=kind, call_id=text(message.get("id")))
    blocks, strange = [], []
    listed = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
    for block in listed:
        made = list(_block(block, record, base)) if isinstance(block, dict) else []
        if not made:
            strange.append(str(block.get("type")) if isinstance(block, dict) else "not an object")
        blocks.extend(made)
    return [one._replace(block=number) for number, one in enumerate(blocks)], strange


def _block(block: Mapping[str, Any], record: Mapping[str, Any], base: Block) -> Iterator[Block]:
    kind = text(block.get("type")) or ""
    if kind in _PLAIN:
        yield _text(block, kind, record, base)
    elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        yield _tool_use(block, base)
    elif kind.endswith("tool_result"):
        yield from _tool_result(block, record, base)
    elif kind in ("image", "document"):
        yield _picture(block, kind, base)
    elif kind == "compaction":
        said = text(block.get("content")) or ""
        yield base._replace(kind=kind, source="summary", chars=len(said), sha=digest(said))


def _text(block: Mapping[str, Any], kind: str, record: Mapping[str, Any], base: Block) -> Block:
    said = block.get(_PLAIN[kind])
    said = said if isinstance(said, str) else ""
    if base.role == "assistant":
        return base._replace(kind=kind, source="assistant", chars=len(said), sha=digest(said))
    source, kind = text_source(record, said)
    return base._replace(kind=kind, source=source, chars=len(said), sha=digest(said))


def text_source(record: Mapping[str, Any], said: str) -> tuple[str, str]:
    """Return (source, kind) of a user text: who wrote it."""
    if record.get("isCompactSummary") is True:
        return "summary", "summary"
    origin = text_origin(said)
    if origin == "command":
        return "command", "text"
    if record.get("isMeta") is True or origin in ("reminder", "notification"):
        return "attachment", "reminder"
    return "prompt", "text"


def _tool_use(block: Mapping[str, Any], base: Block) -> Block:
    given = block.get("input")
    said = dumps(given)
    found = mapping(given)
    name = text(block.get("name"))
    path = next((found[key] for key in _PATHS if text(found.get(key))), None)
    return base._replace(
        kind="tool_use",
        source="assistant",
        chars=len(said) + len(name or ""),
        sha=digest(said),
        tool_use_id=text(block.get("id")),
        name=name,
        given=said,
        path=path,
        command=text(found.get("command")),
    )


def _tool_result(
    block: Mapping[str, Any], record: Mapping[str, Any], base: Block
) -> Iterator[Block]:
    content = block.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
    said = "".join(part["text"] for part in parts if isinstance(part, dict) and _is_text(part))
    flag = block.get("is_error")
    error = flag if isinstance(flag, bool) else None
    result = record.get("toolUseResult")
    extra = mapping(result)
    whole = said if error is not False else ""
    name = text(block.get("tool_use_id"))
    yield base._replace(
        kind="tool_result",
        source="tool_result",
        chars=len(said),
        sha=digest(said),
        tool_use_id=name,
        is_error=error,
        error_kind=error_kind(whole) if error or _looks_wrong(whole) else None,
        interrupted=extra.get("interrupted") is True or None,
        seconds=_duration(extra),
        spilled=count(extra.get("persistedOutputSize")),
    )
    for part in parts:
        if isinstance(part, dict) and part.get("type") in ("image", "document"):
            yield _picture(part, str(part["type"]), base)._replace(tool_use_id=name)


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _looks_wrong(said: str) -> bool:
    return said.startswith(("Error: ", "<tool_use_error>", "Exit code "))


def error_kind(said: str) -> str:
    """Return the kind of failure the first 400 code points of a result speak of."""
    head = said[:400]
    return next((name for name, signs in _ERRORS if any(sign in head for sign in signs)), "other")


def _duration(extra: Mapping[str, Any]) -> float | None:
    for name in ("durationMs", "totalDurationMs"):
        value = seconds(extra.get(name))
        if value is not None:
            return value / 1000
    return seconds(extra.get("durationSeconds"))


def _picture(block: Mapping[str, Any], kind: str, base: Block) -> Block:
    source = mapping(block.get("source"))
    media, data = text(source.get("media_type")), source.get("data")
    width, height = measure(data) if kind == "image" and isinstance(data, str) else (None, None)
    owner = "prompt" if base.role == "user" else "assistant"
    return base._replace(
        kind=kind,
        source=owner,
        sha=digest(data) if isinstance(data, str) else None,
        media=media,
        width=width,
        height=height,
    )


def _attachment(attachment: Mapping[str, Any], base: Block) -> Block:
    said = "\n".join(_strings({k: v for k, v in attachment.items() if k != "type"}))
    return base._replace(
        role="user",
        kind="attachment",
        source="attachment",
        name=text(attachment.get("type")),
        path=text(attachment.get("filename")) or text(attachment.get("path")),
        chars=len(said),
        sha=digest(said),
    )


def _strings(value: Any) -> Iterator[str]:
    """Yield every text inside `value`, in order, without recursion limits."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            stack.extend(reversed(one.values()))
        elif isinstance(one, list):
            stack.extend(reversed(one))
