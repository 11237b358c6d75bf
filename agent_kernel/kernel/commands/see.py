"""See: requests, surface, log, where a block came from, the context, usage, frames and replay.

May not change or send anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_kernel import compaction
from agent_kernel.core import replay as core_replay
from agent_kernel.core.agent import Agent
from agent_kernel.core.compaction import WaterMarks
from agent_kernel.core.events import AssistantMessage, Event, RequestContext
from agent_kernel.core.model import Request
from agent_kernel.core.session import Session
from agent_kernel.core.surface import fold
from agent_kernel.kernel import build, pages, panels, turns
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.filled import python_calls
from agent_kernel.kernel.parse import Option, UsageError, nearest, parse, place
from agent_kernel.kernel.provenance import of_path, provenance
from agent_kernel.kernel.running import display_of
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import logview, xray, xray_view
from agent_kernel.widgets import request as request_view
from agent_kernel.widgets import surface as surface_view
from agent_kernel.widgets.doc import Block

DIFF = Option(("--diff",), place, "the request to compare with, T.S")
RAW = Option(("--raw",), None, "the exact body")


def show(bench: Workbench, words: list[str]) -> Any:
    """Show a request, the surface, the log, or where a block came from."""
    if not words:
        raise UsageError(f"show what{nearest('', SHOWN)}")
    name, *rest = words
    if name not in SHOWN:
        raise UsageError(f"there is no {name!r} to show{nearest(name, SHOWN)}")
    return SHOWN[name](bench, rest)


def _found(session: Session, where: tuple[int, int | None]) -> tuple[RequestContext, Request]:
    try:
        return core_replay.request_at(session.events, *where, blobs=session.blobs)
    except KeyError as error:
        raise UsageError(str(error.args[0])) from error


def _last(session: Session) -> tuple[int, int | None]:
    context = session.state().context
    if context is None:
        raise UsageError("nothing was sent yet; %%agent --dry-run shows what would be")
    return context.turn or 0, context.step


def request(bench: Workbench, words: list[str]) -> None:
    """Show a past request, rebuilt from the log, or its difference to another."""
    given, rest = parse(words, (DIFF, RAW), most=1)
    session = bench.session
    where = _place(rest[0]) if rest else _last(session)
    context, made = _found(session, where)
    label = f"{context.turn}.{context.step}"
    if given.get("raw"):
        print(made.body.decode())
        return
    if given.get("diff"):
        before, older = _found(session, given["diff"])
        _difference(bench, (before, older), (context, made))
        return
    _show(bench, request_view.view(made, label=label))


def _difference(
    bench: Workbench, old: tuple[RequestContext, Request], new: tuple[RequestContext, Request]
) -> None:
    """Show how two requests differ: bytes, layer, cause, and what was written anew."""
    labels = tuple(f"{context.turn}.{context.step}" for context, _made in (old, new))
    rewritten = request_view.compare(old[1], new[1]).rewritten
    given: Any = {
        "labels": labels,
        "cause": core_replay.cause(bench.session.events, old[0], new[0]),
        "dollars": request_view.rewrite_cost(new[1].model, rewritten, new[0].time),
    }
    panels.show(
        bench,
        Publisher(bench.shell),
        "difference",
        request_view.difference_state(old[1], new[1], **given),
        request_view.difference(old[1], new[1], **given),
    )


def _place(text: str) -> tuple[int, int | None]:
    try:
        return place(text)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from error


def surface(bench: Workbench, words: list[str]) -> None:
    """Show the events the model sees now, or saw at a seq."""
    given, _ = parse(words, (Option(("--at",), int, "as it was after this seq"),))
    session, at = bench.session, given.get("at")
    found = session.surface()
    if at is not None:
        found = fold([event for event in session.events if event.seq <= at])
    _show(
        bench,
        surface_view.view(
            found.nodes, generation=found.generation, hidden_by=found.hidden_by, at=at
        ),
    )


def log(bench: Workbench, words: list[str]) -> None:
    """Show events: all, of a turn, of types that begin so, of an agent, the last N."""
    options = (
        Option(("--turn",), int, "of one turn"),
        Option(("--type",), str, "whose type begins so"),
        Option(("--agent",), str, "of one agent"),
        Option(("--last",), int, "only the last N"),
    )
    given, rest = parse(words, options, most=1)
    kind = given.get("type") or (rest[0] if rest else "")
    events = [event for event in bench.session.events if _kept(event, given, kind)]
    _show(bench, logview.view(events, limit=given.get("last") or logview.SHOWN))


def _kept(event: Event, given: dict[str, Any], kind: str) -> bool:
    return (
        event.type.startswith(kind)
        and given.get("turn") in (None, event.turn)
        and given.get("agent") in (None, event.agent)
    )


def where(bench: Workbench, words: list[str]) -> None:
    """Show where an event or a request's block came from: sources, call, file, later fate."""
    _given, rest = parse(words, (), most=2)
    session = bench.session
    try:
        if rest and not rest[0][0].isdigit():
            at = _place(rest[1]) if len(rest) > 1 else _last(session)
            _show(bench, of_path(session, at, rest[0]))
        elif len(rest) == 1 and rest[0].isdigit():
            _show(bench, provenance(session, int(rest[0])))
        else:
            raise UsageError("say a seq: %agent where 12, or a block: messages[4].content[1] 2.1")
    except UsageError:
        raise
    except (KeyError, ValueError) as error:
        raise UsageError(str(error.args[0])) from error


def context(bench: Workbench, words: list[str]) -> Work:
    """Show what the next request holds, block by block: source, tokens, age."""
    parse(words, ())
    return Work(_context(bench, Publisher(bench.shell)))


async def _context(bench: Workbench, publisher: Publisher) -> None:
    from agent_kernel.core.calling import build as build_request

    session = bench.session
    agent = bench.built(build.Options()).agent
    await agent.refresh(session)
    made, _header, _wrong = build_request(session, agent)
    following = xray.Next(made, session.surface().nodes, _layers(session, agent))
    marks = WaterMarks.of(agent.profile)
    state = xray.state(
        session.events,
        following=following,
        window=marks.window,
        soft=marks.soft,
        hard=marks.hard,
        blobs=session.blobs,
    )
    panels.show(bench, publisher, "xray", dict(state), xray_view.view(state))


def _layers(session: Session, agent: Agent) -> dict[int, str]:
    """Return which layer of a compaction run now would take an event first, by seq."""
    try:
        preview = compaction.plan(session, agent.strategies, "ladder", None, profile=agent.profile)
    except ValueError:
        return {}
    places = {node.seq: at for at, node in enumerate(session.surface().nodes)}
    found: dict[int, str] = {}
    for name, edit in preview.plan.kept:
        low, high = places.get(edit.first), places.get(edit.last)
        for seq, at in places.items():
            if low is not None and high is not None and low <= at <= high:
                found.setdefault(seq, name)
    return found


def usage(bench: Workbench, words: list[str]) -> None:
    """Print tokens and dollars by turn."""
    parse(words, ())
    session = bench.session
    print(f"{'turn':>4} {'steps':>5} {'in':>10} {'cached':>10} {'out':>9} {'dollars':>9}  ended")
    for turn in turns.recorded(session):
        row = turns.record(session, turn.first)
        spent = row["usage"]
        given = sum(spent[k] or 0 for k in spent if k != "output")
        price = "unknown" if row["cost"] is None else f"{row['cost']:.4f}"
        print(
            f"{row['turn']:>4} {row['steps']:>5} {given:>10,} {spent['cache_read'] or 0:>10,} "
            f"{spent['output'] or 0:>9,} {price:>9}  {row['reason'] or 'open'}"
        )
    requests = sum(isinstance(e, AssistantMessage) for e in session.events)
    print(f"{requests} answers in this session's log")


def frames(bench: Workbench, words: list[str]) -> Any:
    """Return a table of this session as a DataFrame."""
    from agent_kernel import frames as room

    _given, rest = parse(words, (), most=1)
    if not rest:
        print(f"tables: {', '.join(room.ALL)}")
        return None
    if rest[0] not in room.ALL:
        raise UsageError(f"there is no table {rest[0]!r}{nearest(rest[0], room.ALL)}")
    return getattr(room.of(bench.session), rest[0])


def replay(bench: Workbench, words: list[str]) -> Work | None:
    """Show the last turn again; --verify proves every request, --python runs its Python again."""
    options = (
        Option(("--verify",), None, "rebuild every request and compare"),
        Option(("--python",), None, "run the turn's Python again"),
    )
    given, rest = parse(words, options, most=1)
    session = Session.open(Path(rest[0]).expanduser()) if rest else bench.session
    if given.get("verify"):
        report = core_replay.verify(session.events, session.log.loaded.findings, session.blobs)
        print(f"{report.verified} of {report.requests} requests verified")
        for finding in report.findings:
            print(f"{finding['code']}: {finding['text']}")
        return None
    found = turns.recorded(session)
    if not found:
        raise UsageError("no turn is recorded yet")
    if given.get("python"):
        return Work(_again(bench, python_calls(session, found[-1])), _printed)
    display_of(bench, session, found[-1].first, Publisher(bench.shell)).finish(update=False)
    return None


async def _again(bench: Workbench, codes: Sequence[str]) -> list[str]:
    """Run a turn's Python again, in order, until one fails; return what each printed."""
    said: list[str] = []
    for code in codes:
        made = await bench.main.run_cell(code, 3_600, lambda _text: None)
        said.append(made.stdout + (made.value_text or "") + (made.traceback if made.error else ""))
        if made.error:
            break
    return said


def _printed(said: list[str]) -> None:
    print("\n".join(text.rstrip("\n") for text in said if text))


def _show(bench: Workbench, blocks: Sequence[Block]) -> None:
    pages.show(Publisher(bench.shell), blocks)


SHOWN = {"request": request, "surface": surface, "log": log, "where": where, "context": context}
SEE = (
    Command("show", "see", "request|surface|log|where|context …", "find something to see", show),
    Command("request", "see", "[T.S] [--diff T.S] [--raw]", "one exact request", request),
    Command("surface", "see", "[--at SEQ]", "the events the model sees", surface),
    Command("log", "see", "[TYPE] [--turn T] [--agent A] [--last N]", "the events", log),
    Command("where", "see", "SEQ|messages[N].content[M] [T.S]", "where a block came from", where),
    Command("context", "see", "", "what the next request holds", context),
    Command("usage", "see", "", "tokens and dollars by turn", usage),
    Command("frames", "see", "[NAME]", "a table of this session", frames),
    Command("replay", "evidence", "[LOG] [--verify] [--python]", "show or prove turns", replay),
)
