"""Rendering: text of models, tools and files made safe to show as HTML, plain text and names.

It adds no markup of its own: callers put the result into their templates. Markdown: markdown.py.
"""

import html as _html
import re
import unicodedata

from agent_kernel.guard.markdown import markdown

__all__ = ["clip", "hidden", "html", "markdown", "plain", "visible"]

CELL_CHARACTERS = 200_000  # of one text in a cell, far below the megabyte a cell may hold
_BROKEN = re.compile("[\x00\ud800-\udfff]")


def html(text: str) -> str:
    """Return `text` for an HTML template: between tags, and in an attribute that is quoted."""
    return _html.escape(_BROKEN.sub("\ufffd", text), quote=True)


# ---------------------------------------------------------------- plain text with colours
_SEQUENCE = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]{0,4096}(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)(?P<parameters>[0-?]{0,64})[ -/]{0,8}(?P<final>[@-~])"  # CSI
    r"|\x1b[ -/]{0,8}[0-~]?"  # any other escape; also one of the above that never ends
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_KEPT_STYLES = frozenset({0, 1, 3, 4, 22, 23, 24, *range(30, 50), *range(90, 108)})


def plain(text: str) -> str:
    """Return `text` for text/plain: colours, bold, italic and underline stay, all else is shown.

    Concealed text is revealed, titles, links and clipboard writes are dropped, a lone carriage
    return keeps what would stand on the line in the end, and other controls get a symbol.
    """
    text = _BROKEN.sub(lambda found: "\ufffd" if found[0] else "", text)
    if "\x1b" in text or re.search("[\x80-\x9f]", text):
        text = re.sub("[\x80-\x9f]", "", _SEQUENCE.sub(_style, text))
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(map(_collapse, text.split("\n")))
    text = _CONTROLS.sub(lambda found: chr(0x2400 + min(ord(found[0]), 0x21)), text)
    return _INVISIBLE.sub(_spelled, text)


def _style(found: re.Match[str]) -> str:
    """Return the sequence if it only sets a style we keep, the rest of it if it does more."""
    if found["final"] != "m" or not re.fullmatch(r"[0-9;]*", found["parameters"]):
        return ""
    numbers = [int(part or 0) for part in found["parameters"].split(";")]
    kept: list[int] = []
    while numbers:
        number = numbers.pop(0)
        if number in (38, 48):
            size = {5: 2, 2: 4}.get(numbers[0] if numbers else 0, 0)
            if size and len(numbers) >= size and max(numbers[:size]) <= 255:
                kept += [number, *numbers[:size]]
            del numbers[: size or len(numbers)]
        elif number in _KEPT_STYLES:
            kept.append(number)
    return f"\x1b[{';'.join(map(str, kept))}m" if kept else ""


def _collapse(line: str) -> str:
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""


# ---------------------------------------------------------------- nothing hidden
# Default-ignorable and blank-looking characters that are letters or marks by category
# (Unicode 15, DerivedCoreProperties.txt), beside all of Cc, Cf, Cs, Co, Cn, Zl, Zp and odd blanks.
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
# In plain text what an emoji or a script needs stays: joiners, marks of direction, selectors.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u2028\u2029"
    f"\U000e0000-\U000e007f]|[{_SELECTORS}]{{2,}}"
)
_BLANKS = re.compile(f"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0{_SELECTORS}]")
_ORDINARY = re.compile(r"[ -~\n\t]*")


def _spelled(found: re.Match[str]) -> str:
    return "".join(f"\\u{{{ord(character):x}}}" for character in found[0])


def _is_hidden(character: str) -> bool:
    category = unicodedata.category(character)
    if category[0] == "C" or category in ("Zl", "Zp"):
        return True
    return category == "Zs" or _BLANKS.match(character) is not None


def visible(text: str, *, one_line: bool = False) -> str:
    r"""Return `text` with every character one cannot see written as `\u{…}`; nothing is left out.

    Controls, marks of direction, zero-width and tag characters, odd blanks. Newline and tab stay,
    unless `one_line`, which is for names and paths.
    """
    if not one_line and _ORDINARY.fullmatch(text):
        return text
    plain_ones = " " if one_line else " \n\t"
    return "".join(
        character
        if character in plain_ones or not _is_hidden(character)
        else f"\\u{{{ord(character):x}}}"
        for character in text
    )


def hidden(text: str) -> int:
    """Return how many characters of `text` one cannot see; newline, tab and space do not count."""
    if _ORDINARY.fullmatch(text):
        return 0
    return sum(_is_hidden(character) for character in text if character not in " \n\t")


def clip(text: str, limit: int = CELL_CHARACTERS) -> tuple[str, int]:
    """Return at most `limit` characters of head and tail with a line between, and how many left.

    Four fifths are head, so a million lines keep their beginning and their end.
    """
    if len(text) <= limit:
        return text, 0
    head, tail = limit * 4 // 5, limit // 5
    gap = len(text) - head - tail
    return f"{text[:head]}\n[{gap:,} characters left out]\n{text[len(text) - tail :]}", gap
