"""Roles: kinds of sub-agents, a Markdown file each, found near to far; the nearer of one name wins.

May not grant a tool: a role's `tools` are those of its parent it may keep.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import agent_kernel.tools.frontmatter as frontmatter

BODY = 64 << 10  # bytes of a file
MOST = 200  # files of one place
PLACES = (".agent_kernel/agents", ".claude/agents")
# Claude Code's tool names that are not ours in lower case.
OURS = {
    "task": "agent",
    "webfetch": "web_fetch",
    "websearch": "web_search",
    "todowrite": "todo",
    "notebookedit": "notebook",
    "notebookread": "notebook",
    "multiedit": "edit",
    "ls": "glob",
    "toolsearch": "tool_search",
    "taskoutput": "task_output",
    "bashoutput": "task_output",
    "taskstop": "task_stop",
    "killshell": "task_stop",
    "askuserquestion": "ask",
}
_KNOWN = ("name", "description", "tools", "model")


@dataclass(frozen=True)
class Role:
    """One role: its system text, the tools it keeps (None = all), its model (None = its parent's).

    Unknown keys of the head are in `extra`.
    """

    name: str
    description: str
    path: Path
    origin: str  # project, user
    text: str
    tools: tuple[str, ...] | None = None
    model: str | None = None
    extra: dict[str, frontmatter.Value] = field(default_factory=dict)

    def kept(self, have: Sequence[str]) -> list[str] | None:
        """Return the names of `have` the role keeps, None for all of them."""
        if self.tools is None:
            return None
        wanted = {OURS.get(name.lower(), name.lower()) for name in self.tools}
        return [name for name in have if name.lower() in wanted]


def parse(path: Path, origin: str) -> Role:
    """Return the role of a file. Raises OSError or ValueError saying what is wrong with it."""
    data = path.read_bytes()
    if len(data) > BODY:
        raise ValueError(f"{path.name} has {len(data):,} bytes, {BODY:,} is the limit")
    head, body = frontmatter.split(data.decode("utf-8", "replace"))
    name = frontmatter.text(head.get("name")) or path.stem
    if not re.fullmatch(r"[\w.:-]{1,64}", name):
        raise ValueError(f"the name {name!r} is none: letters, digits, `-`, `_`, 64 at most")
    if not body.strip():
        raise ValueError(f"{path.name} has no text below its head; write what the agent is")
    tools = [each.partition("(")[0].strip() for each in frontmatter.words(head.get("tools"))]
    model = frontmatter.text(head.get("model"))
    return Role(
        name,
        frontmatter.text(head.get("description")),
        path,
        origin,
        body.strip(),
        tuple(tools) if tools and tools != ["*"] else None,
        model if model not in ("", "inherit") else None,
        {key: value for key, value in head.items() if key not in _KNOWN},
    )


def find(workspace: Path, home: Path | None = None) -> tuple[dict[str, Role], tuple[str, ...]]:
    """Return the roles by name as they are on disk now, and what could not be read."""
    found: dict[str, Role] = {}
    problems: list[str] = []
    base = home if home is not None else Path(os.path.expanduser("~"))  # noqa: PTH111
    for folder, origin in [(workspace, "project"), (base, "user")]:
        for path in _files(folder):
            try:
                role = parse(path, origin)
            except (OSError, ValueError) as error:
                problems.append(f"{path.name}: {error}")
                continue
            found.setdefault(role.name, role)
    return dict(sorted(found.items())), tuple(problems)


def _files(base: Path) -> Iterator[Path]:
    for place in PLACES:
        folder = base / place
        if folder.is_dir():
            yield from sorted(folder.glob("*.md"))[:MOST]
