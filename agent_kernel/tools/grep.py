"""Grep: the lines of files that match a regular expression, by ripgrep or by our own worker.

May not follow links, run a preprocessor, or search what ignore files hide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Literal

from pydantic import Field

import agent_kernel.tools.engine as engine
import agent_kernel.tools.files as files
import agent_kernel.tools.globs as globs
from agent_kernel.core.messages import Json
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.guard.paths import secret

TIMEOUT = 20.0  # seconds
LIMIT, MOST = 250, 2000  # lines or files of one answer
LINE_CHARS = 500
LINE = re.compile(rb"(\d+)([:-])")

DESCRIPTION = (
    "Search file contents by regular expression: the way to look when you know some of the text. "
    "mode `lines` gives path:line:text, `files` the paths, `count` hits per file; `glob` keeps "
    "some files (`*.py`, `src/**/*.ts`). Ignored, binary and over 5 MiB files are skipped."
)


class GrepInput(Input):
    """Input of `grep`."""

    pattern: str = Field(min_length=1, max_length=4000)
    path: str = Field(".", description="file or folder")
    glob: str | None = None
    mode: Literal["lines", "files", "count"] = "lines"
    context: int = Field(0, ge=0, le=20, description="lines around each match")
    ignore_case: bool = False
    limit: int = Field(LIMIT, ge=1, le=MOST)


class Found:
    """Collects an engine's output: the first `limit` hits as text, the rest counted."""

    def __init__(
        self, mode: str, limit: int, wanted: Callable[[str], bool], may_read: Callable[[str], bool]
    ) -> None:
        self.mode = mode
        self.may_read = may_read
        self.limit = limit
        self.wanted = wanted
        self.hits = 0  # matching lines, or files
        self.lines: list[str] = []
        self._rest = b""
        self._seen: dict[bytes, str | None] = {}
        self.withheld: list[str] = []  # files whose reading a person has to allow by name

    def take(self, chunk: bytes) -> None:
        """Take the next bytes of the engine."""
        data = self._rest + chunk
        end = b"\0" if self.mode == "files" else b"\n"
        *whole, self._rest = data.split(end)
        for piece in whole:
            self._one(piece)

    def _one(self, piece: bytes) -> None:
        if self.mode == "files":
            self._add(self._name(piece), "")
        elif piece.rstrip(b"\r") == b"--":  # --crlf ends our lines so, too
            if self.lines and self.lines[-1] != "--" and self.hits < self.limit:
                self.lines.append("--")
        else:
            path, nul, rest = piece.partition(b"\0")
            if nul:  # else a word about a binary file
                self._line(path, rest)

    def _line(self, path: bytes, rest: bytes) -> None:
        name = self._name(path)
        if self.mode == "count":
            self._add(name, f":{rest.decode().strip()}")
            return
        if (number := LINE.match(rest)) is None:
            return
        text = rest[number.end() : number.end() + 4 * LINE_CHARS].decode("utf-8", "replace")
        text = text.rstrip("\r")
        if len(text) > LINE_CHARS:
            text = f"{text[:LINE_CHARS]} [line cut]"
        sep = number[2].decode()
        self._add(name, f"{sep}{number[1].decode()}{sep}{text}", hit=sep == ":")

    def _add(self, name: str | None, text: str, hit: bool = True) -> None:
        if name is None:
            return
        self.hits += hit
        if self.hits <= self.limit and (hit or self.hits < self.limit or self.lines):
            self.lines.append(name + text)

    def _name(self, raw: bytes) -> str | None:
        if raw not in self._seen:
            name = raw.decode("utf-8", "replace").removeprefix("./")
            allowed = self.may_read(name)
            self._seen[raw] = name if allowed and self.wanted(name) else None
            if not allowed:
                self.withheld.append(name)
        return self._seen[raw]

    @property
    def text(self) -> str:
        """What was collected, without a separator at its end."""
        lines = self.lines[:-1] if self.lines and self.lines[-1] == "--" else self.lines
        return "\n".join(lines)


async def search(
    query: engine.Query,
    limit: int,
    program: str | None,
    timeout: float = TIMEOUT,
    may_read: Callable[[str], bool] | None = None,
) -> tuple[Found, engine.Ran]:
    """Return what the engine found. Raises ToolError with its words when it refuses the pattern."""
    try:
        wanted = globs.name_or_path(query.glob) if query.glob else _any
        found = Found(query.mode, limit, wanted, may_read or _any)
        ran = await engine.run(query, found.take, timeout, program)
    except ValueError as error:
        raise ToolError(str(error)) from None
    if ran.code is None and not found.hits:
        raise ToolError(
            f"no match of {query.pattern!r} within {timeout:.0f} s, so the search was stopped: "
            "give a simpler pattern or a smaller path"
        )
    if ran.code not in (0, 1, None) and ran.error:
        raise ToolError(f"{ran.engine} refuses {query.pattern!r}: {ran.error}")
    return found, ran


def _any(_name: str) -> bool:
    return True


def _permitted(ctx: ToolContext, place: files.Place) -> Callable[[str], bool]:
    """What may be shown: the file the call names was judged; others may hold secrets."""
    base, named = files.root(ctx), place.target.real
    judge: Callable[[str], bool] = ctx.services.get("may_read", _any)

    def may_read(name: str) -> bool:
        path = os.path.normpath(base / name)
        return path == named or (not secret(path) and judge(path))

    return may_read


async def run(value: GrepInput, ctx: ToolContext) -> Answer:
    """Return the matches in path order, at most `limit`, and how many there are in all."""
    place = files.locate(ctx, value.path)
    if place.target.kind == "missing":
        raise ToolError(files.missing(ctx, place, "file or folder"))
    query = engine.Query(
        value.mode,
        place.real,
        files.root(ctx),
        value.pattern,
        value.glob,
        value.context,
        value.ignore_case,
    )
    may_read = _permitted(ctx, place)
    found, ran = await search(query, value.limit, engine.ripgrep(), may_read=may_read)
    cut = found.hits > value.limit or ran.code is None
    meta: Json = {"path": place.name, "engine": ran.engine, "matched": found.hits}
    meta |= {"truncated": cut, "taint": "repo", "tier": "text"}
    held = f"\n[not shown, read it by name: {', '.join(found.withheld[:10])}]"
    held = held if found.withheld else ""
    if not found.hits:
        where = f"{place.name} (glob {value.glob!r})" if value.glob else place.name
        return text_answer(f"no match for {value.pattern!r} in {where}{held}", **meta)
    word = "matching lines" if value.mode == "lines" else "files"
    text = found.text
    if found.hits > value.limit:
        text += f"\n[{value.limit} of {found.hits:,} {word} shown; narrow pattern, path or glob]"
    if ran.code is None:
        text += f"\n[stopped after {TIMEOUT:.0f} s: there may be more]"
    return text_answer(text + held, **meta)


GREP = Tool(
    "grep",
    DESCRIPTION,
    GrepInput,
    run,
    concurrent=True,
    read_only=True,
    timeout=TIMEOUT + 10,
    early=True,
)
