"""Own rows: one event of an agent-kernel-log as rows of parts; live sessions and files alike.

May not import the core's event classes: the fields of log.md are the contract.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from agent_kernel.frames.reader import COMMAND, LOG_ONLY, MESSAGE, NOTICE, PROMPT, RESULT, SUMMARY

Event = Mapping[str, Any]
Row = dict[str, Any]
SURFACE = ("user/message", "attachment", "assistant/message", "tool/result")
_ORIGINS = {"cell": "human", "notification": "notification", "api": "api"}
KNOWN = frozenset(
    """session/header session/resume session/end turn/start turn/end step/start step/end
    user/message attachment inbox/queued inbox/claimed inbox/dropped request/header request/context
    stream/attempt stream/retry stream/stall assistant/message tool/call tool/ask tool/decision
    hook/run tool/start tool/progress tool/result task/created task/status task/finished task/lost
    compaction/start compaction/summary compaction/end compaction/prune compaction/candidate
    compaction/undo file/observed file/changed snapshot cell/run namespace/changed model/selected
    permission/mode permission/rule tool/enabled mcp/connected memory/loaded skill/loaded budget/set
    breakpoint/set pin/set model/downgraded sample""".split()
)


def milliseconds(value: Any) -> int | None:
    """Return epoch seconds as milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * 1000)


def line(event: Event, session: str | None) -> Row:
    """Return the `lines` row of an event but for its place in the file."""
    kind = event.get("type")
    return {
        "type": kind,
        "subtype": event.get("kind") or event.get("purpose"),
        "status": "ok" if kind in KNOWN or event.get("ignorable") else "unknown_type",
        "time": milliseconds(event.get("time")),
        "session": session,
        "agent": event.get("agent"),
        "sidechain": event.get("agent", "main") != "main",
        "flags": _flags(event),
        "message_id": event.get("request_id") if kind == "assistant/message" else None,
        "seq": event.get("seq"),
        "turn": event.get("turn"),
        "step": event.get("step"),
    }


def _flags(event: Event) -> int:
    kind = event.get("type")
    if kind not in SURFACE:
        return LOG_ONLY
    if kind == "tool/result":
        return MESSAGE | RESULT
    if kind == "attachment":
        what = event.get("kind")
        extra = {"summary": SUMMARY, "notification": NOTICE, "skill": COMMAND}
        return MESSAGE | extra.get(str(what), 0)
    return MESSAGE | (PROMPT if kind == "user/message" else 0)


def usage(event: Event, session: str | None) -> Iterator[Row]:
    """Yield the call an event records, if it records one."""
    kind, tokens = event.get("type"), event.get("usage")
    if kind == "assistant/message":
        meta = _map(event.get("meta"))
        if meta.get("sent_back"):
            return  # an answer as another harness repeats it: its own call is elsewhere
        status = "interrupted" if event.get("interrupted") else "ok"
        yield _usage(event, session, tokens, meta.get("kind") or _agent_kind(event), status)
    elif isinstance(tokens, dict) and str(kind).startswith("compaction/"):
        status = "failed_attempt" if kind == "compaction/end" else "ok"
        yield _usage(event, session, tokens, "compaction", status)


def _called(event: Event) -> bool:
    sent_back = _map(event.get("meta")).get("sent_back")
    return event.get("type") == "assistant/message" and not sent_back


def _agent_kind(event: Event) -> str:
    return "main" if event.get("agent", "main") == "main" else "subagent"


def _usage(event: Event, session: str | None, tokens: Any, kind: str, status: str) -> Row:
    said = _map(tokens)
    request = event.get("request_id")
    took = event.get("seconds")
    if took is None and isinstance(event.get("duration_ms"), int | float):
        took = event["duration_ms"] / 1000
    return {
        "call_id": f"{session}:{event.get('seq')}",
        "request_id": request,
        "session": session,
        "agent": event.get("agent"),
        "agent_kind": kind,
        "nested": False,
        "sidechain": event.get("agent", "main") != "main",
        "provider": event.get("provider"),
        "model": event.get("model"),
        "time": milliseconds(event.get("time")),
        "input": said.get("input"),
        "output": said.get("output"),
        "write_5m": said.get("cache_write_5m"),
        "write_1h": said.get("cache_write_1h"),
        "split": "recorded",
        "read": said.get("cache_read"),
        "thinking": said.get("thinking"),
        "stop": event.get("stop_reason"),
        "status": status,
        "ttft": event.get("ttft"),
        "seconds": took,
        "usd": event.get("cost_usd"),
        "turn": event.get("turn"),
        "step": event.get("step"),
        "seq": event.get("seq"),
    }


def blocks(event: Event, session: str | None) -> Iterator[Row]:
    """Yield the content blocks of a surface event."""
    kind = event.get("type")
    if kind not in SURFACE:
        return
    base = {
        "session": session,
        "agent": event.get("agent"),
        "role": "assistant" if kind == "assistant/message" else "user",
        "time": milliseconds(event.get("time")),
        "call_id": f"{session}:{event.get('seq')}" if _called(event) else None,
    }
    content = event.get("content")
    listed = content if isinstance(content, list) else []
    if kind == "tool/result":
        listed = [_result(event, listed), *_pictures(listed)]
    for number, block in enumerate(listed):
        if isinstance(block, dict):
            yield {**base, "block": number, **_block(event, block)}


def _result(event: Event, content: list[Any]) -> Row:
    said = "".join(str(one.get("text", "")) for one in content if isinstance(one, dict))
    return {"type": "tool_result", "text": said, "id": event.get("id")}


def _pictures(content: list[Any]) -> list[Any]:
    return [one for one in content if isinstance(one, dict) and one.get("type") == "image"]


def _block(event: Event, block: Mapping[str, Any]) -> Row:
    kind = str(block.get("type"))
    if kind == "tool_result":
        return _result_block(event, str(block["text"]))
    if kind == "tool_use":
        return _use_block(block)
    if kind in ("image", "document"):
        source = _map(block.get("source"))
        return {"kind": kind, "source": _source(event), "media": source.get("media_type")}
    said = str(block.get("text") or block.get("thinking") or block.get("data") or "")
    shown = kind
    if event.get("type") == "attachment":
        shown = "summary" if event.get("kind") == "summary" else "attachment"
    return {"kind": shown, "source": _source(event), "chars": len(said), "sha": digest(said)}


def _source(event: Event) -> str:
    kind = event.get("type")
    if kind == "attachment":
        return "summary" if event.get("kind") == "summary" else "attachment"
    return {"user/message": "prompt", "assistant/message": "assistant"}.get(
        str(kind), "tool_result"
    )


def _use_block(block: Mapping[str, Any]) -> Row:
    given = _map(block.get("input"))
    said = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    paths = ("file_path", "path", "notebook_path", "url", "notebook")
    return {
        "kind": "tool_use",
        "source": "assistant",
        "chars": len(said) + len(str(block.get("name") or "")),
        "sha": digest(said),
        "tool_use_id": block.get("id"),
        "name": block.get("name"),
        "given": said,
        "path": next((given[one] for one in paths if isinstance(given.get(one), str)), None),
        "command": given.get("command") if isinstance(given.get("command"), str) else None,
    }


def _result_block(event: Event, said: str) -> Row:
    meta, failed = _map(event.get("meta")), event.get("is_error") is True
    return {
        "kind": "tool_result",
        "source": "summary" if isinstance(event.get("surface"), dict) else "tool_result",
        "chars": len(said),
        "sha": digest(said),
        "tool_use_id": event.get("id"),
        "is_error": failed,
        "error_kind": str(meta.get("error_kind") or "other") if failed else None,
        "interrupted": meta.get("interrupted") is True,
        "seconds": meta.get("seconds"),
        "spilled": meta.get("original_bytes") if meta.get("truncated") else None,
    }


def digest(said: str) -> str:
    """Return 16 hex digits of the BLAKE2b of `said`."""
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def marks(event: Event) -> Iterator[tuple[str, Row]]:
    """Yield (mark, data) for what an event says beside text and tokens."""
    if event.get("type") in SURFACE and isinstance(event.get("surface"), dict):
        place = event["surface"]
        waits = _map(event.get("meta")).get("compaction_id")
        yield "replace", {"start": place.get("start"), "end": place.get("end"), "waits": waits}
    elif _map(event.get("meta")).get("compaction_id") and event.get("type") in SURFACE:
        yield "replace", {"waits": event["meta"]["compaction_id"], "append": True}
    if event.get("type") == "turn/start":
        yield "prompt", {"origin": _ORIGINS.get(str(event.get("source")), "human")}
    if event.get("type") == "task/created" and event.get("kind") == "agent":
        told = {one: event.get(one) for one in ("tool_use_id", "label", "depth")}
        yield "spawn", {"agent": event.get("id"), **told}
    finder = _MARKS.get(str(event.get("type")))
    if finder is not None:
        name, fields = finder
        data = fields(event) if callable(fields) else {one: event.get(one) for one in fields}
        yield name, {key: value for key, value in data.items() if value is not None}


def _finished(event: Event) -> Row:
    lost = event.get("type") == "task/lost"
    return {
        "id": event.get("id"),
        "status": "lost" if lost else event.get("status"),
        "exit_code": event.get("exit_code"),
    }


def _forked(event: Event) -> Row:
    origin = _map(event.get("forked_from"))
    return {"from": origin.get("session"), "seq": origin.get("seq")}


def _sampled(event: Event) -> Row:
    told = {one: event.get(one) for one in ("model", "stop_reason", "seconds", "error")}
    spent = _map(event.get("usage"))
    blocks = [each for each in event.get("content") or () if isinstance(each, Mapping)]
    uses = [each for each in blocks if each.get("type") == "tool_use"]
    texts = (str(each.get("text") or "") for each in blocks if each.get("type") == "text")
    first = _map(uses[0]) if uses else {}
    return {
        **told,
        "action": "error" if told["error"] else "tool" if uses else "text",
        "tool": first.get("name"),
        "node": event.get("of"),
        "attempt": event.get("n"),
        "block": len(uses),
        "given": json.dumps(first.get("input"), sort_keys=True) if uses else None,
        "text": " ".join(texts)[:2_000],
        **{one: spent.get(one) for one in ("input", "output")},
        "read": spent.get("cache_read"),
        "write_5m": spent.get("cache_write_5m"),
        "write_1h": spent.get("cache_write_1h"),
    }


Fields = tuple[str, ...] | Callable[[Event], Row]
_MARKS: dict[str, tuple[str, Fields]] = {
    "session/header": ("fork", _forked),
    "turn/end": ("turn_end", ("reason",)),
    "tool/start": ("tool_start", ("id",)),
    "permission/mode": ("mode", ("mode",)),
    "tool/ask": ("ask", ("id", "rule", "reason")),
    "tool/decision": (
        "decision",
        ("id", "verdict", "by", "rule", "reason", "would_pass", "waited"),
    ),
    "task/created": ("task", ("id", "kind", "label", "tool_use_id", "depth")),
    "task/finished": ("task_end", _finished),
    "task/lost": ("task_end", _finished),
    "sample": ("sample", _sampled),
    "compaction/undo": ("undo", ("compaction_id", "restores")),
    "request/context": (
        "request",
        ("purpose", "digest", "window", "tokens_estimated", "compaction_id"),
    ),
}
