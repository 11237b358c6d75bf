"""Completer: what the Tab key offers in an agent cell after `@`: paths of the workspace.

May not read a file, and may not offer what lies outside the workspace: `tools/references.py` looks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_TYPED = re.compile(r"""(?<![\w@`/])@(?:"(?P<quoted>[^"\n]*)|(?P<plain>[^\s"`,;()<>]*))$""")
_AGENT = re.compile(r"\s*(?:%%agent\b|%agent\s+add\b)")


def references(context: Any) -> dict[str, Any]:
    """Return IPython's matcher result for the text before the cursor: `@path` or `@"a path"`.

    Nothing is offered outside agent cells and `%agent add` lines.
    """
    from IPython.core.completer import SimpleCompletion

    found = _TYPED.search(context.text_until_cursor)
    line = context.line_with_cursor
    if found is None or not (_AGENT.match(context.full_text) or _AGENT.match(line)):
        return {"completions": []}
    from agent_kernel.tools.references import candidates

    typed = found["plain"] if found["quoted"] is None else found["quoted"]
    offers = candidates(Path.cwd(), typed)
    return {
        "completions": [SimpleCompletion(text=each.word, type=each.kind) for each in offers],
        "matched_fragment": found[0],
        "ordered": True,
        "suppress": True,
    }


# What IPython reads of a matcher of its second form (IPython.core.completer.context_matcher).
references.matcher_api_version = 2  # type: ignore[attr-defined]
references.matcher_identifier = "agent_kernel.references"  # type: ignore[attr-defined]
references.matcher_priority = 1_000  # type: ignore[attr-defined]
