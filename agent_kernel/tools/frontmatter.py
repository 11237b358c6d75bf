"""Frontmatter: the head of a Markdown file between two lines of `---`, as plain values.

May not be a YAML parser: it reads what SKILL.md and agents/*.md hold, and no more.
"""

from __future__ import annotations

import re

Value = str | list[str]
_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:(?:\s+(.*)|\s*)$")


def split(text: str) -> tuple[dict[str, Value], str]:
    """Return the head's values by key, and the body; a file without a head is all body."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return {}, text
    end = re.search(r"^---[ \t]*$", text[4:], re.MULTILINE)
    if end is None:
        return {}, text
    body = text[4 + end.end() :]
    return _values(text[4 : 4 + end.start()].split("\n")), body.removeprefix("\n")


def _values(lines: list[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    at = 0
    while at < len(lines):
        key = _KEY.match(lines[at])
        at += 1
        if key is None:
            continue
        block: list[str] = []
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t-"):
            block.append(lines[at])
            at += 1
        found[key[1]] = _value((key[2] or "").strip(), block)
    return found


def _value(first: str, block: list[str]) -> Value:
    if first[:1] in ("|", ">"):
        return _scalar(block, folded=first[0] == ">")
    items = [line.strip()[1:].strip() for line in block if line.strip().startswith("-")]
    if not first and items:
        return [_plain(item) for item in items]
    if first.startswith("[") and first.endswith("]"):
        return [_plain(each) for each in _commas(first[1:-1])]
    more = " ".join(line.strip() for line in block if line.strip())
    return _plain(f"{first} {more}".strip())


def _scalar(block: list[str], folded: bool) -> str:
    filled = [line for line in block if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    text = "\n".join(line[margin:] for line in block).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text


def _commas(text: str) -> list[str]:
    """The items of a flow list; commas inside quotes or brackets part nothing."""
    found = re.findall(r"""(?:"(?:\\.|[^"])*"|'[^']*'|\([^)]*\)|[^,])+""", text)
    return [each.strip() for each in found if each.strip()]


def _plain(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.sub(r"\s+#.*$", "", text)


def words(value: Value | None) -> tuple[str, ...]:
    """Return a value as a list: a list, or the items of a string parted by commas."""
    if value is None:
        return ()
    return tuple(value if isinstance(value, list) else _commas(value))


def text(value: Value | None) -> str:
    """Return a value as one string."""
    if value is None:
        return ""
    return ", ".join(value) if isinstance(value, list) else value
