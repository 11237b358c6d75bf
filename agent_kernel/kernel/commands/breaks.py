"""Breaks: setting, listing and removing the session's breakpoints.

May not stop a turn: the loop does, before the action a breakpoint names.
"""

from __future__ import annotations

from agent_kernel.core.events import BreakpointSet
from agent_kernel.kernel import breaks as kept
from agent_kernel.kernel.command import Command
from agent_kernel.kernel.parse import UsageError, nearest, parse
from agent_kernel.kernel.workbench import Workbench


def set_break(bench: Workbench, words: list[str]) -> None:
    """Stop turns of this session before an action of a kind; without one, list them."""
    _given, rest = parse(words, (), most=2)
    if not rest:
        list_breaks(bench, [])
        return
    try:
        spec = kept.spec_of("".join(rest))
    except ValueError as error:
        raise UsageError(str(error)) from error
    bench.ready()
    bench.session.append(BreakpointSet(spec=spec, on=True))
    print(f"turns stop before: {', '.join(kept.set_in(bench.session))}")


def list_breaks(bench: Workbench, words: list[str]) -> None:
    """Print the session's breakpoints."""
    parse(words, ())
    found = kept.set_in(bench.session)
    print("\n".join(found) or f"no breakpoint is set; there are {', '.join(kept.KINDS)}")


def unset(bench: Workbench, words: list[str]) -> None:
    """Remove one breakpoint, or all of them."""
    _given, rest = parse(words, (), most=2)
    found = kept.set_in(bench.session)
    try:
        spec = kept.spec_of("".join(rest)) if rest else ""
    except ValueError as error:
        raise UsageError(str(error)) from error
    if spec and spec not in found:
        raise UsageError(f"no breakpoint {spec!r} is set{nearest(spec, found) if found else ''}")
    bench.ready()
    for each in [spec] if spec else found:
        bench.session.append(BreakpointSet(spec=each, on=False))
    left = kept.set_in(bench.session)
    print(f"turns stop before: {', '.join(left)}" if left else "no breakpoint is set")


BREAKS = (
    Command("break", "breakpoints", f"[{'|'.join(kept.KINDS)}]", "stop before an act", set_break),
    Command("breaks", "breakpoints", "", "the breakpoints that are set", list_breaks),
    Command("unbreak", "breakpoints", "[KIND]", "remove a breakpoint, or all", unset),
)
