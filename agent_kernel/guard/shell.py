"""Shell: the strict reading of a bash text; only what this scanner accepts can be allowed.

It may not guess: whatever lies outside the small grammar below is Opaque, with the reason.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

LIMIT: Final = 4_000
RESERVED: Final = frozenset(
    "if then elif else fi time for in until while do done case esac coproc select function "
    "{ } [[ ]] !".split()
)
GLOB_HEADS: Final = frozenset("cat ls grep wc head tail".split())

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+,./^!=:\-]+|[^\x00-\x7f]+")
_DOUBLE = re.compile(r'"([^"$`\\!]*)"')
_HARMLESS = re.compile(r"(?:[12]?>[ \t]*/dev/null|2>&1)(?=[ \t\n;|&]|\Z)")
_BOTH_NULL = re.compile(r"&>[ \t]*/dev/null(?=[ \t\n;|&]|\Z)")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
_ENDS = frozenset(" \t\n;|&")
# Blank or invisible although not of a format or separator category.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


@dataclass(frozen=True, slots=True)
class Word:
    """One word after quote removal; `globs` are the places in `text` of live `*` and `?`."""

    text: str
    globs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words, the files `<` reads, and the source it came from."""

    words: tuple[Word, ...]
    reads: tuple[str, ...]
    text: str

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Program:
    """Commands in order; `joins[i]` stands between command i and i + 1."""

    commands: tuple[Command, ...]
    joins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """Why a text is not read, and at which character; `hidden` when it would deceive a reader."""

    why: str
    at: int
    hidden: bool = False


class _RefuseError(Exception):
    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.why, self.at = why, at


def scan(text: str) -> Program | Opaque:
    """The program in `text` when every byte of it is understood, else Opaque; linear in size."""
    unseen = hidden(text)
    if unseen is not None:
        return unseen
    if len(text) > LIMIT:
        return Opaque(f"longer than {LIMIT} characters", LIMIT)
    try:
        return _Scanner(text).program()
    except _RefuseError as refused:
        return Opaque(refused.why, refused.at)


def scan_words(text: str) -> tuple[Word, ...] | Opaque:
    """The words of one command where `*` and `?` may stand anywhere: the reading of a rule."""
    unseen = hidden(text)
    if unseen is not None:
        return unseen
    words: list[Word] = []
    place = 0
    try:
        while True:
            while place < len(text) and text[place] in " \t":
                place += 1
            if place == len(text):
                return tuple(words)
            if text[place] in "\n;|&#<>":
                return Opaque(f"holds {text[place]!r}", place)
            word, place = _word(text, place)
            words.append(word)
    except _RefuseError as refused:
        return Opaque(refused.why, refused.at)


def hidden(text: str) -> Opaque | None:
    """Opaque when `text` holds a control, a Unicode blank or an invisible character, else None."""
    control = _CONTROL.search(text)
    if control:
        name = f"U+{ord(control[0]):04X}"
        return Opaque(f"holds the control character {name}", control.start(), True)
    if text.isascii():
        return None
    for at, char in enumerate(text):
        if char > "\x7f" and _is_hidden(char):
            return Opaque(f"holds the hidden character U+{ord(char):04X}", at, True)
    return None


def _is_hidden(char: str) -> bool:
    if unicodedata.category(char) in ("Cf", "Zs", "Zl", "Zp", "Cs"):
        return True
    return char in _UNSEEN or "\u180b" <= char <= "\u180f" or "\U000e0000" <= char <= "\U000e0fff"


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.words: list[Word] = []
        self.reads: list[str] = []
        self.started = -1
        self.commands: list[Command] = []
        self.joins: list[str] = []

    def program(self) -> Program:
        text, size = self.text, len(self.text)
        while self.place < size:
            char = text[self.place]
            if char in " \t":
                self.place += 1
            elif char == "#":
                end = text.find("\n", self.place)
                self.place = size if end < 0 else end
            elif char in "\n;|&" and not text.startswith("&>", self.place):
                self._separator(char)
            else:
                self._item(char)
        return self._finished()

    def _finished(self) -> Program:
        if self.started >= 0:
            self._command(self.place)
        if not self.commands:
            raise _RefuseError("holds no command", 0)
        if len(self.joins) == len(self.commands):
            if self.joins[-1] not in (";", "\n"):
                raise _RefuseError("ends after an operator", self.place)
            self.joins.pop()
        return Program(tuple(self.commands), tuple(self.joins))

    def _separator(self, char: str) -> None:
        at, text = self.place, self.text
        if char == "\n" and self.started < 0:  # a blank line, or a line end after an operator
            self.place += 1
            return
        join = text[at : at + 2] if text[at : at + 2] in ("&&", "||") else char
        if join == "&" or text[at : at + 2] in ("|&", ";;", ";&"):
            raise _RefuseError(f"uses {text[at : at + 2].strip()!r}", at)
        if self.started < 0:
            raise _RefuseError(f"has no command before {join!r}", at)
        self._command(at)
        self.joins.append(join)
        self.place = at + len(join)

    def _item(self, char: str) -> None:
        if self.started < 0:
            self.started = self.place
        match = (_BOTH_NULL if char == "&" else _HARMLESS).match(self.text, self.place)
        if match:
            self.place = match.end()
        elif char == "<":
            self._read()
        elif char in "&>":
            raise _RefuseError("redirects to a file", self.place)
        else:
            word, self.place = _word(self.text, self.place)
            self.words.append(word)

    def _read(self) -> None:
        at = self.place + 1
        while at < len(self.text) and self.text[at] in " \t":
            at += 1
        if at >= len(self.text) or self.text[at] in "\n;|&<>(#":
            raise _RefuseError("uses an input form that is not read", self.place)
        word, self.place = _word(self.text, at)
        if word.globs or not word.text:
            raise _RefuseError("reads from a pattern", at)
        self.reads.append(word.text)

    def _command(self, end: int) -> None:
        at = self.started
        if not self.words:
            raise _RefuseError("redirects without a command", at)
        head = self.words[0]
        if not head.text or head.text[0] in "-+" or "=" in head.text or head.globs:
            raise _RefuseError(f"has a command name that is not plain: {head.text!r}", at)
        if head.text in RESERVED:
            raise _RefuseError(f"uses the shell word {head.text!r}", at)
        for word in self.words[1:]:
            if word.globs:
                _check_glob(head.text, word, at)
        source = self.text[at:end].rstrip(" \t")
        self.commands.append(Command(tuple(self.words), tuple(self.reads), source))
        self.words, self.reads, self.started = [], [], -1


def _check_glob(head: str, word: Word, at: int) -> None:
    if head not in GLOB_HEADS or word.text.startswith("-"):
        raise _RefuseError(f"has a pattern that is not read: {word.text!r}", at)
    if "/" in word.text[word.globs[0] :]:
        raise _RefuseError(f"has a pattern before the last path part: {word.text!r}", at)


def _word(text: str, start: int) -> tuple[Word, int]:
    """The word at `start` and the place after it; raises _RefuseError for any other piece."""
    size, place, length = len(text), start, 0
    pieces: list[str] = []
    globs: list[int] = []
    while place < size:
        match = _PLAIN.match(text, place)
        if match:
            piece, place = match[0], match.end()
        else:
            char = text[place]
            if char in _ENDS:
                break
            if char in "'\"\\":
                piece, place = _quoted(text, place, char)
            else:
                _check_bare(text, place, start, char)
                if char in "*?":
                    globs.append(length)
                piece, place = char, place + 1
        pieces.append(piece)
        length += len(piece)
    return Word("".join(pieces), tuple(globs)), place


def _quoted(text: str, place: int, char: str) -> tuple[str, int]:
    if char == "'":
        end = text.find("'", place + 1)
        if end < 0:
            raise _RefuseError("has an unbalanced quote", place)
        return text[place + 1 : end], end + 1
    if char == '"':
        match = _DOUBLE.match(text, place)
        if not match:
            raise _RefuseError("has a double-quoted text that is not plain", place)
        return match[1], match.end()
    follower = text[place + 1 : place + 2]
    if follower not in _PUNCTUATION or not follower:
        raise _RefuseError("has a backslash before a character that is not punctuation", place)
    return follower, place + 2


def _check_bare(text: str, place: int, start: int, char: str) -> None:
    """Raises _RefuseError unless `char` may stand bare at `place` of the word from `start`."""
    if char == "~" and place > start and text[place - 1] not in "=:":
        return
    if char == "#" and place > start:
        return
    if char in "[]" and place == start and (text[place + 1 : place + 2] or " ") in _ENDS:
        return
    if char not in "*?":
        raise _RefuseError(f"holds a live {char!r}", place)
