"""Compaction cuts: every legal cut of real sessions, shortened there by every layer and by all.

May not skip a session: the order is drawn once, so that any part of a run is a fair part. Sessions
are those below AGENT_KERNEL_CORPUS, or synthetic ones where it is not set.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from agent_kernel.cli.lab import given
from agent_kernel.core.compaction import Desk, Strategy, View, WaterMarks
from agent_kernel.core.events import Attachment
from agent_kernel.core.model import ModelProfile
from agent_kernel.core.surface import cut_positions, merged
from agent_kernel.core.transaction import planned
from agent_kernel.core.usage import event_tokens
from agent_kernel.core.validate import validate_messages
from agent_kernel.lab.histories import History, histories
from agent_kernel.lab.ladder import at_once
from agent_kernel.testing import working

PROFILE = ModelProfile("long", window=200_000, max_output=32_000, thinking="adaptive")
SLICE = 10
Cut = tuple[int, int]  # session, position


@cache
def sessions() -> tuple[History, ...]:
    """The sessions, read once."""
    rooms = given()
    named = os.environ.get("AGENT_KERNEL_CORPUS")
    if named:
        return tuple(histories(rooms.load(named), rooms))
    folder = Path(tempfile.mkdtemp()) / "projects"
    working.write(folder, sessions=3, steps=60)
    return tuple(histories(rooms.load(folder), rooms))


@cache
def cuts(seed: int) -> tuple[Cut, ...]:
    """Every legal cut of every session, in one drawn order."""
    every = [
        (number, at)
        for number, one in enumerate(sessions())
        for at in sorted(cut_positions(one.events, False))
        if at
    ]
    random.Random(seed).shuffle(every)
    return tuple(every)


def policies() -> dict[str, tuple[Strategy, ...]]:
    """Each layer alone, and all in their order."""
    layers = given().strategies
    return {layer.name: (layer,) for layer in layers} | {"ladder": layers}


def run(seed: int, start: int, steps: int, until: float) -> dict[str, int]:
    """Shorten at `steps` cuts from the number `start`; return the counts, violations among them.

    The first slice also lets one attachment stand for all before each cut there is.
    """
    every = cuts(seed)
    counts = {"steps": 0, "violations": 0, "plans": 0}
    counts |= {"edits": 0, "replaced": 0}
    if not start:
        for number, at in every:
            wrong = replaced(sessions()[number], at)
            counts["replaced"] += 1
            counts["violations"] += len(wrong)
    for number, at in every[start : start + steps]:
        if time.monotonic() > until:
            break
        for name, layers in policies().items():
            edits, wrong = shortened(sessions()[number], at, layers)
            counts["plans"] += edits > 0
            counts["edits"] += edits
            counts["violations"] += len(wrong)
            for text in wrong:
                print(f"cut {at} of session {number}, {name}: {text}", file=sys.stderr)
        counts["steps"] += 1
    return counts


def replaced(one: History, at: int) -> list[str]:
    """Let one attachment stand for all before a cut; return what is wrong with the list."""
    stub = Attachment(kind="summary", label="summary", content="What was before.")
    whole = [stub.model_copy(update={"seq": 0}), *one.events[at:]]
    found = validate_messages(merged(whole), PROFILE, sendable=False)
    return [violation.text for violation in found if violation.severity == "api"]


def shortened(one: History, at: int, layers: tuple[Strategy, ...]) -> tuple[int, list[str]]:
    """Shorten what stands before a cut, go on with what follows; return edits and what is wrong."""
    nodes = tuple(one.events[:at])
    tokens = sum(map(event_tokens, nodes))
    view = View(nodes, PROFILE, WaterMarks.of(PROFILE), tokens, "manual", False, one.events)
    plan = at_once(planned(view, layers, Desk()))
    whole = [*plan.after.nodes, *one.events[at:]]
    found = validate_messages(merged(whole), PROFILE, sendable=False)
    wrong = [violation.text for violation in found if violation.severity == "api"]
    if plan.freed < 0:
        wrong.append(f"it grew by {-plan.freed} tokens")
    return len(plan.edits), wrong
