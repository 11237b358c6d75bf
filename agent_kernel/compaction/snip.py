"""Snip: a step that is dead by rule becomes one line: read again, repeated, an echo, a recall.

May not judge by meaning, and never touches errors that still stand or the newest steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_kernel.compaction.nodes import (
    ECHO,
    READ,
    RECALL,
    WRITE,
    Unit,
    errors_open,
    origin,
    path_of,
    pointer,
    units,
    untouchable,
)
from agent_kernel.core.compaction import Desk, Edit, View
from agent_kernel.core.events import Attachment, ToolResultEvent
from agent_kernel.core.messages import ToolUse, blocks_of, canonical, text_of
from agent_kernel.core.usage import event_tokens

LEAST = 40  # characters of a result below which two equal ones say nothing


@dataclass(frozen=True)
class Snip:
    """L2 of compaction.md §4; the newest `keep_units` units stay."""

    name: str = "snip"
    needs_model: bool = False
    keep_units: int = 8

    def wants(self, view: View) -> bool:
        """Run over soft, or when a rewrite is no argument."""
        return view.exempt or view.tokens > view.marks.soft

    async def plan(self, view: View, _desk: Desk) -> list[Edit]:
        """Return one edit for each dead unit whose stub is shorter."""
        found = units(view)
        old = found[: -self.keep_units] if self.keep_units else found
        later = _Later(found)
        kept, standing = untouchable(view), errors_open(view.nodes)
        offsets = view.offsets()
        edits = []
        for unit in old:
            if not _may_go(unit, kept, standing):
                continue
            whys = [later.why(call, unit) for call in unit.calls]
            if whys and all(whys):
                edits.append(_stub(view, unit, str(whys[-1]), offsets[unit.start]))
        return [edit for edit in edits if edit.freed > 0]


def _may_go(unit: Unit, kept: frozenset[int], standing: Mapping[str, ToolResultEvent]) -> bool:
    if not unit.plain or any(node.seq in kept for node in unit.nodes):
        return False
    return not any(result.id in standing for result in unit.results)


@dataclass
class _Later:
    """What came last of each kind, so that an earlier one is known to be dead."""

    units: list[Unit]
    read: dict[tuple[str, bytes], int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    said: dict[tuple[str, bytes, str], int] = field(default_factory=dict)
    echo: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for unit in self.units:
            good = {r.id: r for r in unit.results if not r.is_error}
            for call in unit.calls:
                if call.id in good:
                    self._note(call, good[call.id])

    def _note(self, call: ToolUse, result: ToolResultEvent) -> None:
        seq, path = origin(result), path_of(call)
        if call.name in READ and path is not None:
            self.read[path, _range(call)] = seq
        elif call.name in WRITE and path is not None:
            self.changed[path] = seq
        if call.name in ECHO:
            self.echo[call.name] = seq
        text = text_of(result.content)
        self.texts[call.id] = text
        if len(text) >= LEAST:
            self.said[call.name, canonical(dict(call.input)), text] = seq

    def why(self, call: ToolUse, unit: Unit) -> str | None:
        """Return why a call's result is dead, None while it lives."""
        here = next((origin(r) for r in unit.results if r.id == call.id), None)
        if here is None:
            return None
        if call.name == RECALL:
            return "a recalled copy"
        path = path_of(call)
        if call.name in READ and path is not None:
            again = (self.read.get((path, _range(call)), -1), self.read.get((path, b"{}"), -1))
            last = max(*again, self.changed.get(path, -1))
            if last > here:
                return f"superseded by seq {last}"
        if self.echo.get(call.name, -1) > here:
            return f"superseded by seq {self.echo[call.name]}"
        text = self.texts.get(call.id, "")
        last = self.said.get((call.name, canonical(dict(call.input)), text), -1)
        return f"the same output as seq {last}" if last > here else None


def _range(call: ToolUse) -> bytes:
    """Return which part of a file a call reads; b"{}" is all of it."""
    part = {key: value for key, value in call.input.items() if key in ("offset", "limit", "pages")}
    return canonical(part)


def _stub(view: View, unit: Unit, why: str, offset: int) -> Edit:
    call = pointer(view, unit.nodes)
    text = f"[snipped {len(unit.nodes)} events: {why}; {call}]"
    payload = Attachment(kind="summary", label="snipped", content=blocks_of(text))
    freed = unit.tokens - event_tokens(payload)
    return Edit(unit.nodes[0].seq, unit.nodes[-1].seq, payload, freed, offset, _rule(why))


def _rule(why: str) -> str:
    return why.rsplit(" seq ", 1)[0]


STRATEGY = Snip()
