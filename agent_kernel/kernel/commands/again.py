"""Again: asking one past request once more and seeing the answers side by side.

May not run a tool of any answer.
"""

from __future__ import annotations

import json
from typing import Any

from agent_kernel.core.events import Sample
from agent_kernel.core.session import Session
from agent_kernel.kernel import again as asking
from agent_kernel.kernel import branches, build, pages
from agent_kernel.kernel.command import Command, Work
from agent_kernel.kernel.display import Publisher
from agent_kernel.kernel.edits import EditError, text_at
from agent_kernel.kernel.parse import Option, UsageError, count, parse, place
from agent_kernel.kernel.workbench import Workbench
from agent_kernel.widgets import samples

OPTIONS = (
    Option(("--n", "-n"), count, "how many times"),
    Option(("--edit",), int, "the seq of an event to change"),
    Option(("--text",), str, "its other content"),
    Option(("--without",), str, "a tool that is not offered, or several with commas"),
    Option(("--model", "-m"), str, "another model"),
)


def again(bench: Workbench, words: list[str]) -> Work:
    """Send one past request again, n times, and return the table of its answers."""
    given, rest = parse(words, OPTIONS, most=1)
    session = bench.session
    try:
        where = place(rest[0]) if rest else _last(session)
        times = given.get("n", 1)
        if times > asking.MOST:
            raise ValueError(f"--n {times} is over {asking.MOST} requests")
        wish = asking.Wish(
            _edit(session, given), tuple(filter(None, given.get("without", "").split(","))),
            given.get("model"),
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from error
    return Work(_ask(bench, Publisher(bench.shell), where, times, wish), _table)


def _last(session: Session) -> tuple[int, int | None]:
    context = session.state().context
    if context is None:
        raise UsageError("nothing was sent yet; there is nothing to ask again")
    return context.turn or 0, context.step


def _edit(session: Session, given: dict[str, Any]) -> tuple[int, Any] | None:
    seq, text = given.get("edit"), given.get("text")
    if (seq is None) != (text is None):
        raise UsageError('--edit SEQ and --text "other content" go together')
    if seq is None or text is None:
        return None
    return seq, json.loads(text) if isinstance(text_at(session.events, seq), dict) else text


async def _ask(
    bench: Workbench,
    publisher: Publisher,
    where: tuple[int, int | None],
    times: int,
    wish: asking.Wish,
) -> Session:
    agent = bench.built(build.Options(model=wish.model)).agent
    try:
        branch = await asking.ask(bench.session, agent, where, times, wish)
    except (EditError, KeyError) as error:
        raise UsageError(str(error.args[0])) from error
    found = [event for event in branch.log.own_events if isinstance(event, Sample)]
    name = branches.branch_name(branch)
    pages.show(publisher, samples.view(found, branch=name))
    return branch


def _table(branch: Session) -> Any:
    from agent_kernel import frames

    return frames.of(branch).samples


AGAIN = (
    Command(
        "again",
        "again",
        '[T.S] [--n N] [--edit SEQ --text "…"] [--without TOOL] [--model M]',
        "one past request sent again",
        again,
    ),
)
