"""Context: shortening what the model sees, taking that back, and keeping an event out of it.

May not hide anything by itself: the layers plan, the core's transaction commits.
"""

from __future__ import annotations

import re

from agent_kernel import compaction
from agent_kernel.core.calling import compact as run_compaction
from agent_kernel.core.compaction import Outcome, Strategy
from agent_kernel.core.events import PinSet
from agent_kernel.kernel import build, panels
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.parse import Option, UsageError, parse
from agent_kernel.kernel.running import idle
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import compaction as card


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if found is None:
        raise ValueError("give two seqs like 12:80")
    return int(found[1]), int(found[2])


OPTIONS = (
    Option(("--dry-run",), None, "only say what would go"),
    Option(("--policy",), str, "layers by name, or ladder"),
    Option(("--range",), _range, "only these seqs, A:B"),
    Option(("--no-model",), None, "without asking the model for a summary"),
)


def compact(bench: Workbench, words: list[str]) -> Work | None:
    """Shorten what the model sees; words at the end tell the summary what to keep."""
    given, rest = parse(words, OPTIONS, most=1)
    idle(bench)
    agent = bench.built(build.Options()).agent
    policy, span = given.get("policy") or "ladder", given.get("range")
    try:
        layers = compaction.chosen(agent.strategies, policy)
        if given.get("dry_run"):
            print(
                compaction.plan(
                    bench.session, agent.strategies, policy, span, profile=agent.profile
                )
            )
            return None
    except ValueError as error:
        raise UsageError(str(error)) from error
    work = _compact(
        bench,
        Publisher(bench.shell),
        layers,
        span,
        rest[0] if rest else None,
        use_model=not given.get("no_model"),
    )
    return Work(work, _said, turn=True)


async def _compact(
    bench: Workbench,
    publisher: Publisher,
    layers: tuple[Strategy, ...],
    span: tuple[int, int] | None,
    instructions: str | None,
    *,
    use_model: bool,
) -> Outcome:
    bench.ready()
    agent = bench.built(build.Options()).agent
    await agent.refresh(bench.session)
    try:
        ended = await run_compaction(
            bench.session,
            agent,
            "manual",
            span=span,
            instructions=instructions,
            strategies=layers,
            use_model=use_model,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    await bench.session.log.commit()
    if ended.committed:
        events = bench.session.events
        panels.show(
            bench,
            publisher,
            "compaction",
            card.state(events),
            card.view(events),
            panels.compaction_line,
        )
    return ended


def _said(ended: Outcome) -> None:
    if not ended.committed:
        print(f"Nothing was shortened: {(ended.error or {}).get('text', 'no reason given')}")


def undo(bench: Workbench, words: list[str]) -> None:
    """Put back what a compaction hid, the last one unless named: undo [compaction] [ID]."""
    _given, rest = parse([w for w in words if w != "compaction"], (), most=1)
    bench.ready()
    agent = bench.built(build.Options()).agent
    name = rest[0] if rest else None
    try:
        count = compaction.undo(bench.session, name, window=agent.profile.window)
    except compaction.UndoError as error:
        raise UsageError(str(error)) from error
    print(f"{count} replacements were taken back; the next request holds what they hid")


def pin(bench: Workbench, words: list[str]) -> None:
    """Keep an event out of every compaction, or no longer with --off."""
    given, rest = parse(words, (Option(("--off",), None, "no longer"),), most=1)
    if not rest or not rest[0].isdigit():
        raise UsageError("say a seq: %agent pin 12; %agent surface lists them")
    if int(rest[0]) not in bench.session.surface().seqs:
        raise UsageError(f"seq {rest[0]} is not on the surface; see %agent surface")
    bench.ready()
    bench.session.append(PinSet(target=int(rest[0]), on=not given.get("off")))
    print(f"seq {rest[0]} is {'no longer ' if given.get('off') else ''}kept out of compactions")


CONTEXT = (
    Command(
        "compact",
        "context",
        '[--dry-run] [--policy P] [--range A:B] [--no-model] ["instructions"]',
        "shorten what the model sees",
        compact,
    ),
    Command("undo", "context", "[compaction] [ID]", "put back what a compaction hid", undo),
    Command("pin", "context", "SEQ [--off]", "keep an event out of compactions", pin),
)
