"""Markdown: the safe subset of a model's answer as a tree of plain JSON; nothing in it is markup.

May not pass on HTML, an image or a link that is not http, https or `#`: those become their text.
"""

from __future__ import annotations

import re
from typing import Any

from agent_kernel.guard.markdown import safe_link

Node = dict[str, Any]
"""A block: {"b": p|h|code|ul|ol|quote|table|hr, …}. Inline: [kind, …], kind t c b i s a br."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^`\s]{0,40})[^`]*$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_RULE = re.compile(r"^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_ITEM = re.compile(r"^( {0,11})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)(.*)$")
_QUOTE = re.compile(r"^ {0,3}>[ \t]?")
_DELIMITER = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_INLINE = re.compile(
    r"(?P<esc>\\[!-/:-@\[-`{-~])"
    r"|(?P<tick>`{1,8})(?P<code>[^`](?:[^`]|`(?!(?P=tick))){0,2000}?)(?P=tick)(?!`)"
    r"|!\[(?P<alt>[^\]\[]{0,500})\]\([^()\s]{0,2000}(?:[ \t]+\"[^\"]{0,200}\")?\)"
    r"|\[(?P<label>[^\]\[]{1,500})\]\((?P<href>[^()\s]{0,2000})(?:[ \t]+\"[^\"]{0,200}\")?\)"
    r"|(?P<url>https?://[^\s<>()\[\]`\"']{1,500}[^\s<>()\[\]`\"'.,;:!?*_])"
    r"|\*\*(?=\S)(?P<b>[^*]{1,1000}?(?:\*[^*]{1,300}\*[^*]{0,300})?)(?<=\S)\*\*(?!\*)"
    r"|(?<![\w_])__(?=\S)(?P<b2>[^_]{1,1000}?)(?<=\S)__(?!\w)"
    r"|\*(?=[^\s*])(?P<i>[^*]{1,1000}?)(?<=[^\s*])\*(?!\*)"
    r"|(?<![\w_])_(?=[^\s_])(?P<i2>[^_]{1,1000}?)(?<=[^\s_])_(?!\w)"
    r"|~~(?=\S)(?P<s>[^~]{1,1000}?)(?<=\S)~~"
    r"|(?P<br>(?: {2,}|\\)\n)"
)
_DEEP = 6


def blocks(text: str, depth: int = 0) -> list[Node]:
    """Return the blocks of `text` in order; time grows with its length."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    out: list[Node] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        node, at = _block(lines, at, depth)
        out.append(node)
    return out


def _block(lines: list[str], at: int, depth: int) -> tuple[Node, int]:
    line = lines[at]
    fence = _FENCE.match(line)
    if fence:
        return _code(lines, at, fence)
    heading = _HEADING.match(line)
    if heading:
        return {"b": "h", "level": len(heading[1]), "in": inline(heading[2])}, at + 1
    if _RULE.match(line):
        return {"b": "hr"}, at + 1
    if _QUOTE.match(line):
        return _quote(lines, at, depth)
    if _ITEM.match(line) and depth < _DEEP:
        return _list(lines, at, depth)
    if "|" in line and at + 1 < len(lines) and _delimits(line, lines[at + 1]):
        return _table(lines, at)
    return _paragraph(lines, at)


def _code(lines: list[str], at: int, fence: re.Match[str]) -> tuple[Node, int]:
    mark = fence[1]
    end = at + 1
    while end < len(lines):
        close = lines[end].strip()
        if close and close == mark[0] * len(close) and len(close) >= len(mark):
            break
        end += 1
    return {"b": "code", "lang": fence[2], "text": "\n".join(lines[at + 1 : end])}, end + 1


def _quote(lines: list[str], at: int, depth: int) -> tuple[Node, int]:
    inner: list[str] = []
    while at < len(lines) and _QUOTE.match(lines[at]):
        inner.append(_QUOTE.sub("", lines[at], count=1))
        at += 1
    inside = "\n".join(inner)
    if depth >= _DEEP:
        return {"b": "p", "in": [["t", inside]]}, at
    return {"b": "quote", "blocks": blocks(inside, depth + 1)}, at


def _list(lines: list[str], at: int, depth: int) -> tuple[Node, int]:
    first = _ITEM.match(lines[at])
    assert first is not None
    indent, ordered = len(first[1]), first[2][0].isdigit()
    items: list[list[Node]] = []
    start = int(first[2][:-1]) if ordered else 1
    while at < len(lines):
        found = _ITEM.match(lines[at])
        if not found or len(found[1]) > indent + 1 or found[2][0].isdigit() != ordered:
            break
        if len(found[1]) < indent:
            break
        body, at = _item(lines, at, found)
        items.append(blocks("\n".join(body), depth + 1))
    return {"b": "ol" if ordered else "ul", "start": start, "items": items}, at


def _item(lines: list[str], at: int, found: re.Match[str]) -> tuple[list[str], int]:
    """Return the lines of one item, unindented, and where the next begins."""
    width = found.start(3) if found[3] else len(found[1]) + len(found[2]) + 1
    body = [found[3]]
    at += 1
    while at < len(lines):
        line = lines[at]
        lead = len(line) - len(line.lstrip(" "))
        if not line.strip():
            after = lines[at + 1] if at + 1 < len(lines) else ""
            if len(after) - len(after.lstrip(" ")) < 2 or not after.strip():
                at += 1 if _ITEM.match(after) else 0
                break
            body.append("")
        elif lead > len(found[1]) + 1:
            body.append(line[min(lead, width) :])
        elif _starts(line):
            break
        else:
            body.append(line)
        at += 1
    return body, at


def _starts(line: str) -> bool:
    return any(r.match(line) for r in (_ITEM, _FENCE, _HEADING, _QUOTE, _RULE))


def _delimits(head: str, line: str) -> bool:
    return (
        bool(len(line) < 2_000 and _DELIMITER.match(line))
        and "-" in line
        and (len(_cells(head)) == len(_cells(line)))
    )


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _table(lines: list[str], at: int) -> tuple[Node, int]:
    head = [inline(cell) for cell in _cells(lines[at])]
    right = [cell.endswith(":") for cell in _cells(lines[at + 1])]
    rows = []
    at += 2
    while at < len(lines) and "|" in lines[at] and lines[at].strip():
        cells = [inline(cell) for cell in _cells(lines[at])][: len(head)]
        rows.append(cells + [inline("")] * (len(head) - len(cells)))
        at += 1
    return {"b": "table", "head": head, "right": right, "rows": rows}, at


def _paragraph(lines: list[str], at: int) -> tuple[Node, int]:
    taken = [lines[at].strip(" ")]
    at += 1
    while at < len(lines) and lines[at].strip() and not _starts(lines[at]):
        taken.append(lines[at].lstrip(" "))
        at += 1
    return {"b": "p", "in": inline("\n".join(taken).rstrip(" "))}, at


def inline(text: str, depth: int = 0) -> list[Any]:
    """Return the inline nodes of `text`: ["t", text], ["b", nodes], ["a", href, nodes], …"""
    out: list[Any] = []
    at = 0
    for found in _INLINE.finditer(text):
        if found.start() > at:
            out.append(["t", text[at : found.start()]])
        out.append(_node(found, depth))
        at = found.end()
    if at < len(text):
        out.append(["t", text[at:]])
    return out


def _node(found: re.Match[str], depth: int) -> list[Any]:
    kind = found.lastgroup
    group = found.groupdict()
    if group["esc"] is not None:
        return ["t", group["esc"][1:]]
    if group["code"] is not None:
        return ["c", group["code"].strip() or group["code"]]
    if group["label"] is not None:
        return _link(group["label"], group["href"])
    if group["url"] is not None:
        return _link(group["url"], group["url"])
    if group["br"] is not None:
        return ["br"]
    for name, tag in (("b", "b"), ("b2", "b"), ("i", "i"), ("i2", "i"), ("s", "s")):
        if group[name] is not None:
            inner = inline(group[name], depth + 1) if depth < _DEEP else [["t", group[name]]]
            return [tag, inner]
    return ["t", group["alt"] if kind == "alt" else found.group()]


def _link(label: str, href: str) -> list[Any]:
    words = [["t", label]] if "`" not in label else [["c", label.strip("`")]]
    safe = safe_link(href)
    return ["a", safe, words] if safe is not None else ["t", label]
