"""Shell nesting: where a substitution or a parameter ends in a text that may hold anything.

It finds ends and decodes quotes; what the code inside does is the finder's business.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b",
    "E": "\x1b", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def substitution(text: str, start: int) -> tuple[str, int, bool]:
    """The code from `start` to its closing `)`, the place after that, and whether it is sure.

    Not sure: no closing parenthesis, or the code holds a form (case, comment, here-document) in
    which a parenthesis may stand alone.
    """
    place, depth, sure = start, 0, True
    size = len(text)
    while place < size:
        char = text[place]
        if char == "\\":
            place += 2
            continue
        if char in "'\"`":
            place = quoted_end(text, place)
            continue
        if char == "$" and text.startswith("{", place + 1):
            place, _ = parameter(text, place + 2, "}")
            continue
        if char == "(":
            depth += 1
        elif char == ")":
            if depth == 0:
                return text[start:place], place + 1, sure
            depth -= 1
        elif _is_odd(text, place, char):
            sure = False
        place += 1
    return text[start:], size, False


def parameter(text: str, start: int, closing: str) -> tuple[int, bool]:
    """The place after the `closing` that ends a `${…}` or `$[…]` begun before `start`."""
    place, depth = start, 0
    opening = "{" if closing == "}" else "["
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char in "'\"`":
            place = quoted_end(text, place) - 1
        elif char == "$" and text.startswith("(", place + 1):
            place = substitution(text, place + 2)[1] - 1
        elif char == opening:
            depth += 1
        elif char == closing:
            if depth == 0:
                return place + 1, True
            depth -= 1
        place += 1
    return len(text), False


def quoted_end(text: str, start: int) -> int:
    """The place after the quote or backtick that closes the one at `start`."""
    mark = text[start]
    if mark == "'":
        end = text.find("'", start + 1)
        return len(text) if end < 0 else end + 1
    place = start + 1
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text[place] == mark:
            return place + 1
        elif mark == '"' and text.startswith("$(", place):
            place = substitution(text, place + 2)[1] - 1
        place += 1
    return len(text)


def decode_ansi(body: str) -> str:
    r"""The text of a `$'…'` body: `\x74` and its like decoded as bash does."""

    def piece(match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        if digits:
            number = int(digits, 16)
            return chr(number) if number < 0x110000 else ""
        if match[4]:
            return chr(int(match[4], 8) & 0xFF)
        if match[5]:
            return chr(ord(match[5]) & 0x1F)
        return _ESCAPES.get(match[6], "\\" + match[6])

    return _ANSI.sub(piece, body)


def _is_odd(text: str, place: int, char: str) -> bool:
    """Whether a comment, a here-document or a case, where a `)` may stand alone, starts here."""
    before = text[place - 1] if place else " "
    if char == "#":
        return before in " \t\n;(&|"
    if char == "<":
        return text.startswith("<<", place)
    if char not in "ce" or before.isalnum() or before == "_":
        return False
    match = _WORD.match(text, place)
    return match is not None and match[0] in ("case", "esac")
