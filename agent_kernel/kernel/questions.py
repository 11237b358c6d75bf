"""Questions: a question of the model put to the person: by the live card, else by input().

May not invent an answer: None says that nobody gave one. A plan that is approved ends plan mode.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, cast

from agent_kernel.core.events import PermissionMode, PinSet
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.core.state import CallState
from agent_kernel.guard.render import visible
from agent_kernel.kernel.sigint import keyboard_interrupts
from agent_kernel.widgets.asked import YES_PLAN, own
from agent_kernel.widgets.calls import short_id
from agent_kernel.widgets.turnview import Ask, Asked

if TYPE_CHECKING:
    from agent_kernel.kernel.approve import Approver
    from agent_kernel.kernel.workbench import Workbench

Given = str | list[str] | None
APPROVED = "approved: do what the plan says, and no more"
NOT_YET = "not approved: {said}"
_YES = frozenset(("1", "y", "yes", "ok", "approve", "approved"))


class Asker:
    """Puts questions of the `ask` tool; the card of one is bound to its call and a nonce."""

    def __init__(self, bench: Workbench, approver: Approver) -> None:
        self._bench = bench
        self._approver = approver
        self._open: dict[str, tuple[str, list[str], asyncio.Future[Given]]] = {}
        self.own: list[Asked] = []  # the kernel's questions, of no call

    async def question(self, text: str, options: list[str], multiple: bool, kind: str) -> Given:
        """Return the person's answer, None when nobody answers; the service `ask`."""
        plan = kind == "plan"
        options = options or ([YES_PLAN] if plan else [])
        call = _call_of(self._bench.session, text, self._open)
        given = await self._asked(call.call.id if call else "", text, options, multiple)
        if not plan or given is None:
            return given
        said = given if isinstance(given, str) else "; ".join(given)
        if said != YES_PLAN and said.strip().lower() not in _YES:
            return NOT_YET.format(said=said)
        approve_plan(self._bench, call)
        return APPROVED

    async def _asked(self, call_id: str, text: str, options: list[str], multiple: bool) -> Given:
        nonce = secrets.token_hex(16)
        ident = call_id or f"kernel_{nonce[:6]}"
        answer: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._open[ident] = (nonce, options, answer)
        if call_id:
            self._approver.cards[ident] = Ask(nonce=nonce, hash="")
        else:
            clean = self._bench.secrecy.text(text)
            self.own.append(own(ident, nonce, clean, options, multiple=multiple))
        self._bench.touch()
        try:
            # A command's question has no turn to stand in: its cell takes a typed line.
            if (call_id or self._bench.display is not None) and await self._approver.watched():
                return await answer
            typed = asyncio.ensure_future(self._typed(text, options, multiple))
            await asyncio.wait({typed, answer}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else await typed
        finally:
            self._open.pop(ident, None)
            self._approver.cards.pop(ident, None)
            self.own[:] = [each for each in self.own if each["id"] != ident]
            self._bench.touch()

    async def _typed(self, text: str, options: list[str], multiple: bool) -> Given:
        text, *options = (self._bench.secrecy.text(each) for each in (text, *options))
        lines = [visible(text)]
        lines += [f"  {n}. {visible(option, one_line=True)}" for n, option in enumerate(options, 1)]
        hint = "numbers, or your own words" if multiple else "a number, or your own words"
        lines.append(f"({hint}) " if options else "> ")
        try:
            said = await self._bench.runtime.on_main(lambda: typed_line("\n".join(lines)))
        except (EOFError, OSError, NotImplementedError):
            return None
        return chosen(said.strip(), options, multiple)

    # ---- clicks and commands ---------------------------------------------------------------------

    def hear(self, message: Json) -> bool:
        """Take a click on a question's card; True when it answered. On the runtime's loop."""
        found = self._open.get(str(message.get("id")))
        if message["type"] != "answer" or found is None:
            return False
        nonce, options, answer = found
        if message.get("nonce") != nonce or answer.done():
            return False
        given = _clicked(options, message)
        if given:
            answer.set_result(given)
        return bool(given)

    def answer(self, word: str, text: str) -> bool:
        """Answer from a command, in words or by numbers; False when no such call asks now.

        `word` is the call's id or its short form.
        """
        mine = [found for ident, found in self._open.items() if word in (ident, short_id(ident))]
        if len(mine) != 1 or mine[0][2].done():
            return False
        _nonce, options, answer = mine[0]
        given = chosen(text.strip(), options, multiple=True)
        one = given[0] if isinstance(given, list) and len(given) == 1 else given
        answer.get_loop().call_soon_threadsafe(_settle, answer, one)
        return True


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _call_of(session: Session, text: str, taken: Json) -> CallState | None:
    """Return the running call that asks `text`: its card stands under this id."""
    for agent in session.agents:
        for state in session.state(agent).open_calls:
            call = state.call
            mine = call.name == "ask" and state.started and call.id not in taken
            if mine and call.input.get("question") == text:
                return state
    return None


def _clicked(options: list[str], message: Json) -> Given:
    text = str(message.get("text") or "").strip()
    picks = message.get("picks")
    places = picks if isinstance(picks, list) else []
    found = [options[at] for at in places if isinstance(at, int) and 0 <= at < len(options)]
    found += [text] if text else []
    return found[0] if len(found) == 1 else found or None


def chosen(said: str, options: list[str], multiple: bool) -> Given:
    """Return the options a typed line names by number, else the line; None when it is empty."""
    parts = [part.strip() for part in said.replace(",", " ").split()]
    numbers = [int(part) for part in parts if part.isdigit() and 0 < int(part) <= len(options)]
    if options and parts and len(numbers) == len(parts):
        picked = [options[n - 1] for n in numbers]
        return picked if multiple else picked[0]
    return said or None


def approve_plan(bench: Workbench, call: CallState | None) -> None:
    """End plan mode where it holds, and keep the answer that holds the plan in every request."""
    session = bench.session
    agent = call.call.agent if call is not None else "main"
    answer = session.state(agent).answer
    if answer is not None and answer.seq in session.surface(agent).seqs:
        session.append(PinSet(target=answer.seq, on=True), agent=agent)
    if session.mode == "plan":
        session.append(PermissionMode(mode=cast(Any, mode_before(bench))))


def mode_before(bench: Workbench) -> str:
    """Return the mode that held before plan mode: the session's last other one, else as set."""
    for event in reversed(bench.session.events):
        if isinstance(event, PermissionMode) and event.mode != "plan":
            return event.mode
    found = str(bench.settings.get("mode"))
    return found if found != "plan" else "ask"


def typed_line(prompt: str) -> str:
    """Return a typed line. Raises EOFError, KeyboardInterrupt, or NotImplementedError: no stdin."""
    with keyboard_interrupts():
        return input(prompt)
