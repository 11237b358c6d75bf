"""Cells: the cells of a notebook file, read as text and changed without touching the rest.

May not load nbformat: a notebook is JSON, and every byte outside the changed cell stays.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from agent_kernel.core.messages import Block, Image, Json
from agent_kernel.core.tool import ToolError

OUTPUT_LINES, OUTPUT_CHARS = 20, 1500
IMAGES, IMAGE_BYTES = 4, 2 << 20  # of one answer
_JSON = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Sheet:
    """A notebook's text, and where each element of its top-level `cells` array begins and ends."""

    text: str
    spans: tuple[tuple[int, int], ...]
    opens: int  # just after the array's `[`

    @property
    def cells(self) -> list[Json]:
        """The cells as objects."""
        return [json.loads(self.text[a:b]) for a, b in self.spans]

    @property
    def whole(self) -> Json:
        """The notebook as one object."""
        return dict(json.loads(self.text))

    @property
    def indent(self) -> str:
        """One level of indentation, "" when the file is on one line."""
        found = re.match(r"\{\r?\n([ \t]+)", self.text)
        return found[1] if found else ""

    def dump(self, cell: Json) -> str:
        """Return a cell as this file would write it."""
        if not self.indent:
            return json.dumps(cell, ensure_ascii=False)
        text = json.dumps(cell, ensure_ascii=False, indent=self.indent)
        return text.replace("\n", "\n" + 2 * self.indent)

    def with_cell(self, at: int, cell: Json) -> str:
        """Return the text with cell `at` (from 0) replaced."""
        start, end = self.spans[at]
        return self.text[:start] + self.dump(cell) + self.text[end:]

    def inserted(self, at: int, cell: Json) -> str:
        """Return the text with a new cell before cell `at`, or at the end."""
        made = self.dump(cell)
        gap = "\n" + 2 * self.indent if self.indent else ""
        if not self.spans:
            close = self.text.index("]", self.opens)
            tail = "\n" + self.indent if self.indent else ""
            return self.text[: self.opens] + gap + made + tail + self.text[close:]
        if at < len(self.spans):
            start = self.spans[at][0]
            return self.text[:start] + made + "," + (gap or " ") + self.text[start:]
        end = self.spans[-1][1]
        return self.text[:end] + "," + (gap or " ") + made + self.text[end:]

    def without(self, at: int) -> str:
        """Return the text without cell `at`."""
        start, end = self.spans[at]
        if at + 1 < len(self.spans):
            return self.text[:start] + self.text[self.spans[at + 1][0] :]
        if at > 0:
            return self.text[: self.spans[at - 1][1]] + self.text[end:]
        return self.text[: self.opens] + self.text[self.text.index("]", end) :]


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def sheet_of(text: str, name: str) -> Sheet:
    """Return the Sheet of a notebook's text. Raises ToolError when it is no notebook."""
    try:
        whole = json.loads(text)
    except ValueError as error:
        raise ToolError(f"{name!r} is no valid JSON: {error}") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("cells"), list):
        raise ToolError(f"{name!r} has no top-level list of cells: not a notebook of format 4")
    at = _after_space(text, 0) + 1
    while True:
        at = _after_space(text, at)
        key, at = _JSON.raw_decode(text, at)
        at = _after_space(text, _after_space(text, at) + 1)
        if key == "cells":
            return Sheet(text, tuple(_elements(text, at)), at + 1)
        _, at = _JSON.raw_decode(text, at)
        at = _after_space(text, at) + 1


def _elements(text: str, at: int) -> list[tuple[int, int]]:
    """The spans of an array's elements; `at` is its `[`."""
    spans = []
    at = _after_space(text, at + 1)
    while text[at] != "]":
        _, end = _JSON.raw_decode(text, at)
        spans.append((at, end))
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return spans


# ---------------------------------------------------------------- reading
def joined(value: Any) -> str:
    """Return a multi-line string of nbformat: a string, or a list of them."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def source_of(cell: Json) -> str:
    """Return a cell's source."""
    return joined(cell.get("source"))


def name_of(cell: Json, at: int) -> str:
    """Return how a cell is named: its id, else its place from 1 as `#3`."""
    return str(cell.get("id") or f"#{at + 1}")


def find(cells: list[Json], wanted: str) -> int:
    """Return the place of a cell by id or `#N` or N. Raises ToolError naming the ids."""
    for at, cell in enumerate(cells):
        if cell.get("id") == wanted:
            return at
    number = wanted.removeprefix("#")
    if number.isdigit() and 1 <= int(number) <= len(cells):
        return int(number) - 1
    names = ", ".join(name_of(cell, at) for at, cell in enumerate(cells[:50]))
    raise ToolError(f"no cell {wanted!r}; the cells are {names or 'none'}")


def state_of(cell: Json) -> str:
    """Return what is known of a cell's run: In[N], or never run; "" for text cells."""
    if cell.get("cell_type") != "code":
        return ""
    if cell.get("state"):
        return str(cell["state"])
    count = cell.get("execution_count")
    return f"In[{count}]" if count else "never run"


def head(cell: Json, at: int) -> str:
    """Return the line that names a cell: place, id, kind, state."""
    parts = [f"[{at + 1}] {name_of(cell, at)}", str(cell.get("cell_type"))]
    return " · ".join(part for part in (*parts, state_of(cell)) if part)


def listed(cells: list[Json]) -> str:
    """Return one line a cell: its head, first line and size."""
    lines = []
    for at, cell in enumerate(cells):
        source = source_of(cell)
        first = source.strip().split("\n", 1)[0][:80]
        more = f" (+{source.count(chr(10))} lines)" if "\n" in source.strip() else ""
        lines.append(f"{head(cell, at)}: {first}{more}")
    return "\n".join(lines) or "[no cells]"


def shown(cell: Json, at: int) -> str:
    """Return a cell with its source and short outputs."""
    text = f"{head(cell, at)}\n{source_of(cell)}"
    outputs = [output_text(each) for each in cell.get("outputs") or []]
    said = "\n".join(each.rstrip("\n") for each in outputs if each)
    return f"{text}\n{_quoted(said)}" if said else text


def _quoted(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if len(lines) > OUTPUT_LINES:
        left = len(lines) - OUTPUT_LINES
        half = OUTPUT_LINES // 2
        lines = [*lines[:half], f"[{left} lines of output left out]", *lines[-half:]]
    out = "\n".join(f"> {line}" for line in lines)
    if len(out) > OUTPUT_CHARS:
        out = f"{out[:OUTPUT_CHARS]} [{len(out) - OUTPUT_CHARS} characters left out]"
    return out


def output_text(output: Json) -> str:
    """Return one output as text: streams and plain text as they are, others by kind and size."""
    kind = output.get("output_type")
    if kind == "stream":
        return joined(output.get("text"))
    if kind == "error":
        trace = _ANSI.sub("", "\n".join(map(str, output.get("traceback") or [])))
        last = f"{output.get('ename')}: {output.get('evalue')}"
        return f"{trace}\n{last}" if trace and last not in trace else trace or last
    data = output.get("data") or {}
    plain = joined(data.get("text/plain") or data.get("text/markdown"))
    others = [
        f"[{mime}, {len(joined(data[mime])):,} chars]" for mime in data if "/plain" not in mime
    ]
    media = [each for each in others if each.startswith("[image/")] if plain else others
    return "\n".join(part for part in (plain, *media) if part)


def images_of(cells: list[Json]) -> list[Block]:
    """Return the PNG and JPEG outputs of cells as Image blocks, at most 4 of at most 2 MiB."""
    found: list[Block] = []
    for cell in cells:
        for output in cell.get("outputs") or []:
            for mime, data in (output.get("data") or {}).items():
                raw = re.sub(r"\s", "", joined(data))
                if mime in ("image/png", "image/jpeg") and len(raw) * 3 // 4 <= IMAGE_BYTES:
                    found.append(Image(mime, raw))
    return found[:IMAGES]
