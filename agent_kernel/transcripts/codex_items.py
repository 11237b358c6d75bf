"""Codex items: the response items of a rollout as content blocks.

May not keep text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_kernel.transcripts.fields import digest, items, mapping, text
from agent_kernel.transcripts.jsonl import dumps, parse
from agent_kernel.transcripts.rows import Block

_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_EXIT = re.compile(r"(?:exit(?:ed with)? code:?|Process exited with code) (-?\d+)", re.IGNORECASE)


def item_blocks(payload: Mapping[str, Any], base: Block) -> Iterator[Block]:
    """Yield the blocks of one response item."""
    kind = text(payload.get("type"))
    if kind == "message":
        yield from _message(payload, base)
    elif kind == "reasoning":
        parts = [*items(payload.get("summary")), *items(payload.get("content"))]
        said = "".join(str(mapping(part).get("text") or "") for part in parts)
        yield base._replace(
            role="assistant",
            kind="thinking",
            source="assistant",
            chars=len(said),
            sha=digest(said),
        )
    elif kind in _CALLS:
        yield _call(payload, base)
    elif kind and kind.endswith("_output"):
        yield _output(payload, base)


def _message(payload: Mapping[str, Any], base: Block) -> Iterator[Block]:
    role = "assistant" if payload.get("role") == "assistant" else "user"
    source = {"assistant": "assistant", "user": "prompt"}.get(str(payload.get("role")), "system")
    for number, part in enumerate(items(payload.get("content"))):
        found = mapping(part)
        said = text(found.get("text")) or ""
        image = "image" in str(found.get("type"))
        yield base._replace(
            block=number,
            role=role,
            kind="image" if image else "text",
            source=source,
            chars=0 if image else len(said),
            sha=digest(said) if said else None,
        )


def _call(payload: Mapping[str, Any], base: Block) -> Block:
    given = payload.get("arguments", payload.get("input", payload.get("action")))
    said = given if isinstance(given, str) else dumps(given)
    try:
        found = mapping(parse(said.encode("utf-8", "surrogatepass")))
    except ValueError:
        found = {}
    command = found.get("command", found.get("cmd"))
    if isinstance(command, list):
        command = " ".join(str(one) for one in command)
    name = text(payload.get("name")) or text(payload.get("type"))
    return base._replace(
        role="assistant",
        kind="tool_use",
        source="assistant",
        chars=len(said) + len(name or ""),
        sha=digest(said),
        tool_use_id=text(payload.get("call_id")) or text(payload.get("id")),
        name=name,
        given=said,
        path=text(found.get("path")) or text(found.get("file_path")),
        command=text(command),
    )


def _output(payload: Mapping[str, Any], base: Block) -> Block:
    output = payload.get("output")
    said = output if isinstance(output, str) else text(mapping(output).get("content"))
    if said is None:
        said = "" if output is None else dumps(output)
    success = mapping(output).get("success")
    code = _EXIT.search(said[:400])
    failed = success is False or (code is not None and code[1] != "0")
    return base._replace(
        role="user",
        kind="tool_result",
        source="tool_result",
        chars=len(said),
        sha=digest(said),
        tool_use_id=text(payload.get("call_id")),
        is_error=not success if isinstance(success, bool) else None,
        error_kind="exit_code" if failed and code else "other" if failed else None,
    )
