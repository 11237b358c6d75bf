"""Demo transcript: what a request body says, read for the demo's rules.

May not judge or answer: it finds the person's words, the calls of this turn and their results.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.core.messages import Json, canonical

# Text of the runtime stands in our own tags, or begins with a fixed line (features F3, F6.3).
_RUNTIME = re.compile(
    r"\s*(?:<(?:runtime|task|memory|skill|system|reminder|summary|carried|constraints|ledger|footer|"
    r"notice|notification|attachment|file|context|tool)[\w-]*[\s/>]|Runtime notice|\[|"
    r"File: [^\n]+\n`{3,})"
)
_NOTE = re.compile(r"<task-notification>(.*?)</task-notification>", re.DOTALL)
_NUMBERED = re.compile(r"^\s*\d+(?:[\t→|]|: ?)")


@dataclass(frozen=True, slots=True)
class Step:
    """One call of this turn and its result's text, None while it has none."""

    name: str
    input: Json = field(hash=False)
    text: str | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """The present turn: the person's prompt, the steps since, and what the runtime reported."""

    prompt: str
    steps: tuple[Step, ...]
    notices: tuple[dict[str, str], ...]  # task notifications not answered yet
    answered: bool  # the prompt already got a final text
    tools: tuple[str, ...]
    last_text: str
    last_answer: str  # the final text of the turn before
    last_table: str  # the table read last in earlier turns


def transcript_of(body: Mapping[str, Any]) -> Transcript:
    """Return what `body`, a POST /v1/messages object, says of the turn that goes on."""
    messages = [m for m in body.get("messages") or () if isinstance(m, Mapping)]
    begin = _prompt_at(messages)
    prompt = "" if begin is None else "\n".join(_person(messages[begin]))
    since = messages[begin or 0 :]
    last = messages[-1] if messages else {}
    return Transcript(
        prompt,
        tuple(_steps(since)),
        tuple(_notices(since)),
        any(_is_final(message) for message in since),
        tuple(str(tool.get("name")) for tool in body.get("tools") or ()),
        "\n".join(_texts(last)) if last.get("role") == "user" else "",
        next((t for m in reversed(messages[: begin or 0]) if (t := _final_text(m))), ""),
        next(reversed(list(_tables(messages[: begin or 0]))), ""),
    )


def seed_of(body: Mapping[str, Any]) -> str:
    """Return hex digits that name a request by its content, cache marks left out."""
    named = {key: body.get(key) for key in ("model", "system", "tools", "messages")}
    return hashlib.sha256(canonical(_unmarked(named))).hexdigest()


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(inner) for inner in value]
    if isinstance(value, Mapping):
        return {k: _unmarked(inner) for k, inner in value.items() if k != "cache_control"}
    return value


def blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a message's blocks; a string content is one text."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content or () if isinstance(b, Mapping)]


def _texts(message: Mapping[str, Any]) -> list[str]:
    return [str(b.get("text")) for b in blocks(message) if b.get("type") == "text"]


def _person(message: Mapping[str, Any]) -> list[str]:
    if message.get("role") != "user":
        return []
    return [t for t in _texts(message) if t.strip() and not _RUNTIME.match(t)]


def _prompt_at(messages: list[Mapping[str, Any]]) -> int | None:
    return next((i for i in range(len(messages) - 1, -1, -1) if _person(messages[i])), None)


def _steps(messages: list[Mapping[str, Any]]) -> Iterator[Step]:
    results: dict[Any, Mapping[str, Any]] = {}
    for message in messages:
        for block in blocks(message):
            if block.get("type") == "tool_result":
                results[block.get("tool_use_id")] = block
    for message in messages:
        for block in blocks(message) if message.get("role") == "assistant" else ():
            if block.get("type") == "tool_use":
                result = results.get(block.get("id"))
                text = None if result is None else result_text(result)
                failed = bool(result and result.get("is_error"))
                yield Step(str(block.get("name")), dict(block.get("input") or {}), text, failed)


def result_text(result: Mapping[str, Any]) -> str:
    """Return the text of a tool result."""
    return "\n".join(_texts(result))


def _notices(messages: list[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """Notifications after the last assistant message."""
    at = max((i for i, m in enumerate(messages) if m.get("role") == "assistant"), default=-1)
    for message in messages[at + 1 :]:
        for text in _texts(message):
            for found in _NOTE.findall(text):
                fields = re.findall(r"<([a-z_-]+)>(.*?)</\1>", found, re.DOTALL)
                yield {name: value.strip() for name, value in fields}


def _is_final(message: Mapping[str, Any]) -> bool:
    kinds = [b.get("type") for b in blocks(message)]
    return message.get("role") == "assistant" and "text" in kinds and "tool_use" not in kinds


def _tables(messages: list[Mapping[str, Any]]) -> Iterator[str]:
    for step in _steps(messages):
        path = step.input.get("path")
        if step.name == "read" and isinstance(path, str) and path.endswith((".csv", ".tsv")):
            yield path


def _final_text(message: Mapping[str, Any]) -> str:
    return "\n".join(_texts(message)) if _is_final(message) else ""


def output(text: str) -> str:
    """Return what a program printed: the tool's own notes at the end taken off."""
    lines = text.rstrip().splitlines()
    while lines and re.fullmatch(r"\[(?:names|exit code|took|value|cwd)\b.*\]", lines[-1].strip()):
        lines.pop()
    return "\n".join(lines)


def lines_in(text: str) -> int:
    """Return the lines of the file a read result shows: what its note says, else what is shown."""
    total = re.search(r"\[lines [\d,]+-[\d,]+ of ([\d,]+);", text)
    return int(total[1].replace(",", "")) if total else len(plain(text).splitlines())


def plain(text: str) -> str:
    """Return a file's text from a read result: line numbers and the closing notes taken off."""
    lines = text.splitlines()
    numbered = [line for line in lines if _NUMBERED.match(line)]
    if len(numbered) * 2 < len(lines) or not numbered:
        return text
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in numbered)
