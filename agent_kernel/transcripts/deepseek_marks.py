"""DeepSeek marks: compactions, prompts, tasks, approvals and errors of a DeepSeek Harness log.

May not fold: a replacement is handed on with its span and sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_kernel.transcripts.deepseek_rows import (
    Event,
    State,
    body,
    call_id,
    event_key,
    source_kind,
)
from agent_kernel.transcripts.fields import count, items, mapping, seconds, text
from agent_kernel.transcripts.jsonl import dumps
from agent_kernel.transcripts.rows import Mark

_EXIT = re.compile(r"exit code: (-?\d+)")
_JOB = re.compile(r"background job (\S+)")
_ENDS = {
    "completed": "completed",
    "interrupted": "interrupted",
    "aborted": "interrupted",
    "max-steps": "max_steps",
    "max-tokens": "completed",
    "content-filter": "refused",
    "context-overflow": "prompt_too_long",
}


def marks(event: Event, state: State, offset: int, seq: int | None) -> Iterator[Mark]:
    """Yield what an event says beside text and tokens."""
    uuid = text(body(event).get("id"))
    for name, data in _found(event, state, seq):
        kept = {key: value for key, value in data.items() if value is not None}
        yield Mark(offset, name, uuid, state.owner(event), None, state.time(event), dumps(kept))


def _found(event: Event, state: State, seq: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, data = str(event.get("type")), mapping(event.get("data"))
    place = event.get("surfaceOp")
    if isinstance(place, dict):
        yield "replace", _span(event, place)
        yield from _compacted(event, kind, state)
    if kind == "session" and state.parent:
        yield "fork", {"from": state.parent}
    elif kind == "user/message" and event.get("surfaceOp"):
        yield from _spoken(event)
    elif kind.startswith("compaction/"):
        _gather(event, state, seq)
    elif kind in _SIMPLE:
        yield from _SIMPLE[kind](data, state)


def _span(event: Event, place: Mapping[str, Any]) -> dict[str, Any]:
    start, end = place.get("startSeq", place.get("start")), place.get("endSeq", place.get("end"))
    named: list[int] = []
    for one in items(event.get("sourceEventSeqs")):
        if isinstance(one, list) and len(one) == 2 and all(isinstance(x, int) for x in one):
            named.extend(range(one[0], min(one[1], one[0] + 1_000_000) + 1))
        elif isinstance(one, int):
            named.append(one)
    return {"start": count(start), "end": count(end), "sources": named}


def _compacted(event: Event, kind: str, state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the compaction a replacement commits: a summary, or one cleared result."""
    if kind == "tool/result":
        yield "micro", {"cleared": [call_id(event)] if call_id(event) else [], "layer": "prune"}
    elif kind == "user/message":
        said = mapping(body(event).get("source")).get("compactionId")
        held = state.compaction
        yield "boundary", {**held, "id": text(said) or held.get("id")}
        state.compaction = {}


def _gather(event: Event, state: State, seq: int | None) -> None:
    kind, data = event.get("type"), mapping(event.get("data"))
    if kind == "compaction/start":
        manual = data.get("turn") is None
        state.compaction = {
            "id": text(data.get("compactionId")),
            "trigger": "manual" if manual else "auto",
            "first_seq": seq,
        }
    elif kind == "compaction/summary":
        said = "".join(str(mapping(one).get("text") or "") for one in items(data.get("summary")))
        state.compaction |= {
            "summary_chars": len(said),
            "hidden": len(items(data.get("shadowedSeqs"))),
            "calls": [event_key(event, state, seq)],
        }


def _spoken(event: Event) -> Iterator[tuple[str, dict[str, Any]]]:
    who = source_kind(event)
    if who in ("user", "goal", None):
        yield "prompt", {"origin": "human" if who != "goal" else "queued"}
    elif who == "subagent-settled":
        source = mapping(body(event).get("source"))
        yield "notice", {"id": text(source.get("senderSessionId")), "status": "completed"}
    elif who == "tool-jobs":
        said = str(mapping(next(iter(items(body(event).get("content"))), {})).get("text"))
        found, code = _JOB.search(said), _EXIT.search(said)
        if found:
            yield "notice", {"id": found[1], "exit_code": int(code[1]) if code else None}


def _turn_end(data: Mapping[str, Any], _state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    reason = text(mapping(data.get("reason")).get("kind")) or ""
    yield "turn_end", {"reason": _ENDS.get(reason, "error")}


def _tool_call(data: Mapping[str, Any], _state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "tool_start", {"id": text(data.get("callId"))}


def _asked(data: Mapping[str, Any], state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    call = text(data.get("callId"))
    if call and text(data.get("id")):
        state.approvals[data["id"]] = call
        yield "ask", {"id": call, "reason": text(data.get("reason"))}


def _decided(data: Mapping[str, Any], state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    call = state.approvals.get(text(data.get("id")) or "")
    if call:
        allowed = str(data.get("outcome")).startswith("allow")
        yield "decision", {"id": call, "verdict": "allow" if allowed else "deny", "by": "person"}


def _job(data: Mapping[str, Any], _state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    call = mapping(data.get("toolCall"))
    yield (
        "task",
        {
            "id": text(data.get("jobId")),
            "kind": text(data.get("kind")),
            "label": text(data.get("label")),
            "tool_use_id": text(call.get("callId")),
        },
    )


def _settled(data: Mapping[str, Any], _state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    code = _EXIT.search(str(data.get("detail")))
    yield (
        "task_end",
        {
            "id": text(data.get("jobId")),
            "status": text(data.get("status")),
            "exit_code": int(code[1]) if code else None,
        },
    )


def _child(data: Mapping[str, Any], _state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "spawn", {"agent": text(data.get("childId")), "label": text(data.get("label"))}


def _title(data: Mapping[str, Any], _state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "title", {"title": text(data.get("title"))}


def _retry(data: Mapping[str, Any], _state: State) -> Iterator[tuple[str, dict[str, Any]]]:
    failure = mapping(data.get("failure"))
    wait = seconds(data.get("delayMs"))
    yield "error", {"status": failure.get("code"), "wait": None if wait is None else wait / 1000}


_SIMPLE = {
    "turn/end": _turn_end,
    "tool/call": _tool_call,
    "approval/asked": _asked,
    "approval/decided": _decided,
    "job/registered": _job,
    "job/settled": _settled,
    "subagent/catalog": _child,
    "session/title": _title,
    "llm/retry": _retry,
}
