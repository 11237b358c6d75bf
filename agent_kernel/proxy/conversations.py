"""Conversations: which agent of a log a request belongs to, by the messages it repeats.

May not append anything; what it compares is what the log's surfaces hold.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_kernel.core.messages import Message, Raw, Text, Thinking, ToolResult, ToolUse, canonical
from agent_kernel.core.model import Request
from agent_kernel.core.session import Session

MAIN = "main"
_QUOTED_LINES = 0.5  # of an answer's long lines found again in a prompt: it was made of the answer
_LONG = 20  # characters of a line that is not found again by chance
_SUMMARY = re.compile(r"summar|compact|condens", re.IGNORECASE)
Atom = tuple[str, str, str]


def atoms_of(messages: Iterable[Message]) -> list[Atom]:
    """Return what makes a conversation known again: (role, kind, id or hash of each block).

    Thinking is left out and results count by their call: harnesses drop the one and clear the other
    while the conversation goes on.
    """
    return list(_atoms(messages))


def _atoms(messages: Iterable[Message]) -> Iterator[Atom]:
    for message in messages:
        for block in message.content:
            match block:
                case Thinking():
                    continue
                case Raw(data) if data.get("type") == "redacted_thinking":
                    continue
                case ToolUse(id):
                    yield (message.role, "use", id)
                case ToolResult(id):
                    yield (message.role, "result", id)
                case Text(text):
                    yield (message.role, "text", _hash(text.strip().encode("utf-8", "replace")))
                case _:
                    yield (message.role, "block", _hash(canonical(block.wire())))


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass
class Conversation:
    """One agent of the log as requests know it again."""

    agent: str
    atoms: list[Atom] = field(default_factory=list)
    busy: bool = False  # a request of it is on its way
    used: int = 0  # a counter: the larger, the later
    head: tuple[object, ...] = ()  # model, system and tools of its last request
    quotable: tuple[str, ...] = ()  # the long lines of its last answer, when that is a summary
    quoted: bool = False  # its request holds that summary: the harness compacted

    def refresh(self, session: Session) -> None:
        """Take what the log now holds."""
        messages = session.surface(self.agent).messages()
        self.atoms = atoms_of(messages)
        self.quotable = ()
        if len(messages) > 1 and messages[-1].role == "assistant":
            asked, answer = (_text(message) for message in messages[-2:])
            if _SUMMARY.search(asked):
                lines = [line.strip() for line in answer.splitlines()]
                self.quotable = tuple(line for line in lines if len(line) >= _LONG)


def _text(message: Message) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


class Conversations:
    """All conversations of one log, those it held before too."""

    def __init__(self, session: Session) -> None:
        self._all: dict[str, Conversation] = {}
        self._count = 0
        for agent in session.agents:
            if len(session.surface(agent).nodes):
                self._all[agent] = known = Conversation(agent)
                known.refresh(session)

    def of(self, request: Request, messages: Sequence[Message]) -> Conversation:
        """Return the conversation a request goes on with, or a new one; it is busy from now on.

        `messages` are the request's in their normal form.
        """
        atoms = atoms_of(messages)
        head = (request.model, request.system, request.tools)
        prompt = "\n".join(_text(message) for message in messages if message.role != "assistant")
        found = self._extended(atoms, head) or self._rewritten(atoms) or self._summed_up(prompt)
        if found is None:
            found = Conversation(self._name(request))
            self._all[found.agent] = found
        self._count += 1
        found.busy, found.used, found.head = True, self._count, head
        found.quoted = bool(found.quotable) and _quotes(prompt, found.quotable)
        return found

    def _idle(self) -> list[Conversation]:
        return [each for each in self._all.values() if not each.busy and each.atoms]

    def _extended(self, atoms: list[Atom], head: tuple[object, ...]) -> Conversation | None:
        """The conversation whose whole is the longest beginning of the request."""
        fitting = [c for c in self._idle() if c.atoms == atoms[: len(c.atoms)]]
        return max(fitting, key=lambda c: (len(c.atoms), c.head == head, c.used), default=None)

    def _rewritten(self, atoms: list[Atom]) -> Conversation | None:
        """The conversation that shares answers with the request though not all of it."""
        marks = [(_shared(c.atoms, atoms), c) for c in self._idle()]
        found = [(mark, c) for mark, c in marks if mark is not None]
        best = max(found, key=lambda pair: (*pair[0], pair[1].used), default=None)
        return best[1] if best is not None else None

    def _summed_up(self, prompt: str) -> Conversation | None:
        """The conversation whose last answer the request's prompt holds: a summary put to use."""
        fitting = [c for c in self._idle() if c.quotable and _quotes(prompt, c.quotable)]
        return max(fitting, key=lambda c: c.used, default=None)

    def _name(self, request: Request) -> str:
        """main for the first conversation; a probe or a side question for a title is none."""
        side = request.max_tokens <= 1 or (not request.tools and _shaped(request))
        if MAIN not in self._all and not side:
            return MAIN
        n = 1
        while f"a{n}" in self._all:
            n += 1
        return f"a{n}"


def _shared(mine: Sequence[Atom], theirs: Sequence[Atom]) -> tuple[int, int] | None:
    """Return (length of the common beginning, calls in common); None without a common answer."""
    length = 0
    for a, b in zip(mine, theirs, strict=False):
        if a != b:
            break
        length += 1
    calls = {a for a in mine if a[1] == "use"} & {b for b in theirs if b[1] == "use"}
    answered = any(role == "assistant" for role, _, _ in mine[:length])
    return (length, len(calls)) if calls or answered else None


def _quotes(prompt: str, lines: Sequence[str]) -> bool:
    return sum(line in prompt for line in lines) >= _QUOTED_LINES * len(lines)


def _shaped(request: Request) -> bool:
    """Tell whether the answer's form is prescribed, as it is for titles and classifications."""
    config = request.params.get("output_config")
    asked = config.get("format") if isinstance(config, dict) else None
    return bool(asked or request.params.get("output_format"))
