"""Calls: a person's word on one open call: approve, deny, skip, answer; the mode and the budget.

May not run a call: the loop does, at the next step.
"""

from __future__ import annotations

from typing import Any, cast

from agent_kernel.core.batch import Question, Reply, decide
from agent_kernel.core.events import BudgetSet, PermissionMode, PermissionRule, ToolResultEvent
from agent_kernel.core.messages import Json, blocks_of
from agent_kernel.core.state import CallState
from agent_kernel.guard.rules import Refused, parse_rule
from agent_kernel.kernel import build
from agent_kernel.kernel.command import Command
from agent_kernel.kernel.parse import Option, UsageError, mode, nearest, parse
from agent_kernel.kernel.running import options_of
from agent_kernel.kernel.settings import read_budget
from agent_kernel.kernel.turns import recorded
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets.calls import short_id

_SKIPPED = "not run: the person skipped this call"


def _open_call(bench: Workbench, word: str) -> CallState:
    """Return the open call of an id or its short form. Raises UsageError naming those there are."""
    states = bench.session.state().open_calls
    found = [s for s in states if word in (s.call.id, short_id(s.call.id))]
    if len(found) != 1:
        known = [short_id(s.call.id) for s in states]
        raise UsageError(
            f"no open call is {word!r}{nearest(word, known) if known else '; no call is open'}"
        )
    return found[0]


def approve(bench: Workbench, words: list[str]) -> None:
    """Allow one call that waits; --turn allows its tool for this turn, --always grants a rule."""
    options = (
        Option(("--turn",), None, "this tool, until the turn ends"),
        Option(("--always",), str, "a rule, until the kernel ends"),
    )
    given, rest = parse(words, options, most=1)
    state = _open_call(bench, _one(rest, "approve CALL"))
    rule = given.get("always")
    if rule is not None:
        loaded = parse_rule(rule, "allow")
        if isinstance(loaded, Refused):
            raise UsageError(loaded.why)
        bench.session.append(PermissionRule(verdict="allow", rule=rule))
    _reply(bench, state, Reply("allow", rule=rule), turn=bool(given.get("turn")))


def deny(bench: Workbench, words: list[str]) -> None:
    """Deny one call that waits, with a reason the model reads."""
    _given, rest = parse(words, (), most=2)
    state = _open_call(bench, _one(rest, 'deny CALL "why"'))
    _reply(bench, state, Reply("deny", reason=rest[1] if len(rest) > 1 else ""))


def _one(rest: list[str], usage: str) -> str:
    if not rest:
        raise UsageError(f"say which call: %agent {usage}")
    return rest[0]


def _reply(bench: Workbench, state: CallState, reply: Reply, *, turn: bool = False) -> None:
    call = state.call
    if bench.approver.answer(call.id, reply, turn=turn):
        return
    if state.ask is None or state.decision is not None:
        raise UsageError(f"call {short_id(call.id)} does not wait for a decision")
    bench.ready()
    built = bench.built(options_of(bench, recorded(bench.session)[-1].start))
    if turn:
        built.guard.grant_turn(call.name)
    given = bench.session.true_inputs.get(call.id, call.input)
    question = Question(call.id, call.name, given, call.input_hash, state.ask)
    decide(bench.session, built.agent.runner, question, reply)
    done = "allowed; it runs at the next step" if reply.verdict == "allow" else "denied"
    print(f"{call.name} {short_id(call.id)}: {done}.")


def skip(bench: Workbench, words: list[str]) -> None:
    """Answer one call that has not started with an error saying that the person skipped it."""
    _given, rest = parse(words, (), most=1)
    _answer(bench, _one(rest, "skip CALL"), _SKIPPED, is_error=True)


def answer(bench: Workbench, words: list[str]) -> None:
    """Give the result of one call by hand; it is marked as the person's."""
    _given, rest = parse(words, (), most=2)
    if len(rest) < 2:
        raise UsageError('say the call and its result: %agent answer CALL "text"')
    _answer(bench, rest[0], rest[1], is_error=False)


def _answer(bench: Workbench, word: str, text: str, *, is_error: bool) -> None:
    if not is_error and bench.approver.asker.answer(word, text):
        print(f"{word}: answered.")
        return
    state = _open_call(bench, word)
    if state.started is not None:
        raise UsageError(f"call {word} has started; stop the turn instead")
    bench.ready()
    meta: Json = {"by": "person", "side_effect": False}
    if is_error:
        meta["error_kind"] = "skipped"
    event = ToolResultEvent(id=state.call.id, content=blocks_of(text), is_error=is_error, meta=meta)
    bench.session.append(event)
    print(f"{state.call.name} {short_id(state.call.id)}: answered by you; %agent continue goes on.")


def set_mode(bench: Workbench, words: list[str]) -> None:
    """Print or set the permission mode of this session."""
    _given, rest = parse(words, (), most=1)
    if rest:
        try:
            wanted = mode(rest[0])
        except ValueError as error:
            raise UsageError(f"mode {rest[0]!r}; {error}") from error
        bench.ready()
        bench.session.append(PermissionMode(mode=cast(Any, wanted)))
    print(build.mode_of(bench.session, bench.settings, build.Options()))


def set_budget(bench: Workbench, words: list[str]) -> None:
    """Print or set the budget: dollars or tokens of a turn, or of the session with --session."""
    given, rest = parse(words, (Option(("--session",), None, "of the whole session"),), most=1)
    scope: Any = "notebook" if given.get("session") else "turn"
    if rest:
        try:
            limits = read_budget(rest[0])
        except ValueError as error:
            raise UsageError(f"budget {rest[0]!r}: {error}") from error
        bench.ready()
        bench.session.append(BudgetSet(scope=scope, limits=limits))
    for name, word in (("turn", "of a turn"), ("notebook", "of the session")):
        found = bench.session.limits.get(name) or {}
        said = ", ".join(f"{value:,} {kind}" for kind, value in found.items()) or "none set"
        print(f"{word:15} {said}")


CALLS = (
    Command("approve", "approve", "CALL [--turn] [--always RULE]", "allow a waiting call", approve),
    Command("deny", "approve", 'CALL ["why"]', "deny a waiting call", deny),
    Command("skip", "turn", "CALL", "answer a call with 'skipped by the person'", skip),
    Command("answer", "turn", 'CALL "text"', "give a call's result by hand", answer),
    Command("mode", "approve", "[plan|ask|accept-edits|bypass]", "what runs unasked", set_mode),
    Command(
        "budget", "settings", "[0.50|40k|none] [--session]", "the limit of spending", set_budget
    ),
)
