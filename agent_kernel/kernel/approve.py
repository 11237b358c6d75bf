"""Approve: a question of the loop put to the person: by the live card, else input(), else denied.

May not judge: an answer is bound to one call, its input's hash and a nonce; any other is ignored.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.core.batch import Question, Reply
from agent_kernel.core.events import PermissionRule
from agent_kernel.core.messages import Json, canonical
from agent_kernel.guard.render import visible
from agent_kernel.kernel.parse import UsageError
from agent_kernel.kernel.questions import Asker, typed_line
from agent_kernel.kernel.secrecy import masked
from agent_kernel.widgets.turnview import Ask

if TYPE_CHECKING:
    from agent_kernel.kernel.permit import Guard
    from agent_kernel.kernel.workbench import Workbench

WORDS = {
    "y": "once", "yes": "once", "allow": "once", "once": "once", "t": "turn", "turn": "turn",
    "n": "deny", "no": "deny", "deny": "deny",
}  # fmt: skip


CHANGES = frozenset(("edit", "write", "notebook"))  # tools whose target is the file of `path`
EDITED_MASK = "the edited text holds a mask in place of a secret; approve it as it is, or deny it"


class Approver:
    """Asks the person of this kernel; `guard` is that of the turn that runs."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._open: dict[str, tuple[Question, str, asyncio.Future[Reply]]] = {}
        self.asker = Asker(bench, self)
        self.cards: dict[str, Ask] = {}  # by call id: what an open card is bound to
        self._targets: dict[str, Target] = {}
        self.guard: Guard | None = None

    @property
    def reachable(self) -> bool:
        """True when somebody may answer: a front end with stdin, or a terminal."""
        kernel = getattr(self._bench.shell, "kernel", None)
        if kernel is not None:
            return bool(getattr(kernel, "_allow_stdin", False))
        return sys.stdin is not None and sys.stdin.isatty()

    # ---- the loop's asker ------------------------------------------------------------------------

    async def ask(self, question: Question) -> Reply:
        """Return the person's answer to one call; on the runtime's loop."""
        nonce = secrets.token_hex(16)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._open[question.id] = (question, nonce, answer)
        self.cards[question.id] = self._card(question, nonce)
        self._targets[question.id] = target_of(question, self._bench.settings.folder)
        self._bench.touch()
        try:
            if await self.watched():
                return await answer
            typed = asyncio.ensure_future(self._typed(question))
            await asyncio.wait({typed, answer}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else await typed
        finally:
            for kept in (self._open, self.cards, self._targets):
                kept.pop(question.id, None)
            self._bench.touch()

    async def watched(self) -> bool:
        """Tell whether a card is what the person answers: a live front end shows it, or no cell
        runs that could ask for a typed line."""
        display = self._bench.display
        if display is not None and not display.moved:
            return await self._live(display.alive)
        self._bench.show_panel()
        return getattr(self._bench.shell, "kernel", None) is not None

    def _card(self, question: Question, nonce: str) -> Ask:
        rules: tuple[str, ...] = ()
        if self.guard is not None:
            offered = self.guard.offers(question.name, question.input)
            rules = tuple(rule for rule in offered if self._bench.secrecy.text(rule) == rule)
        return Ask(nonce=nonce, hash=question.input_hash, rules=rules)

    async def _live(self, alive: asyncio.Event) -> bool:
        """Tell whether a front end answered, waiting for a new widget's ping."""
        try:
            async with asyncio.timeout(self._bench.settings.get("front_wait")):
                await alive.wait()
        except TimeoutError:
            return False
        return True

    async def _typed(self, question: Question) -> Reply:
        """Return the answer typed into input(); denied where there is no stdin."""
        changed = ""
        while True:
            text = f"{changed}\n{self._words(question)}".lstrip()
            try:
                said = await self._bench.runtime.on_main(lambda: typed_line(text))  # noqa: B023
            except (EOFError, OSError, NotImplementedError) as error:
                return Reply("deny", by="policy", reason=f"nobody is there to ask ({error})")
            reply = self._reply(question, said)
            changed = self.stale(question.id) if reply.verdict == "allow" else ""
            if not changed:
                return reply
            self._again(question.id)

    def _words(self, question: Question) -> str:
        """Return the question as it may be shown: a secret of its input is masked."""
        return _prompt(replace(question, input=self._bench.secrecy.json(question.input)))

    def _reply(self, question: Question, said: str) -> Reply:
        word, _, rest = said.strip().partition(" ")
        verb = WORDS.get(word.lower())
        if verb in {"once", "turn"}:
            if verb == "turn":
                self._grant_turn(question)
            return Reply("allow", reason=rest)
        return Reply("deny", reason=rest if verb == "deny" else said.strip() or "no answer")

    # ---- a target that changed -------------------------------------------------------------------

    def look(self) -> None:
        """See whether a file that an open call would change is another than when it was asked."""
        for call_id in list(self.cards):
            self.stale(call_id)

    def stale(self, call_id: str) -> str:
        """Return how a call's target changed since it was asked, "" while it did not."""
        target, card = self._targets.get(call_id), self.cards.get(call_id)
        said = target.changed() if target is not None else ""
        if card is not None and card.stale != said:
            self.cards[call_id] = replace(card, stale=said)
            self._bench.touch()
        return said

    def _again(self, call_id: str) -> None:
        """Bind the card to the target as it is now: a new card, with nothing pressed on it."""
        question, _nonce, answer = self._open[call_id]
        nonce = secrets.token_hex(16)
        self._open[call_id] = (question, nonce, answer)
        self._targets[call_id] = target_of(question, self._bench.settings.folder)
        self.cards[call_id] = self._card(question, nonce)
        self._bench.touch()

    # ---- clicks and commands ---------------------------------------------------------------------

    def hear(self, message: Json) -> bool:
        """Take a click of the turn's widget; True when it answered a call. On the runtime's loop.

        A message whose nonce or hash is not the open card's changes nothing.
        """
        if self.asker.hear(message):
            return True
        found = self._open.get(str(message.get("id")))
        if found is None or found[2].done():
            return False
        question, nonce, answer = found
        if message.get("nonce") != nonce or message.get("hash") != question.input_hash:
            return False
        if message["type"] == "rediff":
            self._again(question.id)
            return True
        if message["type"] != "deny" and self.stale(question.id):
            return True  # the card says so now; nothing was decided
        reply = self._clicked(question, message)
        if reply is None:
            return False
        answer.set_result(reply)
        return True

    def _clicked(self, question: Question, message: Json) -> Reply | None:
        if message["type"] == "deny":
            return Reply("deny", reason=str(message.get("reason") or ""))
        if message["type"] not in ("approve", "edit"):
            return None
        scope, rule = message.get("scope", "once"), message.get("rule")
        if scope == "turn":
            self._grant_turn(question)
        if isinstance(rule, str) and self.guard is not None:
            if rule not in self.guard.offers(question.name, question.input):
                return None
            self._bench.session.append(PermissionRule(verdict="allow", rule=rule))
        try:
            edited = _edited(question.input, message)
        except ValueError:
            return None
        if masked(message.get("text")) and not masked(question.input):
            return Reply("deny", by="policy", reason=EDITED_MASK)
        return Reply("allow", edited_input=edited, rule=rule if isinstance(rule, str) else None)

    def answer(self, call_id: str, reply: Reply, *, turn: bool = False) -> bool:
        """Answer an open question from a command; False when that call asks nothing now."""
        found = self._open.get(call_id)
        if found is None or found[2].done():
            return False
        if reply.verdict == "allow" and (said := self.stale(call_id)):
            self._again(call_id)
            raise UsageError(f"{said} Nothing was decided; approve it again to allow it as it is")
        if turn:
            self._grant_turn(found[0])
        found[2].get_loop().call_soon_threadsafe(_settle, found[2], reply)
        return True

    def _grant_turn(self, question: Question) -> None:
        if self.guard is not None:
            self.guard.grant_turn(question.name)


@dataclass(frozen=True)
class Target:
    """The file a call would change, and its SHA-256 when it was asked, "" where there was none."""

    path: Path | None
    name: str = ""
    digest: str = ""

    def changed(self) -> str:
        """Return the sentence of a change since, "" where there was none."""
        now = _digest(self.path)
        if now == self.digest:
            return ""
        what = "was made" if not self.digest else "is gone" if not now else "changed"
        return f"{visible(self.name, one_line=True)} {what} since you were asked."


def target_of(question: Question, folder: Path) -> Target:
    """Return the file a call would change, as it is now."""
    name = question.input.get("path")
    if question.name not in CHANGES or not isinstance(name, str):
        return Target(None)
    path = folder / name
    return Target(path, name, _digest(path))


def _digest(path: Path | None) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None else ""
    except OSError:
        return ""


def _settle(future: asyncio.Future[Reply], reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)


def _edited(given: Json, message: Json) -> Json | None:
    """Return the input with the field a person edited on the card, None when nothing was.

    Raises ValueError when the text stands for the whole input and is no JSON.
    """
    field, text = message.get("field"), message.get("text")
    if message["type"] != "edit" or not isinstance(text, str):
        return None
    if not field:
        made = json.loads(text)
        return made if isinstance(made, dict) and canonical(made) != canonical(given) else None
    return {**given, field: text} if given.get(field) != text else None


def _prompt(question: Question) -> str:
    """Return the question as a terminal shows it: the whole input, hidden characters visible."""
    lines = [f"Allow {question.name}?"]
    for name, value in question.input.items():
        text = visible(value if isinstance(value, str) else str(value))
        lines.append(f"  {name}: {text}" if "\n" not in text else f"  {name}:\n{text}")
    if question.ask.risk:
        lines.append(f"  high risk: {question.ask.risk}")
    if question.ask.reason:
        lines.append(f"  asked because {question.ask.reason}")
    lines.append("[y] once, [t] for this turn, [n reason] no: ")
    return "\n".join(lines)
