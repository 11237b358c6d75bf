"""Python stage: the paths that Python code names in its texts, against deny and ask rules.

Code can build any path it likes: what is not seen here only a sandbox can stop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent_kernel.guard.calls import Context, Verdict
from agent_kernel.guard.effects import python_nodes
from agent_kernel.guard.path_stage import kept_from, rule_verdicts
from agent_kernel.guard.paths import Problem, resolve
from agent_kernel.guard.rules import Rules

_LONGEST = 300  # characters; a longer text is no path


def mentions(code: str, rules: Rules, context: Context) -> list[Verdict]:
    """The verdicts on every path the code's string literals name; none without such rules."""
    if not (rules.narrowing("Read", "Edit") or context.denied or context.blobs):
        return []
    found: list[Verdict] = []
    for text in _texts(code):
        target = resolve(text, context.cwd, context.roots, context.home)
        if isinstance(target, Problem):
            continue
        found += rule_verdicts("Edit", target, rules, context)
        kept = kept_from(target, context, writing=False)
        if kept:
            found.append(Verdict("deny", kept, "path", parts=(text,)))
    return found


def _texts(code: str) -> Iterator[str]:
    for node in python_nodes(code):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if text and len(text) < _LONGEST and "\n" not in text:
                yield text
