"""Behaviour: what an agent did after a boundary, beside matched windows without one.

May not print a rate after a boundary without its control.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.core.events import AssistantMessage, SurfaceEvent, ToolResultEvent
from agent_kernel.core.messages import ToolUse, text_of
from agent_kernel.core.usage import event_tokens
from agent_kernel.lab.histories import History

READ = frozenset({"read", "Read", "NotebookRead"})
WRITE = frozenset({"edit", "write", "notebook", "Edit", "Write", "MultiEdit", "NotebookEdit"})
REREAD_OPS, ERROR_OPS = 20, 40
FROM_START, AFTER, BEFORE, MOST = 60, 60, 20, 3  # ops; of a control window


@dataclass(frozen=True, slots=True)
class Op:
    """One tool call and its result, in order; `path` when it is about a file."""

    at: int
    name: str
    path: str | None
    error: str | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Window:
    """What happened within some calls after a position: after a boundary, or in a control."""

    session: str
    group: str
    at: int
    ops: int
    rereads: int
    reread_after_edit: int
    regret_tokens: int
    repeated_errors: int


def ops_of(history: History) -> list[Op]:
    """Return the tool calls of a session in order."""
    out: list[Op] = []
    place: dict[str, int] = {}
    for event in history.events:
        if isinstance(event, AssistantMessage):
            for block in event.content:
                if isinstance(block, ToolUse):
                    place[block.id] = len(out)
                    out.append(Op(event.seq, block.name, _path(block), None, 0))
        elif isinstance(event, ToolResultEvent) and event.id in place:
            at = place[event.id]
            error = signature(text_of(event.content)) if event.is_error else None
            out[at] = Op(out[at].at, out[at].name, out[at].path, error, event_tokens(event))
    return out


def _path(call: ToolUse) -> str | None:
    found = (call.input.get(key) for key in ("path", "file_path", "notebook_path"))
    return next((value for value in found if isinstance(value, str) and value), None)


def signature(text: str) -> str:
    """Return an error's text with numbers, hex and folders masked, 120 characters at most."""
    text = re.sub(r"(?:/[\w.-]+)+/", "/", text.strip())
    text = re.sub(r"\b[0-9a-f]{7,40}\b", "#", text)
    return re.sub(r"\d+", "#", text)[:120]


def window(history: History, ops: Sequence[Op], at: int, start: int) -> Window:
    """Return what the calls from number `start` on repeat of those before it."""
    before, after = ops[:start], ops[start : start + REREAD_OPS]
    read = {op.path for op in before if op.name in READ and op.path}
    changed = _changed_since_read(before)
    seen: set[str] = set()
    rereads = edited = regret = 0
    for op in after:
        if op.path and op.name in WRITE:
            changed.add(op.path)
        if op.name not in READ or op.path not in read or op.path in seen or not op.path:
            continue
        seen.add(op.path)
        if op.path in changed:
            edited += 1
        else:
            rereads += 1
            regret += op.tokens
    errors = {op.error for op in before if op.error}
    later = {op.error for op in ops[start : start + ERROR_OPS] if op.error}
    repeated = len(errors & later)
    return Window(
        history.session, "after" if at >= 0 else "control", at, len(after),
        rereads, edited, regret, repeated,
    )  # fmt: skip


def _changed_since_read(before: Sequence[Op]) -> set[str]:
    changed: set[str] = set()
    for op in before:
        if op.path and op.name in WRITE:
            changed.add(op.path)
        elif op.path and op.name in READ:
            changed.discard(op.path)
    return changed


def windows(history: History, seed: int = 0) -> list[Window]:
    """Return the window after each boundary and up to three matched ones without one.

    Controls: the same session, at least 60 calls from the start, 60 after and 20 before a boundary.
    """
    ops = ops_of(history)
    marks = [sum(op.at < b.at for op in ops) for b in history.boundaries]
    out = [
        window(history, ops, b.at, start)
        for b, start in zip(history.boundaries, marks, strict=True)
    ]
    free = [
        start
        for start in range(FROM_START, len(ops) - REREAD_OPS)
        if all(start - mark >= AFTER or mark - start >= BEFORE + REREAD_OPS for mark in marks)
    ]
    chance = random.Random(f"{seed}:{history.session}")
    picked = sorted(chance.sample(free, min(MOST, len(free))))
    return out + [window(history, ops, -1, start) for start in picked]


def cut_safety(
    events: Sequence[SurfaceEvent], strict: frozenset[int], loose: frozenset[int]
) -> tuple[int, int, int]:
    """Return how many positions split a pair, stand inside a thinking loop, and are free."""
    whole = len(events) + 1
    return whole - len(loose), len(loose) - len(strict), len(strict)
