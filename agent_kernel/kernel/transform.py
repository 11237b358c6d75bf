"""Transform: `%%agent` cells and cells of nothing but `%agent` lines become awaited calls.

May not parse options or prompts, nor change any other cell: there `%agent` is a plain line magic.
"""

from __future__ import annotations

import re

_CELL = re.compile(r"%%agent(?=\s|$)")


def agent_cells(lines: list[str]) -> list[str]:
    """Return the lines of a `%%agent` cell as one `await`: IPython has no async magics."""
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None or not _CELL.match(lines[first]):
        return lines
    options = lines[first].rstrip("\r\n")[len("%%agent") :]
    body = "".join(lines[first + 1 :])
    return [f"await get_ipython().agent_cell({options!r}, {body!r})\n"]


_LINE = re.compile(r"%agent(?=\s|$)")


def agent_lines(lines: list[str]) -> list[str]:
    """Return a cell of `%agent` lines, blanks and comments as awaits, so that clicks are served."""
    texts = [line.strip() for line in lines]
    if not any(_LINE.match(text) for text in texts):
        return lines
    if not all(not text or text.startswith("#") or _LINE.match(text) for text in texts):
        return lines
    commands = [text[len("%agent") :].strip() for text in texts if _LINE.match(text)]
    return [f"await get_ipython().agent_line({command!r})\n" for command in commands]


# A console asks whether a cell is complete: it must see what was typed, not this.
agent_cells.has_side_effects = True  # type: ignore[attr-defined]
agent_lines.has_side_effects = True  # type: ignore[attr-defined]
