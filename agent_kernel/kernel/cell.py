"""Cell: one `%%agent` cell is one turn: run, gone on with, shown from the log, or forked before it.

May not hold the turn: what it needs to go on is in the log.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.events import PermissionMode
from agent_kernel.core.messages import Json
from agent_kernel.core.query import drop, interrupt, queue, start_turn
from agent_kernel.core.session import Session
from agent_kernel.kernel import build, filled, places, tags, turns
from agent_kernel.kernel.beside import to_background
from agent_kernel.kernel.branches import branch_name
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.dry import show_request, show_stop
from agent_kernel.kernel.failed import TurnFailed
from agent_kernel.kernel.parse import (
    Option,
    UsageError,
    count,
    identifier,
    mode,
    options_doc,
    parse,
    words_of,
)
from agent_kernel.kernel.running import display_of, drive, run_open, settle
from agent_kernel.kernel.settings import read_budget
from agent_kernel.kernel.workbench import OpenNotebook, Workbench
from agent_kernel.tools import references
from agent_kernel.widgets.turnview import Replayed

OPTIONS = (
    Option(("-m", "--model"), str, "the model that answers"),
    Option(("--base-url",), str, "the address of the Messages API"),
    Option(("--mode",), mode, "plan, ask, accept-edits or bypass, for this turn"),
    Option(("--max-steps",), count, "stop after so many steps"),
    Option(("--budget",), read_budget, "dollars like 0.50, or tokens like 40k"),
    Option(("-o", "--out"), identifier, "put the answer into this variable"),
    Option(("--fresh",), None, "run anew though the turn is recorded"),
    Option(("--dry-run",), None, "show the exact request, send nothing"),
    Option(("--step",), None, "stop before the first action"),
    Option(("--background",), None, "end the cell at once; the turn goes on as a task"),
    Option(("--help",), None, "this list"),
)


@dataclass(frozen=True)
class Asked:
    """What one cell asks for, read and filled."""

    prompt: filled.Filled
    options: build.Options
    given: Json
    cell: str | None
    key: str
    model: str


async def run_cell(bench: Workbench, line: str, body: str) -> None:
    """Run one agent cell.

    Raises UsageError before anything is written, TurnFailed when the turn did not complete.
    """
    given, _ = parse(words_of(line), OPTIONS)
    if given.get("help"):
        print("\n".join(["%%agent [options], then the prompt", *options_doc(OPTIONS)]))
        return
    asked = read(bench, given, body)
    bench.agent_cells += 1
    publisher = Publisher(bench.shell)
    if bench.running is not None and await _join(bench, asked):
        return
    if given.get("dry_run"):
        work = show_request(bench, publisher, asked.options, asked.prompt.text)
        await drive(bench, work, turn=False)
    else:
        await _run(bench, asked, publisher)


def read(bench: Workbench, given: Json, body: str) -> Asked:
    """Return what a cell asks for. Raises UsageError without a prompt or when a name is missing."""
    prompt = filled.fill(body.strip("\n"), bench.shell.user_ns)
    if not prompt.text.strip():
        raise UsageError("the cell holds no prompt; write it under the %%agent line")
    options = build.Options(
        model=given.get("model"),
        base_url=given.get("base_url"),
        mode=given.get("mode"),
        max_steps=given.get("max_steps"),
        budget=given.get("budget", {}),
        tools=prompt.tools,
    )
    model = build.choice_of(bench.session, bench.settings, options).model
    key = turns.turn_key(prompt.text, model, options.settings())
    return Asked(prompt, options, given, _cell_id(bench), key, model)


def _cell_id(bench: Workbench) -> str | None:
    """Return the cell's id as the front end says it, else its place in a headless run, or None."""
    kernel = getattr(bench.shell, "kernel", None)
    if kernel is None:
        return None
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    said = (parent or {}).get("metadata", {}).get("cellId")
    if said:
        return str(said)
    return None if bench.approver.reachable else f"#{bench.agent_cells + 1}"


async def _join(bench: Workbench, asked: Asked) -> bool:
    """Hand the text to the turn that runs and wait for its end (features.md F1.7).

    False when the turn ended before it read the text: then it is a turn of its own.
    """
    running, session = bench.running, bench.session
    if running is None:
        return False
    item = queue(session, {"text": asked.prompt.text, "cell": asked.cell}, "next")
    print("This text joins the turn that runs; its answer stands there.")
    await asyncio.wait([asyncio.wrap_future(running.done)])
    if item not in session.state().inbox:
        return True
    drop(session, item, "the turn it was for ended first")
    print("That turn ended before it read this text, so it is a turn of its own.")
    return False


# ---- what the cell does ----------------------------------------------------------------------


async def _run(bench: Workbench, asked: Asked, publisher: Publisher) -> None:
    session = bench.session
    order = bench.settings.get("order") == "notebook"
    plan = turns.plan(
        turns.recorded(session),
        asked.cell,
        asked.key,
        fresh=bool(asked.given.get("fresh")),
        notebook_order=order,
    )
    bench.replayed = None
    if plan.kind == "replay":
        assert plan.turn is not None
        bench.replayed = plan.turn.number
        _replay(bench, plan.turn, asked, publisher)
        return
    if bench.settings.get("noninteractive") == "replay" and not bench.approver.reachable:
        raise TurnFailed(
            "this turn is not recorded, and AGENT_KERNEL_NONINTERACTIVE=replay runs none"
        )
    if plan.kind == "fork":
        assert plan.turn is not None
        _fork(bench, plan, asked)
    work = _turn(bench, asked, publisher, resumed=plan.kind == "resume")
    await drive(bench, work, asked.given.get("out"))


def _fork(bench: Workbench, plan: turns.Plan, asked: Asked) -> None:
    """Fork the session just before the plan's turn and go on there."""
    assert plan.turn is not None
    before = bench.session
    branch = before.fork(plan.turn.start.seq - 1)
    bench.use(branch, made_here=True)
    if plan.later and not asked.given.get("fresh"):
        numbers = ", ".join(map(str, plan.later))
        name = places.shown(before.log.path, bench.settings.folder)
        print(
            f"An earlier cell changed: this turn runs on branch {branch_name(branch)}. "
            f"Turns {numbers} belong to the former branch ({name}); "
            f"%agent switch {branch_name(before)} goes back."
        )


def _replay(bench: Workbench, turn: turns.Recorded, asked: Asked, publisher: Publisher) -> None:
    """Show a recorded turn; nothing is sent."""
    session = bench.session
    display = display_of(bench, session, turn.first, publisher)
    missing, calls = filled.missing_names(session, turn, bench.shell.user_ns)
    view = display.finish(replayed=Replayed(missing=missing, calls=calls), update=False)
    if asked.given.get("out"):
        bench.shell.user_ns[asked.given["out"]] = view["answer"]


async def _turn(bench: Workbench, asked: Asked, publisher: Publisher, *, resumed: bool) -> Any:
    """Start the turn in the log, or find it open there, and run it under its display."""
    bench.ready()
    bench.say_lost()
    await bench.mcp.ready()
    session = bench.session
    built = bench.built(asked.options)
    try:
        return await _begun(bench, asked, publisher, built, resumed=resumed)
    except asyncio.CancelledError:  # before its loop began: the loop closes the turn itself
        if session.state(built.agent.id).turn_open:
            interrupt(session, built.agent)
        raise


async def _begun(
    bench: Workbench, asked: Asked, publisher: Publisher, built: build.Built, *, resumed: bool
) -> Any:
    session = bench.session
    if not resumed:
        _set_mode(session, _mode_of(bench, asked))
        for line in tags.apply(session, OpenNotebook(bench).cells()):
            print(line)
        start_turn(
            session,
            built.agent,
            asked.prompt.text,
            text=asked.prompt.typed,
            cell=asked.cell,
            key=asked.key,
            settings={"model": asked.model, **asked.options.settings()},
        )
        filled.attach_namespace(bench, session)
        if bench.settings.get("file_refs") == "attach":
            for problem in await references.attach_all(session, built.agent, asked.prompt.text):
                print(f"not attached: {problem}")
        await session.log.commit()
    if asked.given.get("step"):
        await show_stop(bench, publisher, built)
        return None
    if asked.given.get("background") and bench.approver.reachable:
        to_background(bench)
    ended = await run_open(bench, built, publisher)
    if not bench.approver.reachable:
        await settle(bench, publisher)
    return ended


def _mode_of(bench: Workbench, asked: Asked) -> str:
    """Return the mode of a new turn: an option is for its turn alone, so the former one is back."""
    if asked.options.mode is not None:
        return asked.options.mode
    return str(build.mode_of(bench.session, bench.settings, asked.options))


def _set_mode(session: Session, wanted: str) -> None:
    """Log the mode a turn begins in, where it is another than the model was told of."""
    if (session.mode or "ask") != wanted:
        session.append(PermissionMode(mode=wanted))  # type: ignore[arg-type]
