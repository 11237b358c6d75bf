"""Edit: other content in the place of what the model saw, and going back to before a turn.

May not change a recorded event or lose a branch: both make a new one, the former stays.
"""

from __future__ import annotations

import json
from typing import Any

from agent_kernel.core.batch import Reply
from agent_kernel.core.events import ToolAsk, ToolDecision
from agent_kernel.core.messages import Json, canonical
from agent_kernel.core.session import Session
from agent_kernel.core.state import CallState
from agent_kernel.core.tool import ToolError
from agent_kernel.kernel import branches
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.edits import EditError, text_at
from agent_kernel.kernel.edits import edit as core_edit
from agent_kernel.kernel.parse import Option, UsageError, parse
from agent_kernel.kernel.running import go_on, idle, options_of
from agent_kernel.kernel.turns import recorded, turn_number
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.tools import checkpoints
from agent_kernel.widgets.calls import main_field, short_id

EDIT = (
    Option(("--from",), str, "take the new text from this variable"),
    Option(("--name",), str, "the branch's name"),
    Option(("--run",), None, "go on with the turn at once"),
)
REWIND = (
    Option(("--files",), None, "put back the files as well"),
    Option(("--name",), str, "the branch's name"),
    Option(("--undo",), None, "put back what the last rewind of files changed"),
    Option(("--yes",), None, "without asking"),
)


def edit(bench: Workbench, words: list[str]) -> Work | None:
    """Put other content in an event's place in a new branch, or another input into an open call."""
    given, rest = parse(words, EDIT, most=2)
    if not rest:
        raise UsageError('say what: %agent edit SEQ "text"; %agent surface lists the seqs')
    text = rest[1] if len(rest) > 1 else _variable(bench, given.get("from"))
    if not rest[0].isdigit():
        return _edit_call(bench, rest[0], text)
    idle(bench)
    seq, session = int(rest[0]), bench.session
    try:
        now = text_at(session.events, seq)
        if text is None:
            _offer(bench, seq, now)
            return None
        content: Any = _object(text, f"seq {seq}") if isinstance(now, dict) else text
        branch = core_edit(session, seq, content, name=given.get("name"))
    except (EditError, ValueError) as error:
        raise UsageError(str(error)) from error
    bench.use(branch, made_here=True)
    print(f"branch {branches.branch_name(branch)}: seq {seq} is edited; you are on it")
    if not branch.state().turn_open:
        return None
    if given.get("run"):
        return Work(go_on(bench, Publisher(bench.shell)), turn=True)
    print("%agent continue runs on from there; %agent switch goes back")
    return None


def _variable(bench: Workbench, name: str | None) -> str | None:
    if name is None:
        return None
    if name not in bench.shell.user_ns:
        raise UsageError(f"there is no variable {name!r} in this kernel")
    value = bench.shell.user_ns[name]
    return value if isinstance(value, str) else json.dumps(value)


def _offer(bench: Workbench, seq: int, now: str | Json) -> None:
    """Put the present content into the next cell, ready to be changed."""
    text = now if isinstance(now, str) else json.dumps(now, ensure_ascii=False, indent=1)
    bench.shell.set_next_input(f"text = {text!r}\n%agent edit {seq} --from text")
    print(f"the content of seq {seq} stands in the next cell; change it and run that")


def _object(text: str, what: str) -> Json:
    try:
        made = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the input of {what} must be a JSON object: {error}") from error
    if not isinstance(made, dict):
        raise UsageError(f"the input of {what} must be a JSON object, got {text!r:.60}")
    return made


# ---- an open call -----------------------------------------------------------------------------


def _edit_call(bench: Workbench, word: str, text: str | None) -> Work:
    states = bench.session.state().open_calls
    found = [s for s in states if word in (s.call.id, short_id(s.call.id))]
    if len(found) != 1 or found[0].started is not None:
        known = [short_id(s.call.id) for s in states if s.started is None]
        raise UsageError(f"no call {word!r} waits; {', '.join(known) or 'none does'}")
    call = found[0].call
    if text is None:
        raise UsageError(f"say the new input: %agent edit {word} '{json.dumps(call.input)}'")
    main = main_field(call.name, call.input)
    if main is None or text.lstrip().startswith("{"):
        new = _object(text, f"call {word}")
    else:
        new = {**call.input, main: text}
    if canonical(new) == canonical(call.input):
        raise UsageError(f"that is the input of call {word} as it is")
    return Work(_decide(bench, found[0], new), print)


async def _decide(bench: Workbench, state: CallState, new: Json) -> str:
    """Judge an edited input anew; allowed, it is what runs, and the log says whose it is."""
    call, short = state.call, short_id(state.call.id)
    if bench.approver.answer(call.id, Reply("allow", edited_input=new)):
        return f"{call.name} {short}: the edited input is judged and runs."
    bench.ready()
    session = bench.session
    runner = bench.built(options_of(bench, recorded(session)[-1].start)).agent.runner
    tool = runner.tools.get(call.name)
    if tool is None:
        raise UsageError(f"there is no tool {call.name!r} in this kernel")
    try:
        tool.parse(new)
    except ToolError as error:
        raise UsageError(str(error)) from None
    said = runner.permit(tool, new, runner.context(session, call.id))
    if said.verdict == "deny":
        raise UsageError(f"the edited call would be denied: {said.reason}; nothing was changed")
    facts: Json = {"rule": said.rule, "stage": said.stage, "reason": said.reason}
    if said.verdict == "ask":
        ask = ToolAsk(id=call.id, parts=said.parts, risk=said.risk, **facts)
        if not await _agrees(bench, _question(bench, call.name, new, ask)):
            raise UsageError("you said no; the call is as the model made it")
        session.append(ask)
    session.append(
        ToolDecision(id=call.id, verdict="allow", by="person", edited_input=new, **facts)
    )
    await session.log.commit()
    return f"{call.name} {short}: runs with your input at the next step."


def _question(bench: Workbench, name: str, new: Json, ask: ToolAsk) -> str:
    """Return what a person reads before an edited call may run: all of it, secrets masked."""
    lines = [f"Allow {name} with your input?"]
    lines += [f"  {key}: {value}" for key, value in bench.secrecy.json(new).items()]
    lines += [f"  high risk: {ask.risk}"] if ask.risk else []
    return "\n".join([*lines, f"  asked because {ask.reason or ask.rule or 'it is not read-only'}"])


async def _agrees(bench: Workbench, text: str) -> bool:
    """Put a yes or no to the person. Raises UsageError where nobody is there."""
    asker = bench.services().get("ask")
    if asker is None:
        raise UsageError(f"{text}\nnobody is there to ask")
    return await asker(text, ["yes", "no"], False, "question") in ("yes", "y")


# ---- going back -------------------------------------------------------------------------------


def rewind(bench: Workbench, words: list[str]) -> Work:
    """Go on from before a turn, in a new branch; with --files also put back what calls changed."""
    given, rest = parse(words, REWIND, most=1)
    idle(bench)
    bench.ready()
    if given.get("undo"):
        return Work(_undo(bench, bool(given.get("yes"))), print)
    if not rest or not rest[0].isdigit():
        raise UsageError("say a turn: %agent rewind 3 goes back to before turn 3")
    try:
        start = turn_number(bench.session, int(rest[0])).start
    except KeyError as error:
        raise UsageError(str(error.args[0])) from error
    work = _rewind(bench, start.seq - 1, given.get("name"), given)
    return Work(work, print)


async def _rewind(bench: Workbench, at: int, name: str | None, given: Json) -> str:
    session, lines = bench.session, list[str]()
    ways: list[checkpoints.Way] = []
    if given.get("files"):
        changed = checkpoints.changes(session, at)
        ways = checkpoints.plan(session, changed, bench.settings.folder)
        lost = checkpoints.unwatched(session, at)
        await _agreed(bench, ways, lost, yes=bool(given.get("yes")))
    try:
        branch = session.fork(at, name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    bench.use(branch, made_here=True)
    lines.append(f"branch {branches.branch_name(branch)} begins after seq {at}; you are on it")
    lines += _restored(bench, branch, ways, session)
    lines.append("Python's variables are as they are; %agent switch goes back to the other branch")
    await branch.log.commit()
    return "\n".join(lines)


async def _agreed(
    bench: Workbench, ways: list[checkpoints.Way], lost: list[str], *, yes: bool
) -> None:
    """Ask the person before a file is written. Raises UsageError unless they agree."""
    acts = [way for way in ways if way.verdict in ("restore", "remove")]
    if yes or not acts:
        return
    lines = [f"{way.verdict} {way.path}" for way in acts]
    lines += [way.words() for way in ways if way not in acts]
    lines += [f"not known what it changed: {each}" for each in lost]
    text = "\n".join(["Put these files back?", *lines])
    if not bench.approver.reachable:
        raise UsageError(f"{text}\nnobody is there to ask; say it with --yes")
    said = await bench.approver.asker.question(text, ["yes", "no"], False, "question")
    if said not in ("yes", "y"):
        raise UsageError("nothing was changed")


def _restored(
    bench: Workbench, session: Session, ways: list[checkpoints.Way], source: Session
) -> list[str]:
    done = checkpoints.restore(session, ways, bench.settings.folder, source.blobs)
    return [way.words() for way in done]


async def _undo(bench: Workbench, yes: bool) -> str:
    session = bench.session
    ways = checkpoints.plan(session, checkpoints.last_rewind(session), bench.settings.folder)
    if not ways:
        raise UsageError("no rewind of this branch changed a file")
    await _agreed(bench, ways, [], yes=yes)
    lines = _restored(bench, session, ways, session)
    await session.log.commit()
    return "\n".join(lines)


EDITS = (
    Command(
        "edit",
        "turn",
        'SEQ|CALL ["text"] [--from VAR] [--name N] [--run]',
        "other content in an event's place, in a branch; another input of an open call",
        edit,
    ),
    Command(
        "rewind",
        "time",
        "T [--files] [--name N] [--yes] | --undo",
        "go back to before a turn, its files too",
        rewind,
    ),
)
