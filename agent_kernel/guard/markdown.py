"""Markdown: a model's Markdown rewritten so that every renderer reads it the same, harmless way.

It emits no HTML, loads nothing, and keeps no construct whose meaning depends on another line.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from html import unescape
from urllib.parse import urlsplit

# One line at a time: whatever is left raw (a code span, a link, a fence) is complete on its line or
# written anew by us, so renderers that differ on nesting cannot find markup we did not see.
_BREAK = re.compile("\r\n?|[\u2028\u2029]")
_SPACE = re.compile("[\x0b\x0c\x85]")
_BROKEN = re.compile("[\x00\ud800-\udfff]")
_TABLE = re.compile(r"[\s>*+|:-]*-[\s>*+|:-]*")
_FENCE = re.compile(
    r"(?P<lead>\s*+(?:(?:[-*+]|\d{1,9}[.)])\s++)*+)(?P<fence>`{3,}|~{3,})(?P<info>.*)"
)
DEPTH = 8  # block quotes inside each other; deeper ones are text
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_QUOTE = re.compile(r" {0,3}>")
_DEFINITION = re.compile(
    r" {0,3}\[(?P<label>[^\[\]`<>\\$!\n]{1,200})\]:\s*<?(?P<to>[^\s<>]{1,2000})>?\s*(?:[\"'(].*)?"
)
_TASK = re.compile(r"\s*(?:>\s?)*(?:[-*+]|\d{1,9}[.)])\s+\[[ xX]\](?=\s)")
_TEXT = r"(?:[^\[\]\\\n]|\\.|!?\[[^\[\]\n]{0,300}\](?:\([^()\n]{0,2000}\))?){0,1000}+"
_LINK = re.compile(
    rf"(?P<image>!?)\[(?P<text>{_TEXT})\](?:\(\s*(?P<to><[^<>\n]{{0,2000}}>|[^\s()<>]{{0,2000}}+"
    r"(?:\([^\s()<>]{0,500}+\)[^\s()<>]{0,500}+){0,8})(?:\s+[^()\n]{0,500})?\)"
    r"|\[(?P<label>[^\[\]\n]{0,200})\])?"
)
_TOKEN = re.compile(
    r"`+|\\+|!?\[|\]|[<>$\x01-\x08\x0e-\x1f\x7f]|~+|(?<=(?i:script)):|&(?=[#A-Za-z])"
)
_BARE_URL = re.compile(r"(?i)://|www\.|@")
_TEX = "href|url|html[A-Za-z]*|require|class|cssId|style|data|unicode|includegraphics|input"
_UNSAFE_TEX = re.compile(
    rf"(?<!\\)\\++\s{{0,8}}+(?=(?:(?:{_TEX})(?![A-Za-z])|begin|end|def|let|newcommand))"
)
_MATH = re.compile(r"\$\$[^$\n]{1,2000}\$\$|\$[^$\s](?:[^$\n]{0,2000}[^$\s])?\$")
_ESCAPED = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    ":": "&#58;",
    "]": r"\]",
    "[": r"\[",
    "![": r"!\[",
}


def markdown(text: str, *, math: bool = False) -> str:
    """Return Markdown of the same look without HTML, pictures, unsafe links or (unless `math`) TeX.

    Links are kept to http, https and `#…`; pictures become their text; a fence is longer than any
    run inside. Time is linear in the length of `text`.
    """
    text = _BREAK.sub("\n", _BROKEN.sub("\ufffd", text))
    lines = _SPACE.sub(" ", text).split("\n")
    inline = _Inline(
        labels={_folded(match["label"]) for match in map(_definition, lines) if match},
        math=math,
        dollars=text.count("$") > 1,
        table=any("|" in line and _TABLE.fullmatch(line) for line in lines),
    )
    out: list[str] = []
    for line in _blocks(lines, inline):
        if line or (out and out[-1]):
            out.append(line)
    return "\n".join(out)


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()


def _definition(line: str) -> re.Match[str] | None:
    match = _DEFINITION.fullmatch(line)
    return match if match and safe_link(match["to"]) else None


def safe_link(target: str) -> str | None:
    """Return `target` in a form that cannot leave its place, None unless http, https or `#…`."""
    target = unescape(target).strip("<>")
    if any(ord(character) < 33 or character == "\\" for character in target):
        return None
    try:
        parts = urlsplit(target)
    except ValueError:
        return None
    if not (target.startswith("#") or (parts.scheme in ("http", "https") and parts.netloc)):
        return None
    return re.sub(r"[<>\"'()`$\[\]{}|*_\x7f-\x9f]", _percent, target)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


# ---------------------------------------------------------------- blocks
def _blocks(lines: list[str], inline: "_Inline", depth: int = 0) -> Iterator[str]:
    at = 0
    in_list = False
    while at < len(lines):
        line = lines[at]
        if not line:
            yield ""
            at += 1
            continue
        indented = line[:4].isspace() and bool(line.strip())
        if line.strip() and not line[0].isspace():
            in_list = _ITEM.match(line) is not None
        fence = _FENCE.fullmatch(line)
        if fence and not (fence["fence"][0] == "`" and "`" in fence["info"]):
            end = _fence_end(lines, at, fence["fence"])
            yield from _code(fence["lead"], fence["info"], lines[at + 1 : end])
            at = end + 1
        elif indented and not in_list and not (at and lines[at - 1].strip()):
            end = _run_end(lines, at, lambda other: other[:4].isspace() and bool(other.strip()))
            yield from _code("", "", [text.expandtabs(4)[4:] for text in lines[at:end]])
            at = end
        elif depth < DEPTH and _QUOTE.match(line):
            end = _run_end(lines, at, lambda other: _QUOTE.match(other) is not None)
            inner = [re.sub(r"^ {0,3}> ?", "", quoted) for quoted in lines[at:end]]
            yield from ("> " + quoted for quoted in _blocks(inner, inline, depth + 1))
            at = end
        else:
            yield inline.line(line)
            at += 1


def _run_end(lines: list[str], at: int, belongs: Callable[[str], bool]) -> int:
    while at < len(lines) and belongs(lines[at]):
        at += 1
    return at


def _fence_end(lines: list[str], at: int, fence: str) -> int:
    for end in range(at + 1, len(lines)):
        bare = lines[end].strip()
        if len(bare) >= len(fence) and not bare.strip(fence[0]):
            return end
    return len(lines)


def _code(lead: str, info: str, body: list[str]) -> Iterator[str]:
    """Yield a code block that no renderer can read otherwise.

    A blank line before it ends a paragraph, every line is indented as far as the fence (so it stays
    in the same list item), and the fence is longer than any run inside.
    """
    wide = lead.expandtabs(4)
    items = "".join(f"{mark} " for mark in wide.split())
    pad = " " * (len(wide) - len(wide.lstrip()) + len(items))
    marks = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", "\n".join(body)))])
    name = re.match(r"\s*([\w+.#-]{0,40})", info)
    yield ""
    yield f"{pad[len(items) :]}{items}{marks}{name[1] if name else ''}"
    for line in body:
        bare = line.expandtabs(4) if line[:1] == "\t" and pad else line
        yield pad + bare[min(len(pad), len(bare) - len(bare.lstrip(" "))) :]
    yield f"{pad}{marks}"
    yield ""


# ---------------------------------------------------------------- one line
class _Inline:
    """The rewriting of one line of text, with the labels of links that are defined elsewhere."""

    def __init__(self, labels: set[str], *, math: bool, dollars: bool, table: bool) -> None:
        self.labels = labels
        self.math = math
        self.table = table
        # A single dollar opens nothing. MathJax looks for pairs in the finished page, where `\$` is
        # bare again; there a backslash must still stand before it.
        self.dollar = r"\\\$" if dollars else r"\$"

    def line(self, line: str) -> str:
        """Return one line of text."""
        definition = _definition(line)
        if definition:
            return f"[{definition['label']}]: {safe_link(definition['to'])}"
        task = _TASK.match(line)
        start = task.end() if task else 0
        return line[:start] + self.text(line[start:])

    def text(self, text: str) -> str:
        """Return a piece of a line: all but emphasis, code spans and safe links is inert."""
        text = _UNSAFE_TEX.sub("", text)
        if self.math and "$" in text:
            pieces, at = [], 0
            for found in _MATH.finditer(text):
                before = self._inert(text[at : found.start()])
                pieces += [before, " " if _in_url(before, False) else "", _tex(found[0])]
                at = found.end()
            return "".join([*pieces, self._inert(text[at:])])
        return self._inert(text)

    def _inert(self, text: str) -> str:
        runs: dict[int, list[int]] = {}
        for run in re.finditer("`+", text):
            runs.setdefault(len(run[0]), []).append(run.start())
        out: list[str] = []
        at, in_url = 0, False
        while token := _TOKEN.search(text, at):
            before = text[at : token.start()]
            shown, at = self._token(text, token, runs)
            in_url = _in_url(before, in_url) if before else in_url
            out += [before, self._gap(out, before, shown, in_url), shown]
            if shown[:1] in (" ", "[", "`"):  # the others are one mark, and no blank
                in_url = _in_url(shown, in_url)
        return "".join([*out, text[at:]])

    def _gap(self, out: list[str], before: str, shown: str, in_url: bool) -> str:
        """Return a blank where a span or link would be swallowed by what stands before it.

        That is a bare URL, which renderers link, or a mark that some read together with it.
        """
        last = (before or (out[-1] if out else ""))[-1:]
        return " " if shown[:1] in ("`", "[") and (in_url or last in ("~", "`", "\\")) else ""

    def _token(
        self, text: str, token: re.Match[str], runs: dict[int, list[int]]
    ) -> tuple[str, int]:
        """Return what stands for `token` and where to go on."""
        mark, end = token[0], token.end()
        if mark[0] == "`":
            return self._code_span(text, token, runs)
        if mark[0] == "\\":
            return _backslashes(text, len(mark), end)
        if mark in ("[", "!["):
            return self._link(text, token.start(), mark)
        if mark == "$":
            return self.dollar, end
        if mark[0] == "~":  # two strike out; one or three are read in more ways than one
            return (mark if len(mark) == 2 else r"\~" * len(mark)), end
        return _ESCAPED.get(mark, "\ufffd"), end

    def _code_span(
        self, text: str, token: re.Match[str], runs: dict[int, list[int]]
    ) -> tuple[str, int]:
        size = len(token[0])
        places = runs.get(size, [])
        index = bisect_left(places, token.end())
        if index == len(places):
            return "&#96;" * size, token.end()
        body, end = text[token.end() : places[index]], places[index] + size
        if "`" in body or "~~" in body:  # paired by no rule that all renderers share
            return "&#96;".join(self._inert(part) for part in f"`{body}`".split("`")), end
        if self.table:  # its rows are split at bars, inside a code span too
            body = re.sub(r"\\*+\|", r"\\|", body)
        return f"`{body}`", end

    def _link(self, text: str, start: int, mark: str) -> tuple[str, int]:
        found = _LINK.match(text, start)
        if found is None:
            return _ESCAPED[mark], start + len(mark)
        shown = self._inert(_unlinked(found["text"]))
        if found["image"]:
            return f" {shown or '(picture)'} ", found.end()
        to = safe_link(found["to"]) if found["to"] is not None else None
        if to is not None:
            return f"[{shown}]({to})", found.end()
        label = found["label"] or found["text"]
        if found["to"] is None and _folded(label) in self.labels:
            return f"[{shown}][{label}]", found.end()
        if found["to"] is not None:
            return f" {shown} ", found.end()
        return _ESCAPED[mark], start + len(mark)


def _tex(formula: str) -> str:
    """Return a formula that cannot end the element or the attribute a renderer puts it into."""
    for mark, name in (("<", r"\lt "), (">", r"\gt "), ("`", "'"), ('"', "''")):
        formula = formula.replace(mark, name)
    return formula


def _in_url(piece: str, before: bool) -> bool:
    """Tell whether the last word, which goes on after `piece`, holds what looks like a URL."""
    words = re.split(r"\s", piece)
    return (before and len(words) == 1) or _BARE_URL.search(words[-1]) is not None


def _unlinked(text: str) -> str:
    """Return the text of a link without links and pictures of its own."""
    return re.sub(r"!?\[([^\[\]]{0,300})\](?:\([^()]{0,2000}\))?", r"\1", text)


def _backslashes(text: str, count: int, end: int) -> tuple[str, int]:
    """Return a run of backslashes: none before a bracket, for `\\\\(` would open a formula."""
    after = text[end : end + 1]
    if after and after in "()[]{}":
        return ("\\" + after if after in "[]{}" else after), end + 1
    pairs, odd = divmod(count, 2)
    shown = "&#92;" * pairs
    if not odd:
        return shown, end
    if after.isalnum() or after in (" ", ""):
        return shown + "\\", end
    if after == "$":
        return shown, end
    return shown + f"&#{ord(after)};", end + 1
