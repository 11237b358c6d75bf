"""Shell lex: the generous reading of a bash text into segments of loose words.

It over-approximates and serves deny and ask only; nothing read here may be allowed by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from agent_kernel.guard.shell_nesting import decode_ansi, parameter, substitution

_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;|&()\n]")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\()")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+,./:=^!~\[\]\-]+|[^\x00-\x7f]+")
_DELIMITERS: Final = frozenset(" \t\n;|&()<>")


@dataclass(slots=True)
class Loose:
    """One word: its text after quote removal, unknown parts kept as written.

    `dynamic` when part of it is only known at run time, `live` when a glob or brace is live,
    `quoted` when any piece was quoted.
    """

    text: str = ""
    dynamic: bool = False
    live: bool = False
    quoted: bool = False


@dataclass(slots=True)
class Redirect:
    """One redirect: its operator, its target, and the body of a here-document."""

    operator: str
    target: Loose
    body: str = ""


@dataclass(slots=True)
class Segment:
    """Words and redirects between two operators; `before` and `after` are those operators."""

    words: list[Loose] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    before: str = ""
    after: str = ""


@dataclass(slots=True)
class Lexed:
    """The segments, the code inside substitutions, and whether the text was not understood."""

    segments: list[Segment] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    broken: bool = False


_LONGEST: Final = 400  # characters of one arithmetic text; a longer one is read as commands
_DEEPEST: Final = 12  # nested parameters read one inside the other; deeper text is broken


def lex(text: str) -> Lexed:
    """The segments of `text`; every text is read, a broken one with `broken` set."""
    return _Lexer(text, 0).run()


def lex_body(text: str, depth: int = 0) -> list[str]:
    """The code that an unquoted here-document or arithmetic text runs when it is expanded."""
    if depth > _DEEPEST:
        return [text]
    lexer = _Lexer(text, depth)
    while lexer.place < len(text):
        if text[lexer.place] == "\\":
            lexer.place += 2
        elif text[lexer.place] in "$`":
            lexer.expansion(Loose(), quoted=True)
        else:
            lexer.place += 1
    return lexer.out.inner


class _Lexer:
    def __init__(self, text: str, depth: int) -> None:
        self.text, self.place, self.depth = text, 0, depth
        self.out = Lexed()
        self.segment = Segment()
        self.waiting: list[Redirect] = []

    def run(self) -> Lexed:
        text, size = self.text, len(self.text)
        while self.place < size:
            char = text[self.place]
            if char in " \t":
                self.place += 1
            elif text.startswith("\\\n", self.place):
                self.place += 2
            elif char == "#":
                end = text.find("\n", self.place)
                self.place = size if end < 0 else end
            elif not self._redirect() and not self._operator():
                self.segment.words.append(self._word())
        self._close("")
        self.out.broken = self.out.broken or bool(self.waiting)
        return self.out

    def _operator(self) -> bool:
        if self.text.startswith("((", self.place) and not self.segment.words:
            end = arithmetic_end(self.text, self.place + 2)
            if end:
                self.out.inner += lex_body(self.text[self.place + 2 : end - 2], self.depth + 1)
                self.place = end
                return True
        match = _OPERATOR.match(self.text, self.place)
        if not match:
            return False
        self.place = match.end()
        self._close(match[0])
        if match[0] == "\n":
            self._bodies()
        return True

    def _close(self, operator: str) -> None:
        self.segment.after = operator
        if self.segment.words or self.segment.redirects:
            self.out.segments.append(self.segment)
        self.segment = Segment(before=operator)

    def _redirect(self) -> bool:
        match = _REDIRECT.match(self.text, self.place)
        if not match:
            return False
        words = self.segment.words
        number = words and words[-1].text.isdigit() and self.text[self.place - 1].isdigit()
        if number and not words[-1].quoted:
            words.pop()
        self.place = match.end()
        while self.place < len(self.text) and self.text[self.place] in " \t":
            self.place += 1
        redirect = Redirect(match[0], self._word())
        self.segment.redirects.append(redirect)
        if match[0] in ("<<", "<<-"):
            self.waiting.append(redirect)
        return True

    def _bodies(self) -> None:
        for redirect in self.waiting:
            lines: list[str] = []
            while self.place < len(self.text):
                end = self.text.find("\n", self.place)
                end = len(self.text) if end < 0 else end
                line = self.text[self.place : end]
                self.place = end + 1
                bare = line.lstrip("\t") if redirect.operator == "<<-" else line
                if bare == redirect.target.text:
                    break
                lines.append(line)
            redirect.body = "\n".join(lines)
            if not redirect.target.quoted:
                self.out.inner += lex_body(redirect.body, self.depth + 1)
        self.waiting = []

    def _word(self) -> Loose:
        word, text, size = Loose(), self.text, len(self.text)
        start = self.place
        while self.place < size:
            match = _PLAIN.match(text, self.place)
            if match:
                word.text += match[0]
                word.live = word.live or "[" in match[0]
                self.place = match.end()
                continue
            char = text[self.place]
            if char in "<>" and text.startswith("(", self.place + 1):
                self._process(word)
            elif char in _DELIMITERS:
                break
            else:
                self._piece(word, char)
        if self.place == start and self.place < size and text[start] not in "\n;|&":
            word.text += text[start]  # an operator where a word must stand: read on past it
            self.place += 1
            self.out.broken = True
        return word

    def _piece(self, word: Loose, char: str) -> None:
        if char == "'":
            word.quoted = True
            end = self.text.find("'", self.place + 1)
            self._until(word, end)
        elif char == '"':
            self._double(word)
        elif char == "\\":
            follower = self.text[self.place + 1 : self.place + 2]
            word.text += "" if follower == "\n" else follower or "\\"
            word.quoted = word.quoted or follower != "\n"
            self.place += 2
        elif char in "$`":
            self.expansion(word, quoted=False)
        else:
            word.live = word.live or char in "*?{"
            word.text += char
            self.place += 1

    def _until(self, word: Loose, end: int) -> None:
        if end < 0:
            self.out.broken = True
            end = len(self.text)
        word.text += self.text[self.place + 1 : end]
        self.place = end + 1

    def _double(self, word: Loose) -> None:
        word.quoted = True
        self.place += 1
        text, size = self.text, len(self.text)
        while self.place < size and text[self.place] != '"':
            char = text[self.place]
            if char == "\\" and text[self.place + 1 : self.place + 2] in tuple('$`"\\\n'):
                word.text += text[self.place + 1].strip("\n")
                self.place += 2
            elif char in "$`":
                self.expansion(word, quoted=True)
            else:
                word.text += char
                self.place += 1
        self.out.broken = self.out.broken or self.place >= size
        self.place += 1

    def _process(self, word: Loose) -> None:
        code, end, sure = substitution(self.text, self.place + 2)
        self.out.inner.append(code)
        self.out.broken = self.out.broken or not sure
        word.text += self.text[self.place : end]
        word.dynamic = True
        self.place = end

    def expansion(self, word: Loose, quoted: bool) -> None:
        """Reads one `$…` or backtick piece into `word`, keeping the code it holds."""
        text, start = self.text, self.place
        follower = text[start + 1 : start + 2]
        if follower in ("'", '"') and text[start] == "$" and not quoted:
            self._dollar_quote(word, follower)
            return
        if text[start] == "$" and not re.match(r"[A-Za-z0-9_@*#?$!({\[-]", follower):
            word.text += "$"
            self.place += 1
            return
        codes, end, sure = self._held(start, follower, quoted)
        self.out.inner += codes
        self.out.broken = self.out.broken or not sure
        word.text += text[start:end]
        word.dynamic = True
        self.place = end

    def _held(self, start: int, follower: str, quoted: bool) -> tuple[list[str], int, bool]:
        """The code inside the expansion at `start`, its end, and whether the end is sure."""
        text = self.text
        if text[start] == "`":
            match = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(text, start)
            if not match:
                return [text[start + 1 :]], len(text), False
            escaped = r"\\([$`\\\"])" if quoted else r"\\([$`\\])"
            return [re.sub(escaped, r"\1", match[1])], match.end(), True
        if text.startswith("((", start + 1):
            end = arithmetic_end(text, start + 3)
            if end:
                return lex_body(text[start + 3 : end - 2], self.depth + 1), end, True
        if follower == "(":
            code, end, sure = substitution(text, start + 2)
            return [code], end, sure
        if follower in ("{", "["):
            end, sure = parameter(text, start + 2, "}" if follower == "{" else "]")
            return lex_body(text[start + 2 : end - 1], self.depth + 1), end, sure
        name = re.compile(r"\$(?:[A-Za-z_]\w*|.)", re.DOTALL).match(text, start)
        return [], name.end() if name else start + 1, True

    def _dollar_quote(self, word: Loose, mark: str) -> None:
        self.place += 1
        if mark == '"':
            self._double(word)
            return
        word.quoted = True
        match = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.text, self.place)
        if not match:
            self._until(word, -1)
            return
        word.text += decode_ansi(match[1])
        self.place = match.end()


def arithmetic_end(text: str, start: int) -> int:
    """The place after `))` when the text from `start` is balanced arithmetic, else 0."""
    if text.find("))", start, start + _LONGEST) < 0:
        return 0
    depth = 0
    for place in range(start, min(len(text), start + _LONGEST)):
        char = text[place]
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                return place + 2 if text.startswith("))", place) else 0
        elif char in "'\"\n;\\":
            return 0
    return 0
