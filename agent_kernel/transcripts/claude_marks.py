"""Claude Code marks: boundaries, prompts, tasks, settings and errors of a session.

May not carry message text, but for a title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import agent_kernel.transcripts.rows as flag
from agent_kernel.transcripts.claude_usage import Place
from agent_kernel.transcripts.fields import count, items, mapping, moment, seconds, text
from agent_kernel.transcripts.jsonl import dumps
from agent_kernel.transcripts.rows import Mark

_INTERRUPT = "[Request interrupted by user"
_COMMANDS = ("<command-name>", "<command-message>", "<local-command-", "<bash-input>", "<bash-std")
_TAG = re.compile(r"<(task-id|tool-use-id|status|exit-code)>([^<]{1,200})</\1>")
_EXIT = re.compile(r"<summary>[^<]*\(exit code (-?\d{1,9})\)[^<]*</summary>")
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_SETTINGS = {"mode": "mode", "permission-mode": "permissionMode", "tag": "tag"}
Found = Iterator[tuple[str, dict[str, Any]]]


def text_origin(said: str) -> str | None:
    """Return what a user text is: interrupt, command, notification, reminder; None for a prompt."""
    head = said.lstrip()[:40]
    if head.startswith(_INTERRUPT):
        return "interrupt"
    if head.startswith(_COMMANDS):
        return "command"
    if head.startswith("<task-notification>"):
        return "notification"
    return "reminder" if head.startswith("<system-reminder>") else None


def message_flags(record: Mapping[str, Any], kind: str, message: Mapping[str, Any]) -> int:
    """Return the flags that say what a user or assistant message is."""
    if kind != "user":
        return 0
    said, results = _spoken(message.get("content"))
    if results:
        return flag.RESULT
    if record.get("isMeta") is True or record.get("isCompactSummary") is True:
        return 0
    origin = text_origin(said)
    named = {"interrupt": flag.INTERRUPT, "command": flag.COMMAND, "notification": flag.NOTICE}
    if origin is None:
        return flag.PROMPT
    return named.get(origin, 0)


def _spoken(content: Any) -> tuple[str, bool]:
    """Return the first text of a message and whether it answers tool calls."""
    if isinstance(content, str):
        return content, False
    blocks = [block for block in items(content) if isinstance(block, dict)]
    results = any(str(block.get("type")).endswith("tool_result") for block in blocks)
    said = (block["text"] for block in blocks if isinstance(block.get("text"), str))
    return next(said, ""), results


def marks(record: Mapping[str, Any], kind: str | None, place: Place) -> Iterator[Mark]:
    """Yield what the record says beside text and tokens."""
    finder = _FINDERS.get(kind or "")
    if finder is None:
        return
    uuid, when = text(record.get("uuid")), moment(record.get("timestamp"))
    for name, data in finder(record):
        kept = {key: value for key, value in data.items() if value is not None}
        yield Mark(place.offset, name, uuid, place.session, place.agent, when, dumps(kept))


def _system(record: Mapping[str, Any]) -> Found:
    subtype = record.get("subtype")
    if subtype == "compact_boundary":
        yield "boundary", _boundary(record)
    elif subtype == "microcompact_boundary":
        meta = mapping(record.get("microcompactMetadata"))
        yield (
            "micro",
            {
                "trigger": text(meta.get("trigger")),
                "pre": count(meta.get("preTokens")),
                "saved": count(meta.get("tokensSaved")),
                "cleared": [one for one in items(meta.get("compactedToolIds")) if text(one)],
            },
        )
    elif subtype == "api_error":
        yield (
            "error",
            {
                "status": count(mapping(record.get("error")).get("status")),
                "attempt": count(record.get("retryAttempt")),
                "wait": (seconds(record.get("retryInMs")) or 0) / 1000,
            },
        )
    elif subtype == "turn_duration":
        yield "turn_duration", {"seconds": (seconds(record.get("durationMs")) or 0) / 1000}
    elif subtype == "rewind_boundary":
        yield "rewind", {}


def _boundary(record: Mapping[str, Any]) -> dict[str, Any]:
    meta = mapping(record.get("compactMetadata"))
    kept, span = mapping(meta.get("preservedMessages")), mapping(meta.get("preservedSegment"))
    took = seconds(meta.get("durationMs"))
    return {
        "trigger": text(meta.get("trigger")),
        "pre": count(meta.get("preTokens")),
        "post": count(meta.get("postTokens")),
        "dropped": count(meta.get("cumulativeDroppedTokens")),
        "seconds": None if took is None else took / 1000,
        "precomputed": meta.get("precomputed") is True or None,
        "anchor": text(kept.get("anchorUuid")) or text(span.get("anchorUuid")),
        "kept": [one for one in items(kept.get("uuids")) if text(one)] or None,
        "head": text(span.get("headUuid")),
        "tail": text(span.get("tailUuid")),
        "logical": text(record.get("logicalParentUuid")),
    }


def _user(record: Mapping[str, Any]) -> Found:
    message = mapping(record.get("message"))
    bits = message_flags(record, "user", message)
    said, _ = _spoken(message.get("content"))
    if bits & flag.PROMPT:
        source = text(record.get("promptSource"))
        yield "prompt", {"origin": "api" if source == "sdk" else "human"}
    elif bits & flag.COMMAND and said.lstrip().startswith(("<command-", "<bash-input>")):
        yield "prompt", {"origin": "command"}
    elif bits & flag.NOTICE:
        yield "prompt", {"origin": "notification"}
        yield "notice", _notice(said)
    elif bits & flag.INTERRUPT:
        yield "interrupt", {}
    if bits & flag.RESULT:
        yield from _results(record, message)
    if text(record.get("permissionMode")):
        yield "setting", {"permission_mode": record["permissionMode"]}


def _results(record: Mapping[str, Any], message: Mapping[str, Any]) -> Found:
    """Yield what the harness adds to a tool result: a started sub-agent or background command."""
    result = mapping(record.get("toolUseResult"))
    call = next(
        (text(one.get("tool_use_id")) for one in items(message.get("content")) if mapping(one)),
        None,
    )
    if text(result.get("agentId")):
        took = seconds(result.get("totalDurationMs"))
        yield (
            "spawn",
            {
                "agent": result["agentId"],
                "tool_use_id": call,
                "status": text(result.get("status")),
                "label": text(result.get("description")),
                "seconds": None if took is None else took / 1000,
                "background": result.get("isAsync") is True or None,
            },
        )
    if text(result.get("backgroundTaskId")):
        yield "task", {"id": result["backgroundTaskId"], "kind": "bash", "tool_use_id": call}


def _attachment(record: Mapping[str, Any]) -> Found:
    attachment = mapping(record.get("attachment"))
    kind = attachment.get("type")
    if kind == "queued_command":
        said = attachment.get("prompt")
        said = said if isinstance(said, str) else ""
        notice = attachment.get("commandMode") == "task-notification"
        yield "prompt", {"origin": "notification" if notice else "queued"}
        if notice:
            yield "notice", _notice(said)
    elif kind == "prompt_snapshot":
        yield "system", {"chars": len(dumps(attachment))}


def _notice(said: str) -> dict[str, Any]:
    found = dict(_TAG.findall(said[:4000]))
    worded = _EXIT.search(said[:4000])
    code = found.get("exit-code") or (worded[1] if worded else "")
    return {
        "id": found.get("task-id"),
        "tool_use_id": found.get("tool-use-id"),
        "status": found.get("status"),
        "exit_code": int(code) if code.lstrip("-").isdigit() else None,
    }


def _side(record: Mapping[str, Any]) -> Found:
    kind = str(record.get("type"))
    if kind in _TITLES:
        yield (
            "title",
            {"title": text(record.get(_TITLES[kind])), "leaf": text(record.get("leafUuid"))},
        )
    elif kind in _SETTINGS:
        yield "setting", {kind.replace("-", "_"): text(record.get(_SETTINGS[kind]))}
    elif kind == "queue-operation":
        said = record.get("content")
        notice = isinstance(said, str) and text_origin(said) == "notification"
        named = _notice(said)["id"] if notice and isinstance(said, str) else None
        yield "queue", {"operation": text(record.get("operation")), "notice": notice, "id": named}
    elif kind == "content-replacement":
        found = [mapping(one) for one in items(record.get("replacements"))]
        ids = [one.get("toolUseId") or one.get("tool_use_id") for one in found]
        yield "replacement", {"tool_use_ids": [one for one in ids if text(one)]}
    elif kind == "fork-context-ref":
        yield "fork", {"from": text(record.get("parentSessionId"))}


_FINDERS = {
    "system": _system,
    "user": _user,
    "attachment": _attachment,
    **dict.fromkeys(
        [*_TITLES, *_SETTINGS, "queue-operation", "content-replacement", "fork-context-ref"], _side
    ),
}
