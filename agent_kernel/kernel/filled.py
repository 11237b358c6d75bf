"""Filled: a prompt with its $`names` and &`functions` taken from the person's namespace.

May not format: braces, percent signs and everything else in a prompt stay as typed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_kernel.core.events import Attachment, NamespaceChanged, ToolCall, ToolResultEvent
from agent_kernel.core.messages import Json, blocks_of
from agent_kernel.core.prompt import framed
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Tool, tool
from agent_kernel.kernel import namespace
from agent_kernel.kernel.parse import UsageError, nearest
from agent_kernel.kernel.turns import Recorded, events_from

if TYPE_CHECKING:
    from agent_kernel.kernel.workbench import Workbench

_MARK = re.compile(r"([$&])`([A-Za-z_]\w*)`")


@dataclass(frozen=True)
class Filled:
    """A prompt as `typed`, as sent (`text`), and the functions handed over as tools."""

    typed: str
    text: str
    tools: tuple[Tool, ...] = ()


def fill(typed: str, space: Mapping[str, Any]) -> Filled:
    """Return `typed` with each $`name` described under it and each &`function` made a tool.

    Raises UsageError when a name is missing, or a function cannot be a tool.
    """
    values: dict[str, str] = {}
    functions: dict[str, Tool] = {}
    for kind, name in _MARK.findall(typed):
        if name not in space:
            own = [each for each in space if not each.startswith("_")]
            raise UsageError(f"there is no variable {name!r} in this kernel{nearest(name, own)}")
        if kind == "$":
            values[name] = namespace.describe(name, space[name])
        else:
            functions[name] = _tool_of(name, space[name])
    text = _MARK.sub(lambda found: found[2], typed)
    blocks = [f'<value name="{name}">\n{value}\n</value>' for name, value in values.items()]
    return Filled(typed, "\n\n".join([text, *blocks]), tuple(functions.values()))


def _tool_of(name: str, value: Any) -> Tool:
    if isinstance(value, Tool):
        return value
    if not callable(value):
        raise UsageError(f"{name!r} is no function; write $`{name}` to hand over its value")
    try:
        made = tool(value)
    except TypeError as error:
        raise UsageError(str(error)) from error
    assert isinstance(made, Tool)
    return made


# ---- the namespace, turn by turn -------------------------------------------------------------


def attach_namespace(bench: Workbench, session: Session) -> None:
    """Log what changed in the namespace since the last turn, and tell the model names and kinds."""
    now = namespace.snapshot(bench.shell.user_ns)
    before = bench.namespace_seen
    if before is None:
        before = logged_namespace(session)
    bench.namespace_seen = now
    change = namespace.changes(before, now)
    words = namespace.in_words(change)
    if not words:
        return
    text = framed("namespace", words)
    session.append(
        NamespaceChanged(**change),
        Attachment(kind="context", label="namespace", content=blocks_of(text)),
    )


def logged_namespace(session: Session) -> Json:
    """Return the namespace as the log last saw it."""
    space: Json = {}
    for event in session.events:
        if isinstance(event, NamespaceChanged):
            space.update(event.added)
            space.update(event.changed)
            for name in event.removed:
                space.pop(name, None)
    return space


def missing_names(
    session: Session, turn: Recorded, space: Mapping[str, Any]
) -> tuple[tuple[str, ...], int]:
    """Return names a turn's Python made that this kernel lacks, and how many calls made them."""
    names: dict[str, None] = {}
    calls: set[str] = set()
    for event in events_from(session, turn.first):
        if isinstance(event, ToolCall) and event.name == "python":
            calls.add(event.id)
        elif isinstance(event, ToolResultEvent) and event.id in calls:
            made = event.meta.get("namespace") or {}
            names.update(dict.fromkeys(made.get("added") or ()))
            for name in made.get("removed") or ():
                names.pop(name, None)
    missing = tuple(name for name in names if name not in space)
    return missing, len(calls) if missing else 0


def python_calls(session: Session, turn: Recorded) -> list[str]:
    """Return the code of a turn's Python calls that succeeded, in order."""
    codes: dict[str, str] = {}
    done: list[str] = []
    for event in events_from(session, turn.first):
        if isinstance(event, ToolCall) and event.name == "python":
            codes[event.id] = str(event.input.get("code", ""))
        elif isinstance(event, ToolResultEvent) and event.id in codes and not event.is_error:
            done.append(codes[event.id])
    return done
