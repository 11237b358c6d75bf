"""Cell: one `%%agent` cell is one turn: run, gone on with, shown from the log, or forked before it.

May not hold the turn: what it needs to go on is in the log.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.events import PermissionMode
from agent_kernel.core.messages import Json
from agent_kernel.core.model import ProviderError
from agent_kernel.core.query import (
    End,
    TurnError,
    TurnResult,
    advance,
    interrupt,
    queue,
    result,
    start_turn,
)
from agent_kernel.core.session import Session
from agent_kernel.kernel import build, filled, places, turns
from agent_kernel.kernel.display import Publisher, TurnDisplay
from agent_kernel.kernel.parse import (
    Option,
    UsageError,
    budget,
    count,
    identifier,
    mode,
    options_doc,
    parse,
    words_of,
)
from agent_kernel.kernel.runtime import MainInterrupted
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets.turnview import Replayed

OPTIONS = (
    Option(("-m", "--model"), str, "the model that answers"),
    Option(("--base-url",), str, "the address of the Messages API"),
    Option(("--mode",), mode, "plan, ask, accept-edits or bypass, for this turn"),
    Option(("--max-steps",), count, "stop after so many steps"),
    Option(("--budget",), budget, "dollars like 0.50, or tokens like 40k"),
    Option(("-o", "--out"), identifier, "put the answer into this variable"),
    Option(("--fresh",), None, "run anew though the turn is recorded"),
    Option(("--dry-run",), None, "show the exact request, send nothing"),
    Option(("--step",), None, "stop before the first action"),
    Option(("--help",), None, "this list"),
)


class TurnFailed(Exception):
    """A turn that did not complete, in one readable line; the cell fails with it."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class TurnInterrupted(TurnFailed):
    """The person interrupted the turn; what was said so far is kept."""


@dataclass(frozen=True)
class Asked:
    """What one cell asks for, read and filled."""

    prompt: filled.Filled
    options: build.Options
    given: Json
    cell: str | None
    key: str
    model: str


async def run_cell(bench: Workbench, line: str, body: str) -> Any:
    """Run one agent cell and return None, or the answer's text when `-o` names no variable.

    Raises UsageError before anything is written, TurnFailed when the turn did not complete.
    """
    given, _ = parse(words_of(line), OPTIONS)
    if given.get("help"):
        print("\n".join(["%%agent [options], then the prompt", *options_doc(OPTIONS)]))
        return
    asked = read(bench, given, body)
    bench.agent_cells += 1
    if bench.running is not None:
        await _join(bench, asked)
        return
    if given.get("dry_run"):
        from agent_kernel.kernel.dry import show_dry_run

        await bench.runtime.run(show_dry_run(bench, asked))
        return
    await _run(bench, asked)


def read(bench: Workbench, given: Json, body: str) -> Asked:
    """Return what a cell asks for. Raises UsageError when there is no prompt or a name is missing."""
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
    """Return the cell's id as the front end says it, else its place in a headless run, else None."""
    kernel = getattr(bench.shell, "kernel", None)
    if kernel is None:
        return None
    parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
    said = (parent or {}).get("metadata", {}).get("cellId")
    if said:
        return str(said)
    return None if bench.approver.reachable else f"#{bench.agent_cells + 1}"


async def _join(bench: Workbench, asked: Asked) -> None:
    """Hand the text to the turn that runs, and wait for its end (features.md F1.7)."""
    running = bench.running
    assert running is not None
    queue(bench.session, {"text": asked.prompt.text, "cell": asked.cell}, "next")
    print("This text joined the turn that runs; its answer stands there.")
    await asyncio.shield(asyncio.wrap_future(running.done))


# ---- what the cell does -----------------------------------------------------------------------------


async def _run(bench: Workbench, asked: Asked) -> None:
    session = bench.session
    order = bench.settings.get("order") == "notebook"
    plan = turns.plan(
        turns.recorded(session),
        asked.cell,
        asked.key,
        fresh=bool(asked.given.get("fresh")),
        notebook_order=order,
    )
    if plan.kind == "replay":
        assert plan.turn is not None
        _replay(bench, plan.turn, asked)
        return
    if bench.settings.get("noninteractive") == "replay" and not bench.approver.reachable:
        raise TurnFailed(
            "this turn is not recorded, and AGENT_KERNEL_NONINTERACTIVE=replay runs none"
        )
    if plan.kind == "fork":
        assert plan.turn is not None
        _fork(bench, plan)
        session = bench.session
    publisher = Publisher(bench.shell)
    work = _turn(bench, session, asked, publisher, resumed=plan.kind == "resume")
    await drive(bench, work, asked.given.get("out"))


async def drive(bench: Workbench, work: Any, out: str | None = None) -> None:
    """Await a turn's coroutine on the runtime; raise TurnFailed when it did not complete."""
    job = bench.runtime.submit(work)
    bench.running = job
    try:
        ended = await bench.runtime.wait(job)
    except asyncio.CancelledError:
        raise TurnInterrupted("stopped by you; what was said so far is kept") from None
    finally:
        bench.running = None
    if ended is None:
        return
    if out:
        bench.shell.user_ns[out] = ended.answer
    check(ended)


def check(ended: TurnResult) -> None:
    """Raise TurnFailed in one line unless the turn completed."""
    if ended.reason == "completed":
        return
    detail = ended.detail
    said = detail.get("text") or detail.get("limit") if isinstance(detail, dict) else detail
    words = f"turn {ended.turn} ended: {ended.reason.replace('_', ' ')}"
    if ended.reason == "interrupted":
        raise TurnInterrupted(f"{words} ({said}); what was said so far is kept")
    raise TurnFailed(f"{words}{f' ({said})' if said else ''}; see %agent log")


def _fork(bench: Workbench, plan: turns.Plan) -> None:
    """Fork the session just before the plan's turn and go on there."""
    assert plan.turn is not None
    before = bench.session
    branch = before.fork(plan.turn.start.seq - 1)
    bench.use(branch)
    bench.made_here(branch)
    if plan.later:
        numbers = ", ".join(map(str, plan.later))
        name = places.shown(before.log.path, bench.settings.folder)
        print(
            f"An earlier cell changed: this turn runs on branch {branch_name(branch)}. "
            f"Turns {numbers} belong to the former branch ({name}); %agent switch goes back."
        )


def branch_name(session: Session) -> str:
    """Return the name people call a session's branch by: main, or its file's stem."""
    path = session.log.path
    if path is None or path.parent.name != "branches":
        return "main"
    return path.stem


def _replay(bench: Workbench, turn: turns.Recorded, asked: Asked) -> None:
    """Show a recorded turn; nothing is sent."""
    session = bench.session
    display = make_display(bench, session, turn.first, Publisher(bench.shell))
    missing, calls = filled.missing_names(session, turn, bench.shell.user_ns)
    display.finish(replayed=Replayed(missing=missing, calls=calls), update=False)
    if asked.given.get("out"):
        view = display.view(live=False)
        bench.shell.user_ns[asked.given["out"]] = view["answer"]
    if missing and not bench.approver.reachable:
        print(f"This kernel lacks what the recorded turn made: {', '.join(missing)}")


# ---- running it, on the runtime ---------------------------------------------------------------------


def make_display(
    bench: Workbench, session: Session, first: int, publisher: Publisher, window: int | None = None
) -> TurnDisplay:
    """Return the display of the turn that begins at index `first`."""
    path = session.log.path
    main = None
    if path is not None:
        main = (
            path.name
            if path.parent.name != "branches"
            else f"{places.stem_of(path).name}.agent.jsonl"
        )
    return TurnDisplay(
        publisher,
        session,
        first,
        window=window,
        on_message=lambda message: _heard(bench, message),
        sidecar=main,
    )


def _heard(bench: Workbench, message: Json) -> None:
    """Take a message of the turn's widget, on the runtime's loop."""
    if bench.approver.hear(message):
        return
    if message["type"] == "stop" and bench.running is not None:
        bench.running.cancel()
    if message["type"] == "steer" and bench.running is not None and message.get("text"):
        queue(bench.session, {"text": str(message["text"])}, "next")


async def _turn(
    bench: Workbench, session: Session, asked: Asked, publisher: Publisher, *, resumed: bool
) -> TurnResult | None:
    """Start the turn in the log, or find it open there, and run it under its display."""
    bench.ready()
    built = bench.built(asked.options)
    if not resumed:
        _set_mode(session, asked.options.mode)
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
        await session.log.commit()
    if asked.given.get("step"):
        return await show_stop(bench, session, publisher)
    return await run_open_turn(bench, built, publisher)


def _set_mode(session: Session, wanted: str | None) -> None:
    if wanted is not None and session.mode != wanted:
        session.append(PermissionMode(mode=wanted))  # type: ignore[arg-type]


async def show_stop(bench: Workbench, session: Session, publisher: Publisher) -> None:
    """Show the open turn as it stands, stopped before its next action."""
    turn = turns.recorded(session)[-1]
    display = make_display(bench, session, turn.first, publisher)
    display.finish(update=False)


async def run_open_turn(bench: Workbench, built: build.Built, publisher: Publisher) -> TurnResult:
    """Run the open turn to its end under a display of its own.

    Raises CancelledError after the turn was closed as interrupted.
    """
    session, agent = bench.session, built.agent
    turn = turns.recorded(session)[-1]
    display = make_display(bench, session, turn.first, publisher, built.agent.profile.window)
    agent.on_stream = display.on_stream
    agent.on_progress = display.on_progress
    bench.display, bench.approver.guard = display, built.guard
    unhook = bench.on_session(display.on_event)
    show = asyncio.create_task(display.run())
    try:
        return await _to_the_end(session, agent)
    finally:
        show.cancel()
        unhook()
        display.finish()
        bench.display = None


async def _to_the_end(session: Session, agent: Any) -> TurnResult:
    try:
        while not isinstance(await advance(session, agent), End):
            pass
    except (asyncio.CancelledError, MainInterrupted):
        if session.state(agent.id).turn_open:
            interrupt(session, agent)
        raise asyncio.CancelledError from None
    except ProviderError as error:
        raise TurnFailed(f"{error}") from None
    except TurnError as error:
        raise TurnFailed(str(error)) from None
    return result(session, agent.id)
