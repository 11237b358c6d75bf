"""Request: one request as it was or would be sent, and the difference between two.

May not rebuild a request: core/replay.py does, and hands it in.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.said as said
import agent_kernel.widgets.units as units
from agent_kernel.core.messages import Message, Usage, dumps
from agent_kernel.core.model import Request
from agent_kernel.core.usage import cost, estimate
from agent_kernel.widgets.doc import (
    Block,
    Commands,
    Diff,
    Fold,
    Head,
    Items,
    Pairs,
    Para,
    Pre,
    code,
    text,
)
from agent_kernel.widgets.turnview import Line

TEXT_CHARS = 4_000
RAW_CHARS = 200_000
AROUND = 24


def view(request: Request, *, label: str = "next request", sent: bool = True) -> list[Block]:
    """Return a request in reading order; `sent` False says that nothing was sent."""
    body = request.body
    tokens = units.count(estimate(len(body)), "token")
    head = Head(text(f"Request {label}"), "" if sent else "not sent")
    facts = Pairs(
        (
            ("model", code(request.model)),
            ("limits", text(f"out at most {units.count(request.max_tokens, 'token')}")),
            ("parameters", code(json.dumps(request.params)) if request.params else text("none")),
            ("size", text(f"{len(body):,} bytes, ~{tokens}")),
            ("digest", code(request.digest)),
        )
    )
    parts: list[Block] = [head, facts]
    parts += [_system(request), _tools(request)]
    parts.append(Head(text(f"Messages, {len(request.messages)}")))
    parts += [_message(at, message) for at, message in enumerate(request.messages)]
    return [*parts, Commands((f"%agent request {label} --raw", "%agent context"))]


def _system(request: Request) -> Block:
    blocks: list[Block] = []
    for part in request.system:
        blocks += [Para([["b", hidden.one_line(part.name)]]), Pre(hidden.spans(part.text))]
    size = units.count(estimate(sum(len(p.text) for p in request.system)), "token")
    return Fold(text(f"System, {units.count(len(request.system), 'block')}, ~{size}"), blocks)


def _tools(request: Request) -> Block:
    names = [
        [*code(tool.name), ["t", " "], *text(tool.description[:120])] for tool in request.tools
    ]
    size = units.count(estimate(sum(len(dumps(t.wire())) for t in request.tools)), "token")
    return Fold(text(f"Tools, {len(request.tools)}, ~{size}"), (Items(names),))


def _message(at: int, message: Message) -> Block:
    size = units.count(estimate(len(message.bytes)), "token")
    first = " ".join(said.block_words(block) for block in message.content)
    line = hidden.one_line(first)[: said.CHARS]
    whole = json.dumps(message.wire(), ensure_ascii=False, indent=1)
    kept = whole if len(whole) <= TEXT_CHARS else whole[:TEXT_CHARS] + "…"
    row = [["b", f"{at} {message.role}"], ["t", f" ~{size}: {line}"]]
    return Fold(row, (Pre(hidden.spans(kept)),))


def raw(request: Request) -> str:
    """Return the exact body as text, at most RAW_CHARS characters; our own is all ASCII."""
    body = request.body.decode("utf-8", "replace")
    return body if len(body) <= RAW_CHARS else body[:RAW_CHARS] + "…"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two requests part: the byte, the layer it lies in, and the tokens written anew.

    `byte` is None for equal ones, or where one is the other's beginning; `layer` is settings,
    tools, system or messages; `message` its index. `same` and `rewritten` are estimated tokens.
    """

    byte: int | None
    layer: str
    message: int | None
    same: int
    rewritten: int


def compare(before: Request, after: Request) -> Difference:
    """Return where `after` leaves the prefix of `before`; cache marks do not count (law 5)."""
    a, b = before.prefix, after.prefix
    shared = _shared(a, b)
    layer, message = _layer(before, after)
    if not layer:
        return Difference(None, "", None, estimate(len(a)), estimate(len(b) - len(a)))
    return Difference(shared, layer, message, estimate(shared), estimate(len(b) - shared))


def _shared(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:  # bisection on equal prefixes: one comparison of slices a turn
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _layer(before: Request, after: Request) -> tuple[str, int | None]:
    """Return the first layer, in the order sent, in which the two differ; ("", None) when none."""
    if (before.model, before.max_tokens, before.params) != (
        after.model,
        after.max_tokens,
        after.params,
    ):
        return "settings", None
    if before.tools != after.tools:
        return "tools", None
    if before.system != after.system:
        return "system", None
    for at, (old, new) in enumerate(zip(before.messages, after.messages, strict=False)):
        if old.bytes != new.bytes:
            return "messages", at
    return ("", None) if len(after.messages) >= len(before.messages) else ("messages", None)


def difference(
    before: Request,
    after: Request,
    *,
    labels: tuple[str, str],
    cause: str = "",
    dollars: str = "",
) -> list[Block]:
    """Return how two requests differ: first byte, layer, cause, the lines around, and its cost."""
    found = compare(before, after)
    title = Head(text(f"Request {labels[0]} against {labels[1]}"))
    if not found.layer:
        more = len(after.messages) - len(before.messages)
        words = "The same bytes." if not more else f"The same prefix, {more} messages more."
        return [title, Para(text(words)), _sizes(found)]
    where = f"{found.layer}, message {found.message}" if found.message is not None else found.layer
    lines: list[Block] = [
        Para([["b", f"First differing byte {found.byte:,}"], ["t", f", in {where}."]])
    ]
    if cause:
        lines.append(Para(text(f"Cause: {cause}")))
    at = found.byte or 0
    around = [_around(request.prefix, at) for request in (before, after)]
    cut = "\n".join(f"{label:<8} {piece}" for label, piece in zip(labels, around, strict=True))
    lines.append(Pre([["t", cut]]))
    rows = list(_rows(before, after))
    if rows:
        lines.append(
            Fold(text(f"{units.count(len(rows), 'changed line')}"), (Diff(rows),), open=True)
        )
    return [title, *lines, _sizes(found, dollars)]


def difference_state(
    before: Request,
    after: Request,
    *,
    labels: tuple[str, str],
    cause: str = "",
    dollars: str = "",
) -> dict[str, Any]:
    """Return what the widget draws of two requests: sizes, byte, cause, the text around, rows."""
    found = compare(before, after)
    more = len(after.messages) - len(before.messages)
    same = "the same bytes" if not more else f"the same prefix, {units.count(more, 'message')} more"
    facts: list[tuple[str, Line]] = []
    if found.layer:
        where = f", message {found.message}" if found.message is not None else ""
        facts.append(("Where", text(f"{found.layer}{where}")))
        facts.append(("Cause", text(cause or "other content in the same place")))
    around: list[list[str]] = []
    if found.byte is not None:
        for label, request in zip(labels, (before, after), strict=True):
            body, at = request.prefix, found.byte
            pieces = (body[max(0, at - AROUND) : at], body[at : at + AROUND])
            around.append([label, *(hidden.one_line(p.decode("utf-8", "replace")) for p in pieces)])
    return {
        "state": "difference",
        "title": f"Request {labels[0]} against {labels[1]}",
        "note": "" if found.layer else same,
        "byte": found.byte,
        "same": found.same,
        "rewritten": found.rewritten,
        "dollars": dollars,
        "facts": facts,
        "around": around,
        "rows": list(_rows(before, after)) if found.layer else [],
        "commands": [f"%agent request {label}" for label in labels],
    }


def _around(body: bytes, at: int) -> str:
    return hidden.shown(body[max(0, at - AROUND) : at + AROUND].decode("ascii", "replace"))


def _sizes(found: Difference, dollars: str = "") -> Block:
    same, new = (units.count(n, "token") for n in (found.same, found.rewritten))
    rows = [("same prefix", text(f"~{same}")), ("written anew", text(f"~{new}"))]
    return Pairs((*rows, *((("costs", text(dollars)),) if dollars else ())))


def rewrite_cost(model: str, tokens: int, time: float | None = None) -> str:
    """Return what writing `tokens` of a changed prefix costs beside reading them, in words.

    "" when the model has no price. Both are list prices: a 5-minute write, and a cache read.
    """
    written = cost(model, Usage(cache_write_5m=tokens), time)
    read = cost(model, Usage(cache_read=tokens), time)
    if written is None or read is None:
        return ""
    return f"~${written:.4f} to write; ~${read:.4f} had the prefix held"


def _rows(before: Request, after: Request) -> Iterator[list[object]]:
    old, new = _lines(before), _lines(after)
    for line in difflib.unified_diff(old, new, n=0, lineterm=""):
        if line[:1] in "+-" and line[:3] not in ("+++", "---"):
            yield [None, None, line[0], line[1:]]


def _lines(request: Request) -> Sequence[str]:
    lines = [f"model {request.model}", f"max_tokens {request.max_tokens}"]
    lines += [f"{key} {json.dumps(value)}" for key, value in request.params.items()]
    lines += [
        f"tool {hidden.one_line(tool.name)} {_mark(dumps(tool.wire()))}" for tool in request.tools
    ]
    lines += [f"system {hidden.one_line(p.name)} {_mark(dumps(p.text))}" for p in request.system]
    for at, message in enumerate(request.messages):
        first = " ".join(said.block_words(block) for block in message.content)
        mark = _mark(message.bytes)
        lines.append(f"message {at} {message.role} {mark} {hidden.one_line(first)[: said.CHARS]}")
    return lines


def _mark(data: bytes) -> str:
    return f"[{len(data):,} bytes]"
