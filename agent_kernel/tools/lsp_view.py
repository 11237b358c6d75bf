"""LSP view: what a server answers, as lines a model can go on from.

May not hide that a list was cut: at most 100 places and 16,000 characters, then how many more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_kernel.core.messages import Json
from agent_kernel.tools.lsp_documents import characters, path_of

PLACES, CHARS, WIDE = 100, 16_000, 200
SEVERITIES = {1: "error", 2: "warning", 3: "note"}
HINT = 4  # greyed-out names and the like: for the eye, not for a list of what is wrong
KINDS = (
    "", "file", "module", "namespace", "package", "class", "method", "property", "field",
    "constructor", "enum", "interface", "function", "variable", "constant", "string", "number",
    "boolean", "array", "object", "key", "null", "enum member", "struct", "event", "operator",
    "type parameter",
)  # fmt: skip


@dataclass(frozen=True)
class View:
    """How places are named and read: `name` shortens a path, `lines` gives a document's lines."""

    name: Callable[[str], str]
    lines: Callable[[str], Sequence[str]]
    encoding: str

    def place(self, uri: str, start: Json) -> str:
        """Return `path:line:column`, both from 1."""
        line = self._line(uri, start["line"])
        column = characters(line, start["character"], self.encoding) if line else start["character"]
        return f"{self.name(path_of(uri))}:{start['line'] + 1}:{column + 1}"

    def location(self, found: Json) -> str:
        """Return a place with the line that stands there."""
        uri = found.get("uri") or found["targetUri"]
        start = (found.get("range") or found["targetSelectionRange"])["start"]
        text = self._line(uri, start["line"]).strip()[:WIDE]
        return f"{self.place(uri, start)}: {text}" if text else self.place(uri, start)

    def _line(self, uri: str, number: int) -> str:
        lines = self.lines(uri)
        return lines[number] if 0 <= number < len(lines) else ""


def listed(lines: Sequence[str]) -> tuple[str, bool]:
    """Return lines as text within the bounds, and whether some were left out."""
    kept: list[str] = []
    size = 0
    for line in lines[:PLACES]:
        size += len(line) + 1
        if size > CHARS:
            break
        kept.append(line)
    if len(kept) < len(lines):
        return "\n".join((*kept, f"[{len(lines) - len(kept)} more left out]")), True
    return "\n".join(kept), False


def locations(found: Any) -> list[Json]:
    """Return the places of an answer, one or many, each once, by path and line."""
    places = [found] if isinstance(found, dict) else list(found or ())
    by_key = {}
    for each in places:
        uri = each.get("uri") or each["targetUri"]
        start = (each.get("range") or each["targetSelectionRange"])["start"]
        by_key[path_of(uri), start["line"], start["character"]] = each
    return [by_key[key] for key in sorted(by_key)]


def kind(number: int) -> str:
    """Return the word of a SymbolKind (LSP 3.17)."""
    return KINDS[number] if 0 < number < len(KINDS) else "symbol"


def hover_text(found: Any) -> str:
    """Return a hover's text, whatever form the server gave it."""
    contents = found.get("contents") if isinstance(found, dict) else None
    parts = contents if isinstance(contents, list) else [contents]
    said = [p.get("value", "") if isinstance(p, dict) else str(p or "") for p in parts]
    return "\n".join(part.strip() for part in said if part.strip())[:CHARS]


def symbol_lines(view: View, found: Sequence[Json]) -> list[str]:
    """Return one line a workspace symbol."""
    lines = []
    for each in found:
        where = each["location"]
        inside = f" in {each['containerName']}" if each.get("containerName") else ""
        start = (where.get("range") or {"start": {"line": 0, "character": 0}})["start"]
        lines.append(
            f"{view.place(where['uri'], start)}: {kind(each['kind'])} {each['name']}{inside}"
        )
    return sorted(dict.fromkeys(lines))


def outline_lines(found: Sequence[Json], depth: int = 0) -> list[str]:
    """Return a document's symbols, indented by depth, each with its lines."""
    lines = []
    for each in found:
        span = each.get("range") or each["location"]["range"]
        first, last = span["start"]["line"] + 1, span["end"]["line"] + 1
        lines.append(f"{'  ' * depth}{first}-{last}: {kind(each['kind'])} {each['name']}")
        lines += outline_lines(each.get("children") or (), depth + 1)
    return lines


def enclosing(found: Sequence[Json], line: int) -> str:
    """Return the dotted name of the innermost symbol around a line (from 0), "" outside all."""
    for each in found:
        span = each.get("range") or each["location"]["range"]
        if span["start"]["line"] <= line <= span["end"]["line"]:
            inner = enclosing(each.get("children") or (), line)
            return f"{each['name']}.{inner}" if inner else str(each["name"])
    return ""


def diagnostic_lines(
    view: View, uri: str, found: Sequence[Json], symbols: Sequence[Json]
) -> list[str]:
    """Return one line a diagnostic, in the order of the file, each with the symbol around it."""
    real = [each for each in found if each.get("severity") != HINT]
    ordered = sorted(real, key=lambda d: (d["range"]["start"]["line"], str(d.get("message"))))
    lines = []
    for each in ordered:
        start = each["range"]["start"]
        code = f" [{each['code']}]" if each.get("code") else ""
        around = enclosing(symbols, start["line"])
        inside = f" (in {around})" if around else ""
        message = " ".join(str(each.get("message")).split())
        severity = SEVERITIES.get(each.get("severity") or 1, "error")
        lines.append(f"{view.place(uri, start)}: {severity}: {message}{code}{inside}")
    return lines


def call_lines(view: View, found: Sequence[Json], side: str) -> list[str]:
    """Return one line a call: the other function, and for callers where the call stands."""
    lines = []
    for each in found:
        other = each[side]
        name = f"{kind(other['kind'])} {other['name']}"
        if side == "from":
            lines += [f"{view.place(other['uri'], r['start'])}: {name}" for r in each["fromRanges"]]
        else:
            lines.append(f"{view.place(other['uri'], other['selectionRange']['start'])}: {name}")
    return sorted(dict.fromkeys(lines))


def read_lines(path: str) -> list[str]:
    """Return a file's lines, [] when it cannot be read as text."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return []
