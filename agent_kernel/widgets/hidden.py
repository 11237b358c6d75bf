"""Hidden characters: names for what a terminal or a screen would not show, as boxed spans.

May not reorder anything: the spans joined are the text with names in place of characters.
"""

from __future__ import annotations

import re
import unicodedata

from agent_kernel.widgets.turnview import Line, Span

_C0 = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN "
    "EM SUB ESC FS GS RS US"
).split()
_NAMED = {
    0x00AD: "soft hyphen", 0x061C: "arabic mark", 0x180E: "vowel separator", 0x200B: "zero width",
    0x200C: "zero width non-joiner", 0x200D: "zero width joiner", 0x200E: "left mark",
    0x200F: "right mark", 0x2028: "line separator", 0x2029: "paragraph separator",
    0x202A: "left embedding", 0x202B: "right embedding", 0x202C: "end", 0x202D: "left-to-right",
    0x202E: "right-to-left", 0x2060: "word joiner", 0x2066: "left isolate",
    0x2067: "right isolate",
    0x2068: "first strong isolate", 0x2069: "end isolate", 0xFEFF: "zero width",
    0x00A0: "no-break space",
    0x3164: "filler", 0x115F: "filler", 0x1160: "filler", 0xFFA0: "filler",
}  # fmt: skip
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff\U0001d173-\U0001d17a]"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_REORDER = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_BLANKS = re.compile("[ \t\n]+|\r\n")
_ESCAPES = re.compile(
    "\x1b\\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    "|\x1b[\\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\\\)?"  # OSC, DCS, …
    "|\x1b[ -/]?[0-~]"
)


def name_of(char: str) -> str:
    """Return the name a hidden character is boxed with: `ESC`, `U+202E right-to-left`."""
    code = ord(char)
    if code < 0x20:
        return _C0[code]
    if code == 0x7F:
        return "DEL"
    if 0xE0020 <= code <= 0xE007E:
        return f"U+{code:04X} tag {chr(code - 0xE0000)}"
    named = _NAMED.get(code) or unicodedata.name(char, "").lower()
    return f"U+{code:04X} {named}".rstrip()


def spans(text: str) -> Line:
    """Return `text` as spans, every hidden character a boxed name; tabs and newlines stay text."""
    out: list[Span] = []
    at = 0
    for found in _HIDDEN.finditer(text):
        if found.start() > at:
            out.append(["t", text[at : found.start()]])
        out.append(["x", name_of(found.group())])
        at = found.end()
    if at < len(text):
        out.append(["t", text[at:]])
    return out


def shown(text: str) -> str:
    """Return `text` with every hidden character as `⟨NAME⟩`; tabs and newlines stay."""
    return _HIDDEN.sub(lambda found: f"⟨{name_of(found.group())}⟩", text)


def prose(text: str) -> str:
    """Return a model's words: escape sequences and controls dropped, reordering marks named.

    Joiners, direction marks and variation selectors stay: scripts and emoji need them.
    """
    text = _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return _REORDER.sub(lambda found: f"⟨{name_of(found.group())}⟩", text)


def one_line(text: str) -> str:
    """Return `text` on one line: blanks joined, hidden characters named, ends trimmed."""
    return shown(_BLANKS.sub(" ", text).strip(" "))


def output(text: str) -> str:
    """Return a program's output as text: escape sequences dropped, overwritten lines collapsed."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return shown("\n".join(lines))


def names_in(text: str) -> list[str]:
    """Return the names of the hidden characters of `text`, in order, repeats kept."""
    return [name_of(found.group()) for found in _HIDDEN.finditer(text)]
