"""Keeping: the Python of a turn as cells a person keeps: what worked, without looks and dead ends.

May not run anything here: the check runs in a fresh worker that sees none of this kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_kernel.core.events import ToolCall, ToolResultEvent
from agent_kernel.core.messages import text_of
from agent_kernel.core.session import Session
from agent_kernel.kernel.turns import Recorded, events_from
from agent_kernel.tools.worker import Worker

LOOKS = frozenset(
    "print display head tail describe info shape dtypes columns sample value_counts nunique unique "
    "len type dir help repr str sorted min max sum list".split()
)
Verdict = Literal["equal", "differs", "not checkable"]


@dataclass(frozen=True, slots=True)
class Kept:
    """One call that worked: its code, the seq of its result, and what it gave as text."""

    code: str
    seq: int
    text: str


def worked(session: Session, turn: Recorded) -> list[Kept]:
    """Return a turn's Python calls that succeeded, in order; an edited input is what ran."""
    codes: dict[str, str] = {}
    out: list[Kept] = []
    for event in events_from(session, turn.first):
        if isinstance(event, ToolCall) and event.name == "python":
            codes[event.id] = str(event.input.get("code", ""))
        elif event.type == "tool/decision" and getattr(event, "edited_input", None):
            given = event.edited_input  # type: ignore[attr-defined]
            if event.id in codes:  # type: ignore[attr-defined]
                codes[event.id] = str(given.get("code", ""))  # type: ignore[attr-defined]
        elif isinstance(event, ToolResultEvent) and event.id in codes and not event.is_error:
            out.append(Kept(codes[event.id].strip("\n"), event.seq, text_of(event.content)))
    return out


def cells(found: Sequence[Kept]) -> list[Kept]:
    """Return what is worth keeping: the last call, and of those before it all that does something.

    Left out: calls that only looked, and calls whose every name is bound again before it is read.
    """
    kept: list[Kept] = []
    for at, each in enumerate(found):
        last = at == len(found) - 1
        if last or not (_only_looks(each.code) or _dead_end(each.code, found[at + 1 :])):
            kept.append(each)
    return kept


def _parsed(code: str) -> list[ast.stmt] | None:
    try:
        return ast.parse(code).body
    except SyntaxError:
        return None  # a line magic or the like: kept as it is


def _only_looks(code: str) -> bool:
    body = _parsed(code)
    if body is None:
        return False
    return bool(body) and all(isinstance(s, ast.Expr) and _look(s.value) for s in body)


def _look(node: ast.expr) -> bool:
    """Tell whether an expression has no effect by its form: names, fields, and calls that look."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            called = each.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name not in LOOKS or any(word.arg == "inplace" for word in each.keywords):
                return False
        elif isinstance(each, ast.NamedExpr | ast.Await | ast.Yield):
            return False
    return True


def _dead_end(code: str, later: Sequence[Kept]) -> bool:
    """Tell whether a call only bound plain names that are all bound again before they are read."""
    body = _parsed(code)
    if not body or not all(isinstance(each, ast.Assign) and _pure(each) for each in body):
        return False
    left = _names(body, ast.Store)
    for each in later:
        statements = _parsed(each.code)
        if statements is None:
            return False
        for statement in statements:
            if left & _names([statement], ast.Load):
                return False
            left -= _names([statement], ast.Store)
    return not left


def _pure(node: ast.Assign) -> bool:
    plain = all(isinstance(target, ast.Name) for target in node.targets)
    return plain and _look(node.value)


def _names(body: Sequence[ast.stmt], kind: type[ast.expr_context]) -> set[str]:
    found: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, kind):
                found.add(node.id)
    return found


def check(kept: Sequence[Kept], folder: Path, seconds: int = 120) -> tuple[Verdict, str]:
    """Run the cells in a fresh worker; return how their last value compares with the recorded one.

    A value that names an address in memory, or a figure alone, is not checkable.
    """
    worker = Worker(folder)
    try:
        for each in kept:
            result, _broken = worker.run(each.code, seconds, lambda _text: None, ())
            if result.error is not None:
                return "differs", f"seq {each.seq} fails alone: {result.error}"
    finally:
        worker.close()
    was = kept[-1].text.split("\n[names: ")[0].strip()
    now = "\n".join(filter(None, (result.stdout.rstrip("\n"), result.value_text or ""))).strip()
    if " at 0x" in was or was in ("", "[no output]"):
        return "not checkable", "the last cell gave no text that stays the same"
    return ("equal", "") if was == now else ("differs", f"it gave {now!r:.200}, not {was!r:.200}")
