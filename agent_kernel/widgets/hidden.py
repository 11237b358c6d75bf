"""Hidden characters: what a screen would not show, as boxed names; which ones, the guard decides.

May not reorder anything: the spans joined are the text with names in place of characters.
"""

from __future__ import annotations

import re
import unicodedata

from agent_kernel.guard import render
from agent_kernel.widgets.turnview import Line

_C0 = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN "
    "EM SUB ESC FS GS RS US"
).split()
_SHORT = {
    0x200B: "zero width", 0xFEFF: "zero width", 0x202C: "end", 0x202D: "left-to-right",
    0x202E: "right-to-left", 0x2066: "left isolate", 0x2067: "right isolate", 0x2069: "end isolate",
}  # fmt: skip
_BLANKS = re.compile("[ \t\n]+|\r\n")
_ORDINARY = re.compile("[ -~\n\t·…−]*")
_STYLE = re.compile("\x1b\\[[0-9;]*m")


def name_of(char: str) -> str:
    """Return the name a hidden character is boxed with: `ESC`, `U+202E right-to-left`."""
    code = ord(char)
    if code < 0x20:
        return _C0[code]
    if code == 0x7F:
        return "DEL"
    if 0xE0020 <= code <= 0xE007E:
        return f"U+{code:04X} tag {chr(code - 0xE0000)}"
    named = _SHORT.get(code) or unicodedata.name(char, "").lower()
    return f"U+{code:04X} {named}".rstrip()


def spans(text: str) -> Line:
    """Return `text` as spans, every hidden character a boxed name; tabs and newlines stay text."""
    if not render.hidden(text):
        return [["t", text]] if text else []
    out: Line = []
    for char in text:
        kind = "x" if render.hidden(char) else "t"
        if kind == "t" and out and out[-1][0] == "t":
            out[-1][1] += char
        else:
            out.append([kind, name_of(char) if kind == "x" else char])
    return out


def shown(text: str) -> str:
    """Return `text` with every hidden character as `⟨NAME⟩`; tabs and newlines stay."""
    if not render.hidden(text):
        return text
    return "".join(f"⟨{piece}⟩" if kind == "x" else piece for kind, piece in spans(text))


def output(text: str) -> str:
    """Return a program's or a model's text as it may be shown: no escape sequence, lines collapsed.

    Joiners, direction marks and selectors stay: scripts and emoji need them.
    """
    if _ORDINARY.fullmatch(text):
        return text
    made = render.plain(text)
    return _STYLE.sub("", made) if "\x1b" in made else made


def one_line(text: str) -> str:
    """Return `text` on one line: blanks joined, hidden characters named, ends trimmed."""
    return shown(_BLANKS.sub(" ", text).strip(" "))


def names_in(text: str) -> list[str]:
    """Return the names of the hidden characters of `text`, in order, repeats kept."""
    return [name for kind, name in spans(text) if kind == "x"]
