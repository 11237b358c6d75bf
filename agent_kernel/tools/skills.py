"""Skills: folders with a SKILL.md, found near to far; the nearer of one name wins.

May not run anything a skill holds, and may not grant what a repository's file asks for.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import agent_kernel.tools.frontmatter as frontmatter

BODY = 64 << 10  # bytes of a SKILL.md
MOST = 500  # skills of one place
PLACES = (".agent_kernel/skills", ".claude/skills")
BUNDLED = Path(__file__).resolve().parent.parent / "skills"


@dataclass(frozen=True)
class Skill:
    """One skill: what its head says (unknown keys in `extra`), its body, and where it is from."""

    name: str
    description: str
    path: Path
    origin: str  # project, user, bundled
    body: str
    sha256: str
    when_to_use: str = ""
    paths: tuple[str, ...] = ()
    fork: bool = False
    allowed_tools: tuple[str, ...] | None = None
    model: str | None = None
    extra: dict[str, frontmatter.Value] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The skill's folder: files beside SKILL.md are read from it."""
        return self.path.parent


@dataclass(frozen=True)
class Skills:
    """The skills in force by name, those a nearer one hides, and what could not be read."""

    found: dict[str, Skill]
    hidden: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


_KNOWN = ("name", "description", "when_to_use", "paths", "context", "allowed-tools", "model")


def parse(path: Path, origin: str) -> Skill:
    """Return the skill of a SKILL.md. Raises OSError or ValueError saying what is wrong with it."""
    data = path.read_bytes()
    if len(data) > BODY:
        raise ValueError(f"{path.name} has {len(data):,} bytes, {BODY:,} is the limit")
    head, body = frontmatter.split(data.decode("utf-8", "replace"))
    name = frontmatter.text(head.get("name")) or path.parent.name
    if not re.fullmatch(r"[\w.:-]{1,64}", name):
        raise ValueError(f"the name {name!r} is none: letters, digits, `-`, `_`, 64 at most")
    allowed = frontmatter.words(head.get("allowed-tools")) if "allowed-tools" in head else None
    return Skill(
        name,
        frontmatter.text(head.get("description")) or first_line(body),
        path,
        origin,
        body,
        hashlib.sha256(data).hexdigest(),
        frontmatter.text(head.get("when_to_use")),
        frontmatter.words(head.get("paths")),
        frontmatter.text(head.get("context")) == "fork",
        allowed,
        frontmatter.text(head.get("model")) or None,
        {key: value for key, value in head.items() if key not in _KNOWN},
    )


def first_line(body: str) -> str:
    """Return the first line of a body that says something."""
    return next((line.strip("# ").strip() for line in body.split("\n") if line.strip("# ")), "")


def places(workspace: Path, home: Path) -> Iterator[tuple[Path, str]]:
    """Yield where skills are looked for, near to far: project, user, bundled."""
    for name in PLACES:
        yield workspace / name, "project"
    for name in PLACES:
        yield home / name, "user"
    yield BUNDLED, "bundled"


_parsed: dict[tuple[Path, str], tuple[tuple[int, int], Skill]] = {}


def _known(path: Path, origin: str) -> Skill:
    """Return what `parse` does, anew only when the file is another: a request asks each time."""
    info = path.stat()
    stamp = (info.st_mtime_ns, info.st_size)
    known = _parsed.get((path, origin))
    if known is None or known[0] != stamp:
        known = _parsed[path, origin] = (stamp, parse(path, origin))
    return known[1]


def find(workspace: Path, home: Path | None = None) -> Skills:
    """Return the skills of a workspace as they are on disk now."""
    found: dict[str, Skill] = {}
    hidden: list[Skill] = []
    problems: list[str] = []
    base = home if home is not None else Path(os.path.expanduser("~"))  # noqa: PTH111
    for folder, origin in places(workspace, base):
        for path in _files(folder):
            try:
                skill = _known(path, origin)
            except (OSError, ValueError) as error:
                problems.append(f"{path.parent.name}: {error}")
                continue
            if skill.name in found:
                hidden.append(skill)
            else:
                found[skill.name] = skill
    return Skills(dict(sorted(found.items())), tuple(hidden), tuple(problems))


def _files(folder: Path) -> Sequence[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    paths = [folder / name / "SKILL.md" for name in names[:MOST]]
    return [path for path in paths if path.is_file()]


def filled(skill: Skill, arguments: str) -> str:
    """Return the body with `$ARGUMENTS`, `$1`… and `${CLAUDE_SKILL_DIR}` filled in.

    Arguments a body has no place for stand at its end. Nothing else is expanded or run.
    """
    parts = arguments.split()
    body = skill.body.replace("${CLAUDE_SKILL_DIR}", str(skill.folder))
    if re.search(r"\$(?:ARGUMENTS|[1-9])(?!\w)", body):
        body = re.sub(
            r"\$(ARGUMENTS|[1-9])(?!\w)",
            lambda m: arguments if m[1] == "ARGUMENTS" else _part(parts, int(m[1])),
            body,
        )
    elif arguments:
        body = f"{body.rstrip()}\n\nARGUMENTS: {arguments}\n"
    return body


def _part(parts: list[str], number: int) -> str:
    return parts[number - 1] if number <= len(parts) else ""
