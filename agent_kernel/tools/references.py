"""References: `@path` in a prompt: what it names, what may be offered for it, and its attaching.

May not put a file's content anywhere by itself: a reference stays a path until it is attached.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import agent_kernel.tools.files as files
import agent_kernel.tools.walker as walker
from agent_kernel.core.agent import Agent
from agent_kernel.core.events import Attachment, Event, FileObserved
from agent_kernel.core.messages import Block, Image, Json, Text
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Answer, Tool, ToolContext, ToolError
from agent_kernel.tools.read import IMAGE_BYTES, READ, image_type

OFFERED, SCANNED = 20, 10_000  # candidates; files looked at (features.md F3.2)
FRESH = 2.0  # seconds an index of a workspace counts
WHOLE, HEAD, TAIL = 20_000, 15_000, 5_000  # characters of an attached file
_REFERENCE = re.compile(
    r"""(?<![\w@`/])@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[\w./~+\-][^\s"`,;()<>]*))"""
    r"""(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?"""
)
_LINES = re.compile(r"(.+?):(\d+)(?:-(\d+))?$")
_RESOURCE = re.compile(r"([\w-]+):(\w[\w+.-]*:.+)$")


@dataclass(frozen=True)
class Reference:
    """One `@…` of a prompt: a path with the lines it names (None = all), or a server's resource."""

    path: str
    first: int | None = None
    last: int | None = None
    server: str | None = None


@dataclass(frozen=True)
class Candidate:
    """What may be offered for a reference: path and kind, no content."""

    path: str
    kind: Literal["file", "folder"]

    @property
    def word(self) -> str:
        """The reference as it is typed."""
        plain = re.fullmatch(r"[\w./~+\-]+", self.path) is not None
        return f"@{self.path}" if plain else f'@"{self.path}"'


def references(text: str) -> list[Reference]:
    """Return what the `@…` of a prompt name, in order, each once."""
    found: list[Reference] = []
    for match in _REFERENCE.finditer(text):
        if match["quoted"]:
            found.append(Reference(match["quoted"], *_span(match["first"], match["last"])))
            continue
        word = match["plain"].rstrip(".:!?'")
        resource = _RESOURCE.match(word)
        lines = _LINES.match(word)
        if resource:
            found.append(Reference(resource[2], server=resource[1]))
        elif lines:
            found.append(Reference(lines[1], *_span(lines[2], lines[3])))
        elif word:
            found.append(Reference(word))
    return list(dict.fromkeys(found))


def _span(first: str | None, last: str | None) -> tuple[int | None, int | None]:
    if first is None:
        return None, None
    return int(first), int(last) if last is not None else int(first)


# ---------------------------------------------------------------- what may be offered
_index: dict[Path, tuple[float, list[str]]] = {}


def index(root: Path) -> list[str]:
    """Return the files below a workspace by path, at most SCANNED of them.

    Ignored files, links and the folders nobody means are left out.
    """
    known = _index.get(root)
    if known is None or time.monotonic() - known[0] > FRESH:
        names = [name for _, name in islice(walker.files(str(root), str(root)), SCANNED)]
        known = _index[root] = (time.monotonic(), names)
    return known[1]


def candidates(root: Path, typed: str) -> list[Candidate]:
    """Return at most OFFERED files and folders that fit what was typed after `@`, best first."""
    word = typed.strip('"')
    if word.startswith("/") or ".." in word.split("/"):
        return []
    names = index(root.resolve())
    folders = dict.fromkeys(str(p) + "/" for n in names for p in Path(n).parents if str(p) != ".")
    ranked = sorted(
        (rank, path)
        for path in (*names, *folders)
        if (rank := _rank(path, word.casefold())) is not None
    )
    return [
        Candidate(path, "folder" if path.endswith("/") else "file") for _, path in ranked[:OFFERED]
    ]


def _rank(path: str, word: str) -> int | None:
    low = path.casefold()
    if low.startswith(word):
        return 0
    name = low.rstrip("/").rpartition("/")[2]
    if name.startswith(word):
        return 1
    return 2 if word in low else None


# ---------------------------------------------------------------- attaching
async def attach(
    session: Session, owner: Agent, wanted: Reference, *, by_person: bool = False
) -> Attachment:
    """Read what a reference names, log it as seen by the agent, and return its attachment, logged.

    `by_person` = a person asked for just this: what would be asked is allowed, a denial holds.
    Raises ToolError when it may not be read, is no file, or is none of text and picture.
    """
    context = owner.runner.context(session, "attach")
    if wanted.server is not None:
        made, seen = await _resource(owner, wanted, context), None
    else:
        _allowed(owner, READ, {"path": wanted.path}, context, by_person)
        made, seen = _file(wanted, context)
    events: list[Event] = [seen] if seen is not None else []
    stored = session.append(*events, made, agent=owner.id)[-1]
    assert isinstance(stored, Attachment)
    return stored


async def attach_all(session: Session, owner: Agent, text: str) -> list[str]:
    """Attach every file a prompt names (setting `file_refs: attach`); return why some were not."""
    problems: list[str] = []
    for wanted in references(text):
        try:
            await attach(session, owner, wanted)
        except ToolError as error:
            problems.append(f"{wanted.path}: {error}")
    return problems


def _allowed(owner: Agent, tool: Tool, value: Json, ctx: ToolContext, by_person: bool) -> None:
    said = owner.permit(tool, value, ctx)
    if said.verdict == "deny" or (said.verdict == "ask" and not by_person):
        raise ToolError(f"not attached: {said.reason or 'not allowed'}")


def _file(wanted: Reference, ctx: ToolContext) -> tuple[Attachment, FileObserved | None]:
    place = files.locate(ctx, wanted.path)
    loaded = files.load(ctx, place)
    meta: Json = {"path": place.name, "sha256": loaded.sha256, "taint": "repo"}
    seen = FileObserved(path=place.name, sha256=loaded.sha256, by="attach")
    if media := image_type(loaded.data):
        if len(loaded.data) > IMAGE_BYTES:
            raise ToolError(f"{place.name!r} is a picture of {len(loaded.data):,} bytes: too big")
        blocks = (Text(f"File: {place.name}"), Image.of(media, loaded.data))
        return _made(place.name, blocks, {**meta, "content_type": media}), seen
    text = walker.text_of(loaded.data)
    if text is None:
        raise ToolError(f"{place.name!r} is no text and no picture")
    lines = walker.lines_of(text.encode("utf-8", "replace").decode())
    first, last = wanted.first or 1, min(wanted.last or len(lines), len(lines))
    chosen = lines[first - 1 : last]
    body = "\n".join(chosen)
    whole = len(body) <= WHOLE and (first, last) == (1, len(lines))
    if len(body) > WHOLE:
        body = cut(place.name, chosen, first, len(lines))
    fence = fence_of(body)
    kind = Path(place.name).suffix.removeprefix(".")
    meta |= {"lines": [first, last], "total_lines": len(lines), "truncated": not whole}
    content = f"File: {place.name}\n{fence}{kind}\n{body}\n{fence}"
    return _made(place.name, (Text(content),), meta), seen if whole else None


def _made(label: str, blocks: tuple[Block, ...], meta: Json) -> Attachment:
    return Attachment(kind="file", label=label, content=blocks, meta=meta)


def cut(name: str, lines: list[str], first: int, total: int) -> str:
    """Return the head and tail of lines, whole ones, with what is left out named between."""
    head = _fitting(lines, HEAD)
    tail = _fitting(reversed(lines[len(head) :]), TAIL)[::-1]
    begin, end = first + len(head), first + len(lines) - len(tail) - 1
    notice = f"[lines {begin}-{end} of {total} left out: read({name!r}, offset={begin})]"
    if not head:
        head = [lines[0][:HEAD]]
        notice = f"[line {first} has {len(lines[0]):,} characters; {notice[1:]}"
    return "\n".join([*head, notice, *tail])


def _fitting(lines: Iterable[str], room: int) -> list[str]:
    found: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        found.append(line)
    return found


def fence_of(text: str) -> str:
    """Return a fence of backticks longer than any inside."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)


async def _resource(owner: Agent, wanted: Reference, ctx: ToolContext) -> Attachment:
    name = f"mcp__{wanted.server}__read_resource"
    found = next((tool for tool in owner.tools if tool.name == name), None)
    if found is None:
        raise ToolError(f"no server {wanted.server!r} offers resources")
    _allowed(owner, found, {"uri": wanted.path}, ctx, by_person=True)
    answer = Answer.of(await found.run(found.parse({"uri": wanted.path}), ctx))
    meta = {**answer.meta, "sha256": hashlib.sha256(str(answer.content).encode()).hexdigest()}
    label = f"{wanted.server}:{wanted.path}"
    return _made(label, answer.content, {**meta, "url": wanted.path, "taint": "mcp"})
