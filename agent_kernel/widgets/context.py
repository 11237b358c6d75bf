"""Context: the x-ray of a request: what it holds by source, block by block, in the order sent.

May not count for itself what a provider has counted: a known total scales the estimates to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import agent_kernel.widgets.said as said
import agent_kernel.widgets.units as units
from agent_kernel.core.events import SurfaceEvent
from agent_kernel.core.messages import dumps
from agent_kernel.core.model import Request
from agent_kernel.core.usage import estimate, event_tokens
from agent_kernel.widgets.doc import Block, Commands, Fold, Head, Para, Table, code, number, text
from agent_kernel.widgets.turnview import Line

SOURCES = {
    "S": "system", "T": "tools", "M": "memory", "Σ": "summary", "U": "user", "A": "assistant",
    "R": "tool results", "@": "attachments",
}  # fmt: skip
"""Letters and names of the sources, in their fixed order."""
LARGEST = 12


@dataclass(frozen=True, slots=True)
class Part:
    """One block of a request: `age` in requests, `layer` the compaction that would take it first.

    `seq` is None for system and tools; `values` tells that it carries data values of the namespace.
    """

    source: str
    what: str
    tokens: int
    seq: int | None = None
    age: int | None = None
    cached: bool = False
    layer: str = ""
    values: bool = False


def parts_of(
    request: Request,
    nodes: Sequence[SurfaceEvent],
    *,
    total: int | None = None,
    cached: int = 0,
    age: Callable[[int], int] | None = None,
    layer: Callable[[int], str] | None = None,
    known: dict[int, tuple[str, str, int, bool]] | None = None,
) -> list[Part]:
    """Return the blocks of a request in the order sent: tools, system, then the surface's events.

    `total` is the provider's own count in tokens, None = estimated; `cached` tokens of the prefix
    came, or would come, from the cache; `age` and `layer` are asked by seq; `known` keeps what was
    worked out of an event, for the next request that holds it.
    """
    held = known if known is not None else {}
    made = [Part("T", tool.name, estimate(len(dumps(tool.wire())))) for tool in request.tools]
    made += [Part("S", part.name, estimate(len(part.text))) for part in request.system]
    for node in nodes:
        if node.seq not in held:
            values = bool((getattr(node, "meta", None) or {}).get("values"))
            held[node.seq] = (said.kind(node), said.words(node), event_tokens(node), values)
        kind, words, tokens, values = held[node.seq]
        made.append(
            Part(
                kind,
                words,
                tokens,
                seq=node.seq,
                age=age(node.seq) if age is not None else None,
                layer=layer(node.seq) if layer is not None else "",
                values=values,
            )
        )
    return _cached(scaled(made, total), cached)


def scaled(parts: Sequence[Part], total: int | None) -> list[Part]:
    """Return parts whose tokens sum to `total`, shared by size, largest remainders first."""
    held = sum(part.tokens for part in parts)
    if total is None or not held:
        return list(parts)
    exact = [part.tokens * total / held for part in parts]
    whole = [int(share) for share in exact]
    by_rest = sorted(range(len(parts)), key=lambda at: whole[at] - exact[at])
    for at in by_rest[: total - sum(whole)]:
        whole[at] += 1
    return [replace(part, tokens=size) for part, size in zip(parts, whole, strict=True)]


def _cached(parts: list[Part], cached: int) -> list[Part]:
    out: list[Part] = []
    at = 0
    for part in parts:
        at += part.tokens
        out.append(replace(part, cached=at <= cached))
    return out


def view(
    parts: Sequence[Part],
    *,
    label: str = "next request",
    window: int | None = None,
    soft: int | None = None,
    hard: int | None = None,
    counted: bool = False,
) -> list[Block]:
    """Return the x-ray table of one request; `counted` when a provider's count stands behind it."""
    total = sum(part.tokens for part in parts)
    full = f", {units.percent(total, window)} of {units.short(window)}" if window else ""
    note = f"{'' if counted else '~'}{units.count(total, 'token')}{full}"
    marks = [
        f"{name} mark {units.short(at)}" for name, at in (("soft", soft), ("hard", hard)) if at
    ]
    held = [letter for letter in SOURCES if any(part.source == letter for part in parts)]
    columns = ("source", "blocks", "tokens", "share", "cached", "would go", "by layer")
    rows = [_row(letter, [p for p in parts if p.source == letter], total) for letter in held]
    sums = _sums("total", list(parts), total)
    out: list[Block] = [Head(text(f"Context of {label}"), note)]
    if marks:
        out.append(Para([["d", ", ".join(marks)]]))
    out += [Table(columns, rows, sums), _largest(parts)]
    values = sum(part.values for part in parts)
    if values:
        words = f"{units.count(values, 'block')} with data values of this kernel, marked below."
        out.append(Para(text(words)))
    return [*out, Commands(("%agent request", "%agent where SEQ", "%agent compact --dry-run"))]


def _row(letter: str, parts: Sequence[Part], total: int) -> Sequence[Line]:
    return _sums(f"{letter} {SOURCES[letter]}", parts, total)


def _sums(name: str, parts: Sequence[Part], total: int) -> Sequence[Line]:
    held = sum(part.tokens for part in parts)
    share = f"{100 * held / total:.1f} %" if total else "0.0 %"
    layers = ", ".join(dict.fromkeys(part.layer for part in parts if part.layer))
    return (
        text(name),
        number(len(parts)),
        number(held),
        text(share),
        number(sum(part.tokens for part in parts if part.cached)),
        number(sum(part.tokens for part in parts if part.layer)),
        text(layers),
    )


def _largest(parts: Sequence[Part]) -> Block:
    order = sorted(parts, key=lambda part: -part.tokens)[:LARGEST]
    rows = [
        (
            number(part.seq),
            text(part.source),
            code(part.what),
            number(part.tokens),
            number(part.age),
            text("yes" if part.cached else "no"),
            text("values" if part.values else ""),
        )
        for part in order
    ]
    columns = ("seq", "source", "block", "tokens", "age", "cached", "holds")
    return Fold(text(f"Largest {len(order)} of {len(parts)} blocks"), (Table(columns, rows),))
