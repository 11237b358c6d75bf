"""HTML: blocks as static text/html without script, style or image, good after any sanitizer.

May not let a character of a model, tool or file through unescaped: every text passes `_esc`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import agent_kernel.widgets.diffs as diffs
import agent_kernel.widgets.hidden as hidden
import agent_kernel.widgets.markdown as markdown
from agent_kernel.guard import render
from agent_kernel.widgets.doc import (
    Block,
    Commands,
    Diff,
    Fold,
    Head,
    Items,
    Pairs,
    Para,
    Pre,
    Prose,
    Table,
)
from agent_kernel.widgets.turnview import Line

_WRAP = 'style="overflow-wrap:anywhere"'
_PRE = '<pre style="white-space:pre-wrap;overflow-wrap:anywhere">'
_MATH = re.compile(r"\$|\\(?=[(\[]|begin\b)")


def html(blocks: Sequence[Block]) -> str:
    """Return the blocks as one `div` that MathJax leaves alone."""
    inner = "".join(_block(block) for block in blocks)
    return f'<div class="agent-kernel mathjax_ignore tex2jax_ignore" {_WRAP}>{inner}</div>'


def _esc(text: str) -> str:
    # The class keeps MathJax out; where a sanitizer drops it, a delimiter alone in its element
    # pairs with no other (MathJax joins text across comments and entities, not across elements).
    return _MATH.sub(
        lambda found: f"<span>{found.group()}</span>", render.html(hidden.output(text))
    )


def line(spans: Line) -> str:
    """Return a line's spans as inline HTML."""
    return "".join(_SPANS[kind](_esc(text)) for kind, text in spans)


_SPANS: dict[str, Callable[[str], str]] = {
    "t": lambda text: text,
    "c": lambda text: f"<code>{text}</code>",
    "b": lambda text: f"<b>{text}</b>",
    "d": lambda text: f"<small>{text}</small>",
    "x": lambda text: f"<b>⟨{text}⟩</b>",
}


def _block(block: Block) -> str:
    match block:
        case Head():
            note = f" <small>{_esc(block.note)}</small>" if block.note else ""
            return f"<p><b>{line(block.line)}</b>{note}</p>"
        case Para():
            return f"<p>{line(block.line)}</p>"
        case Prose():
            return "".join(_prose(node) for node in markdown.blocks(block.md))
        case Pre():
            return f"{_PRE}{line(block.line)}</pre>"
        case Diff():
            return f"{_PRE}{_esc(diffs.text(list(block.rows)))}</pre>"
        case Items():
            return f"<ul>{''.join(f'<li>{line(one)}</li>' for one in block.lines)}</ul>"
    return _part(block)


def _part(block: Table | Pairs | Fold | Commands) -> str:
    match block:
        case Table():
            return _table(block)
        case Pairs():
            rows = ((_esc(name), line(value)) for name, value in block.rows)
            cells = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in rows)
            return f"<table><tbody>{cells}</tbody></table>"
        case Fold():
            inner = "".join(_block(one) for one in block.blocks)
            opened = " open" if block.open else ""
            return f"<details{opened}><summary>{line(block.line)}</summary>{inner}</details>"
        case Commands():
            codes = " · ".join(f"<code>{_esc(one)}</code>" for one in block.commands)
            return f"<p>{codes}</p>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_esc(name)}</th>" for name in table.columns)
    rows = [*table.rows, *([table.total] if table.total else [])]
    last = len(table.rows) if table.total else -1
    body = "".join(_row(cells, bold=at == last) for at, cells in enumerate(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(cells: Sequence[Line], *, bold: bool) -> str:
    made = (f"<b>{line(cell)}</b>" if bold else line(cell) for cell in cells)
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in made)}</tr>"


def _prose(node: markdown.Node) -> str:
    match node["b"]:
        case "p":
            return f"<p>{_inline(node['in'])}</p>"
        case "h":
            level = min(6, node["level"] + 2)  # the notebook's own headings stay above an answer's
            return f"<h{level}>{_inline(node['in'])}</h{level}>"
        case "code":
            return f"<pre><code>{_esc(node['text'])}</code></pre>"
        case "ul" | "ol" as tag:
            items = "".join(f"<li>{_entry(item)}</li>" for item in node["items"])
            start = f' start="{int(node["start"])}"' if tag == "ol" and node["start"] != 1 else ""
            return f"<{tag}{start}>{items}</{tag}>"
        case "quote":
            return f"<blockquote>{''.join(map(_prose, node['blocks']))}</blockquote>"
        case "table":
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in node["head"])
            rows = ("".join(f"<td>{_inline(cell)}</td>" for cell in row) for row in node["rows"])
            body = "".join(f"<tr>{row}</tr>" for row in rows)
            return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return "<hr>"


def _entry(item: list[markdown.Node]) -> str:
    first = _inline(item[0]["in"]) if item and item[0]["b"] == "p" else ""
    return first + "".join(map(_prose, item[1:] if first else item))


_TAGS = {"b": "strong", "i": "em", "s": "del"}


def _inline(nodes: Sequence[Any]) -> str:
    out = []
    for node in nodes:
        kind = node[0]
        if kind == "t":
            out.append(_esc(node[1]))
        elif kind == "c":
            out.append(f"<code>{_esc(node[1])}</code>")
        elif kind == "br":
            out.append("<br>")
        elif kind == "a":
            href = render.html(node[1])
            words = _inline(node[2])
            out.append(f'<a href="{href}" rel="noopener noreferrer" target="_blank">{words}</a>')
        else:
            tag = _TAGS[kind]
            out.append(f"<{tag}>{_inline(node[1])}</{tag}>")
    return "".join(out)
