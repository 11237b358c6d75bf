"""Samples: the answers to one request that was sent several times, side by side.

May not judge them: it counts what they did and shows each whole when unfolded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.units as units
from agent_kernel.core.events import Sample
from agent_kernel.core.messages import ToolUse, text_of
from agent_kernel.core.usage import cost
from agent_kernel.widgets.calls import argument
from agent_kernel.widgets.doc import (
    Block,
    Commands,
    Fold,
    Head,
    Pairs,
    Pre,
    Prose,
    Table,
    code,
    number,
    text,
)
from agent_kernel.widgets.turnview import Line

CHARS = 100


def view(samples: Sequence[Sample], *, branch: str = "") -> list[Block]:
    """Return the answers as a table, counted by what they did, each to be unfolded."""
    if not samples:
        return [Head(text("No answer was asked for again")), Commands(("%agent again T.S",))]
    done = Counter(_action(sample)[0] for sample in samples)
    words = ", ".join(f"{hidden.one_line(what)} {count}" for what, count in done.most_common())
    spent = [_dollars(sample) for sample in samples]
    known = [usd for usd in spent if usd is not None]
    price = units.dollars(sum(known)) if len(known) == len(spent) else "price unknown"
    out: list[Block] = [
        Head(text(f"Asked again: {units.count(len(samples), 'answer')}"), "no tool was run"),
        Pairs([("did", text(words)), ("cost", text(price)), *_changes(samples[0])]),
        Table(
            ("n", "did", "with", "tokens out", "dollars", "seconds"),
            [_row(sample, usd) for sample, usd in zip(samples, spent, strict=True)],
        ),
    ]
    out += [Fold(text(f"Answer {sample.n}"), _whole(sample)) for sample in samples]
    return [*out, Commands((f"%agent switch {branch}", "%agent frames samples"))]


def _changes(sample: Sample) -> list[tuple[str, Line]]:
    return [(f"changed: {name}", code(value)) for name, value in sample.changes.items()]


def _action(sample: Sample) -> tuple[str, str]:
    """Return what an answer did and with what, on one line."""
    if sample.error:
        return "error", sample.error[:CHARS]
    uses = [block for block in sample.content if isinstance(block, ToolUse)]
    if not uses:
        return "text", text_of(sample.content)[:CHARS]
    more = f" (+{len(uses) - 1} calls)" if len(uses) > 1 else ""
    return uses[0].name, argument(uses[0].name, uses[0].input)[0][:CHARS] + more


def _dollars(sample: Sample) -> float | None:
    return cost(sample.model, sample.usage) if not sample.error else 0.0


def _row(sample: Sample, usd: float | None) -> Sequence[Line]:
    what, how = _action(sample)
    return (
        number(sample.n),
        text(what),
        code(how),
        number(sample.usage.output),
        text("unknown" if usd is None else f"{usd:.4f}"),
        text("–" if sample.seconds is None else f"{sample.seconds:.1f}"),
    )


def _whole(sample: Sample) -> list[Block]:
    out: list[Block] = []
    if said := text_of(sample.content):
        out.append(Prose(hidden.output(said)))
    for block in sample.content:
        if isinstance(block, ToolUse):
            given = json.dumps(block.input, ensure_ascii=False, indent=1)
            out.append(Pre([["b", f"{hidden.one_line(block.name)} "], *hidden.spans(given)]))
    return out or [Pre(hidden.spans(sample.error or "an empty answer"))]
