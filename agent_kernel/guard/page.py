"""Pages: HTML of a stranger as plain Markdown text, in linear time, within a depth and size.

It runs nothing, loads nothing and never raises on what a server may send.
"""

import re
from collections.abc import Iterator
from html import unescape

DEPTH = 200
NODES = 200_000
# The stdlib's html.parser takes quadratic time on some broken pages, so a page gets a small
# tokenizer of its own: each step either moves on or learns that no such mark follows any more.
_RAW = ("script", "style", "template", "noscript", "iframe", "object", "svg", "math", "textarea")
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_BLOCKS = frozenset(
    "address article aside blockquote body dd details div dl dt fieldset figure footer form h1 h2 "
    "h3 h4 h5 h6 header hr html li main nav ol p pre section summary table tbody thead title tr "
    "ul".split()
)
# Elements whose end a new one implies, so that a page that never closes them is not deep.
_IMPLIED = {
    "li": {"li", "p"},
    "dt": {"dt", "dd", "p"},
    "dd": {"dt", "dd", "p"},
    "td": {"td", "th", "p"},
    "th": {"td", "th", "p"},
    "tr": {"td", "th", "tr", "p"},
    "tbody": {"td", "th", "tr", "thead", "tbody"},
    "option": {"option"},
}
_NAME = re.compile(r"/?[A-Za-z][A-Za-z0-9:-]{0,40}")
_HREF = re.compile(
    r"(?i)\shref\s{0,8}=\s{0,8}(?:\"([^\"]{0,2048})\"|'([^']{0,2048})'|([^\s>]{1,2048}))"
)
Token = tuple[str, str, str]


class _Scanner:
    """The tokens of a page: ("text", words, ""), ("tag", name, attributes) or ("end", name, "")."""

    def __init__(self, markup: str) -> None:
        self.markup = markup
        self.at = 0
        self._absent: set[str] = set()

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens in order; comments and elements that are no text are left out."""
        while self.at < len(self.markup):
            start = self._find("<", self.at)
            if start != self.at:
                stop = len(self.markup) if start < 0 else start
                yield "text", self.markup[self.at : stop], ""
                self.at = stop
            elif self.markup.startswith("<!--", start):
                self._skip_past("-->")
            elif self.markup.startswith(("<!", "<?"), start):
                self._skip_past(">")
            else:
                yield self._tag(start)

    def _find(self, mark: str, at: int) -> int:
        """Like str.find, but a mark that was missing once is not looked for again."""
        if mark in self._absent:
            return -1
        found = self.markup.find(mark, at)
        if found < 0:
            self._absent.add(mark)
        return found

    def _skip_past(self, mark: str) -> None:
        found = self._find(mark, self.at)
        self.at = len(self.markup) if found < 0 else found + len(mark)

    def _tag(self, start: int) -> Token:
        name = _NAME.match(self.markup, start + 1)
        if name is None:
            self.at = start + 1
            return "text", "<", ""
        end = self._tag_end(name.end())
        self.at = end + 1
        attributes = self.markup[name.end() : end]
        tag = name[0].lower()
        if tag.startswith("/"):
            return "end", tag[1:], ""
        if tag in _RAW and not attributes.endswith("/"):
            self._skip_past_end(tag)
        return "tag", tag, attributes

    def _tag_end(self, at: int) -> int:
        """Return where the tag's `>` is: outside quotes, if the quotes are closed."""
        mark = re.compile("[\"'>]")
        while found := mark.search(self.markup, at):
            if found[0] == ">":
                return found.start()
            close = self._find(found[0], found.end())
            if close < 0:
                plain = self._find(">", found.end())
                return plain if plain >= 0 else len(self.markup)
            at = close + 1
        return len(self.markup)

    def _skip_past_end(self, tag: str) -> None:
        close = re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE)
        found = None if f"</{tag}" in self._absent else close.search(self.markup, self.at)
        if found is None:
            self._absent.add(f"</{tag}")
            self.at = len(self.markup)
        else:
            self.at = found.start()


class _Writer:
    """The text of a page as it grows."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.verbatim = 0

    def tag(self, name: str, attributes: str) -> None:
        """Take an opening tag."""
        implied = _IMPLIED.get(name, {"p"} if name in _BLOCKS else set())
        while self.open and self.open[-1] in implied:
            self.end(self.open[-1])
        if name in _BLOCKS:
            self.pieces.append("\n- " if name == "li" else "\n\n")
        if name == "br":
            self.pieces.append("\n")
        if name in _VOID:
            return
        self.open.append(name)
        if re.fullmatch("h[1-6]", name):
            self.pieces.append("#" * int(name[1]) + " ")
        elif name == "title":
            self.pieces.append("# ")
        elif name == "pre":
            self.verbatim += 1
            self.pieces.append("```\n")
        elif name in ("td", "th"):
            self.pieces.append(" | ")
        elif name == "a":
            found = _HREF.search(attributes[:8192])
            self.links.append(unescape(next(filter(None, found.groups()), "")) if found else "")

    def end(self, name: str) -> None:
        """Take a closing tag; it closes what is open inside it too."""
        if name not in self.open:
            return
        while self.open:
            closed = self.open.pop()
            if closed == "a":
                link = self.links.pop()
                self.pieces.append(f" ({link})" if re.match("https?://", link) else "")
            elif closed == "pre":
                self.verbatim -= 1
                self.pieces.append("\n```\n")
            elif closed in _BLOCKS:
                self.pieces.append("\n")
            if closed == name:
                return

    def text(self, words: str) -> None:
        """Take text between tags."""
        self.pieces.append(unescape(words if self.verbatim else re.sub(r"\s+", " ", words)))


def text_of(markup: str) -> tuple[str, bool]:
    """Return the text of an HTML page with headings, lists and links, and whether it was cut."""
    writer = _Writer()
    cut = False
    for count, (kind, name, attributes) in enumerate(_Scanner(markup).tokens()):
        if count >= NODES or len(writer.open) > DEPTH:
            cut = True
            break
        if kind == "text":
            writer.text(name)
        elif kind == "tag":
            writer.tag(name, attributes)
        else:
            writer.end(name)
    return "\n".join(_tidy("".join(writer.pieces).split("\n"))).strip(), cut


def _tidy(lines: list[str]) -> Iterator[str]:
    """Yield the lines without the blanks that markup leaves; what was verbatim keeps its own."""
    verbatim = blank = False
    for line in lines:
        verbatim ^= line == "```"
        kept = line.rstrip() if verbatim or line[:2] == "  " else line.strip()
        if kept or not blank:
            yield kept
        blank = not kept
