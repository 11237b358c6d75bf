"""Memory: the fixed files a person keeps for every session: AGENTS.md, CLAUDE.md, memory.md.

May not write, and may not follow an import or a link out of where the file belongs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_kernel.core.prompt import Part, PromptContext, Section
from agent_kernel.sections.touched import touched

FILE, ALL_FILES = 64 << 10, 256 << 10  # bytes: settings memory_file, memory_all
DEPTH = 4  # of imports
NAMES = ("AGENTS.md", "CLAUDE.md", ".agent_kernel/memory.md")
LOCAL = ("AGENTS.local.md", "CLAUDE.local.md", ".agent_kernel/memory.local.md")
USER = (
    ".agent_kernel/AGENTS.md",
    ".agent_kernel/CLAUDE.md",
    ".agent_kernel/memory.md",
    ".agent_kernel/memory.local.md",
    ".claude/AGENTS.md",
    ".claude/CLAUDE.md",
    ".claude/CLAUDE.local.md",
)
_IMPORT = re.compile(r"(?:^|(?<=\s))@([\w./~+-]+)")
_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True)
class Place:
    """One file to read: its path, the folder it may not leave, and whose it is."""

    path: Path
    inside: Path
    scope: str  # user, project, local, nested, import


@dataclass
class _Reading:
    """What one look at the files has found: parts by name, real paths seen, bytes used."""

    workspace: Path
    home: Path
    parts: dict[str, Part] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    used: int = 0

    def take(self, place: Place, depth: int = 0) -> None:
        """Read a file and what it imports; what was read before, or leaves its folder, is not."""
        real = os.path.realpath(place.path)
        inside = os.path.realpath(place.inside)
        if real in self.seen or not os.path.isfile(real):  # noqa: PTH113
            return
        if not real.startswith(inside.rstrip("/") + "/"):
            return
        self.seen.add(real)
        text, sha256 = _text(Path(real), min(FILE, max(0, ALL_FILES - self.used)))
        self.used += len(text.encode())
        name = self.named(place.path)
        memory = {"path": name, "sha256": sha256, "scope": place.scope}
        self.parts[name] = Part(text, {"memory": memory, "path": name})
        if depth < DEPTH:
            for path in imports(text, Path(real).parent, self.home):
                self.take(Place(path, place.inside, "import"), depth + 1)

    def named(self, path: Path) -> str:
        """Return a path as it is shown: from the workspace, from the home folder, or whole."""
        for base, prefix in ((self.workspace, ""), (self.home, "~/")):
            if path.is_relative_to(base):
                return prefix + path.relative_to(base).as_posix()
        return str(path)


def _text(path: Path, limit: int) -> tuple[str, str]:
    """Return a file's text, its head where it is over the limit, and the SHA-256 of it all."""
    data = path.read_bytes()
    text = data[:limit].decode("utf-8", "ignore")
    if len(data) > limit:
        text += f"\n[{len(data):,} bytes; the first {limit:,} are here, read has the rest]"
    return text, hashlib.sha256(data).hexdigest()


def imports(text: str, folder: Path, home: Path) -> list[Path]:
    """Return the paths a memory file imports by `@path`; those in code are none."""
    plain = _CODE.sub("", _FENCE.sub("", text))
    found = (word.rstrip(".,;:") for word in _IMPORT.findall(plain))
    return [home / w[2:] if w.startswith("~/") else folder / w for w in dict.fromkeys(found)]


def root_of(workspace: Path) -> Path:
    """Return the repository's root above the workspace, or the workspace itself."""
    above = (workspace, *workspace.parents)
    return next((each for each in above if (each / ".git").exists()), workspace)


def places(workspace: Path, home: Path, paths: tuple[str, ...]) -> Iterator[Place]:
    """Yield the files to look for: the user's, then from the root down, then touched folders'."""
    for name in USER:
        yield Place(home / name, (home / name).parent, "user")
    root = root_of(workspace)
    down = [workspace, *workspace.parents]
    for folder in reversed(down[: down.index(root) + 1]):
        yield from _of(folder, root, "project")
    for folder in _nested(workspace, paths):
        yield from _of(folder, root, "nested")


def _of(folder: Path, root: Path, scope: str) -> Iterator[Place]:
    for name in NAMES:
        yield Place(folder / name, root, scope)
    for name in LOCAL:
        yield Place(folder / name, root, "local")


def _nested(workspace: Path, paths: tuple[str, ...]) -> list[Path]:
    """Return the folders below the workspace that a tool touched, with those between, near last."""
    found: dict[Path, None] = {}
    for path in paths:
        folder = Path(path).parent
        if folder.is_absolute() or ".." in folder.parts:
            continue
        for count in range(1, len(folder.parts) + 1):
            found[workspace.joinpath(*folder.parts[:count])] = None
    return sorted(found, key=lambda each: (len(each.parts), each.as_posix()))


async def render(context: PromptContext) -> dict[str, Part]:
    """Return one part a memory file, nearer ones last."""
    home = Path(context.facts.get("home") or os.path.expanduser("~"))  # noqa: PTH111
    paths = touched(context.facts.get("session"), context.agent)
    return await asyncio.to_thread(read, context.workspace.absolute(), home, paths)


def read(workspace: Path, home: Path, paths: tuple[str, ...] = ()) -> dict[str, Part]:
    """Return the memory files by name as they are on disk now; `paths` were touched by tools."""
    reading = _Reading(workspace, home)
    for place in places(workspace, home, paths):
        reading.take(place)
    return reading.parts


MEMORY = Section("memory", False, render, kind="memory")
