"""Calls: what a tool call asks for, where it would run, and the verdict on it.

It decides nothing: the stages in evaluate.py make verdicts, this file only joins them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

Decision = Literal["allow", "ask", "report", "error", "deny"]
Mode = Literal["plan", "ask", "accept-edits", "bypass"]
Kind = Literal[
    "Read", "Edit", "Bash", "Python", "Agent", "WebFetch", "WebSearch", "Mcp", "Harmless", "Other"
]

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
SEVERITY: Final[Mapping[str, int]] = {"allow": 0, "ask": 1, "report": 2, "error": 3, "deny": 4}

# Own tool names and Claude Code's, both without case, to the name a rule uses.
KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(
        ("read", "glob", "grep", "lsp", "ls", "notebookread", "concept_search"), "Read"
    ),
    **dict.fromkeys(("edit", "write", "multiedit", "notebook", "notebookedit"), "Edit"),
    **dict.fromkeys(("bash", "shell"), "Bash"),
    "python": "Python",
    **dict.fromkeys(("agent", "task"), "Agent"),
    **dict.fromkeys(("webfetch", "web_fetch"), "WebFetch"),
    **dict.fromkeys(("websearch", "web_search"), "WebSearch"),
    **dict.fromkeys(
        (
            *("todo", "todowrite", "todoread", "ask", "skill", "task_output", "taskoutput"),
            *("task_stop", "recall_history", "tool_search", "toolsearch"),
        ),
        "Harmless",
    ),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call: `input` is the tool's input object, or the one string that matters in it.

    `read_only` is what a tool of ours declares; it counts only for tools this file does not name.
    """

    tool: str
    input: Mapping[str, Any] | str
    read_only: bool = False

    @property
    def kind(self) -> Kind:
        """The tool's kind; a `notebook` call that only looks is a Read."""
        name = self.tool.casefold()
        if name.startswith("mcp__"):
            return "Mcp"
        if name == "notebook" and self.text("action") in ("list", "read"):
            return "Read"
        return KINDS.get(name, "Other")

    def text(self, *names: str) -> str:
        """The first of the named string fields, or the whole input when it is a string, or ''."""
        if isinstance(self.input, str):
            return self.input
        for name in names:
            value = self.input.get(name)
            if isinstance(value, str):
                return value
        return ""


@dataclass(frozen=True, slots=True)
class Context:
    """Where a call would run and what is known about it.

    `roots` are the workspace folders (default: `cwd`); `trusted` means a person trusted this work
    tree; `denied` are paths no tool may touch (session log, lock, damaged lines, cassettes);
    `blobs` are folders that may be read but not written; `notebook` is the open notebook;
    `settings` is the folder `/pattern` rules start from; `changed` names MCP tools whose
    fingerprint is no longer the approved one; `over_budget` is the sentence of a spent limit;
    `repeats` counts equal calls of this turn, this one included; `allow_local` are the (address,
    port) pairs the user's own settings let web_fetch reach.
    """

    cwd: str = ""
    roots: tuple[str, ...] = ()
    headless: bool = False
    tainted: bool = False
    trusted: bool = False
    home: str = field(default_factory=lambda: os.path.expanduser("~"))
    settings: str = ""
    path: str = field(default_factory=lambda: os.environ.get("PATH", os.defpath))
    denied: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    notebook: str = ""
    changed: frozenset[str] = frozenset()
    over_budget: str = ""
    repeats: int = 1
    allow_local: frozenset[tuple[str, int]] = frozenset()

    def __post_init__(self) -> None:
        cwd = os.path.abspath(self.cwd or os.getcwd())
        object.__setattr__(self, "cwd", cwd)
        object.__setattr__(self, "roots", tuple(map(os.path.abspath, self.roots)) or (cwd,))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision with its reason; `parts` are the commands or paths judged.

    `risk` holds the high-risk effects in words, one a line; `offers` are rules that would allow.
    """

    verdict: Decision
    reason: str
    stage: str
    rule: str = ""
    parts: tuple[str, ...] = ()
    risk: str = ""
    offers: tuple[str, ...] = ()


def join(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict, of equals the one that says a risk, with the parts and every risk.

    Raises ValueError when there is no verdict to join.
    """
    found = list(verdicts)
    worst = max(found, key=lambda verdict: (SEVERITY[verdict.verdict], bool(verdict.risk)))
    parts = next((verdict.parts for verdict in found if verdict.parts), ())
    risks = dict.fromkeys(verdict.risk for verdict in found if verdict.risk)
    return replace(worst, parts=worst.parts or parts, risk="\n".join(risks))
