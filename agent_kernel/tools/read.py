"""Read: a file as the model sees it: numbered lines, a picture, the cells of a notebook, PDF pages.

May not return an unbounded answer; what it has hashed it notes as seen, so that it may be changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import io
import mimetypes
import os
import re
from typing import Any

from pydantic import Field

import agent_kernel.tools.cells as cells
import agent_kernel.tools.files as files
from agent_kernel.core.messages import Image, Json
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.window import Window, chunks_of, read_window

LINES = 2000
BYTES = 50 << 10  # of one answer
IMAGE_BYTES = 5 << 20
PAGES = 20
BLOB = re.compile(r"blob[: ]([0-9a-f]{64})")  # a spilled result of a session without a folder

DESCRIPTION = (
    "Read a file: text as numbered lines (2,000 lines or 50 KiB, then how to go on), pictures, "
    ".ipynb as cells, PDF as pages (offset and limit count these). Known path: read; known text: "
    "grep; known symbol: lsp; only an idea: concept_search."
)


class ReadInput(Input):
    """Input of `read`."""

    path: str = Field(min_length=1)
    offset: int = Field(1, ge=1, description="first line")
    limit: int = Field(LINES, ge=1, le=LINES)


def image_type(head: bytes) -> str | None:
    """Return the media type of a picture by its first bytes, None for anything else."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def _run(value: ReadInput, ctx: ToolContext) -> Answer:
    if spilled := BLOB.fullmatch(value.path):
        return _blob(spilled[1], value, ctx)
    place = files.locate(ctx, value.path)
    with files.opened(ctx, place) as fd:
        size = os.fstat(fd).st_size
        head = os.pread(fd, 8192, 0)
        if media_type := image_type(head):
            return _image(place, fd, size, media_type)
        if head.startswith(b"%PDF-"):
            return _pdf(place, fd, size, value)
        if b"\0" in head:
            return _binary(place, size, head)
        if place.name.endswith(".ipynb"):
            return _notebook(place, files.read_all(fd), value)
        window = read_window(chunks_of(fd), size, value.offset, value.limit, BYTES)
    return _lines(place.name, window, value, size)


def _lines(name: str, window: Window, value: ReadInput, size: int) -> Answer:
    meta: Json = {
        "path": name,
        "lines": [window.first, window.last],
        "total_lines": window.total,
        "truncated": window.more,
        "original_bytes": size,
        "sha256": window.sha256,
    }
    if not window.lines:
        if size == 0:
            return _answer("[the file is empty]", meta)
        raise ToolError(f"{name!r} has {window.total or 'fewer'} lines: none at {value.offset}")
    text = "\n".join(f"{window.first + i}\t{line}" for i, line in enumerate(window.lines))
    if window.more:
        of = f" of {window.total:,}" if window.total is not None else ""
        text += (
            f"\n[lines {window.first}-{window.last}{of}; "
            f"read(path={name!r}, offset={window.last + 1}) goes on]"
        )
    return _answer(text, meta)


def _answer(text: str, meta: Json) -> Answer:
    return text_answer(text, taint="repo", tier="path", **meta)


def _blob(sha256: str, value: ReadInput, ctx: ToolContext) -> Answer:
    """A spilled result by its hash: for a session without a folder it has no path."""
    try:
        data = ctx.session.blobs.get(sha256)
    except KeyError:
        raise ToolError(f"this session has no {value.path!r}") from None
    window = read_window([data], len(data), value.offset, value.limit, BYTES)
    return _lines(value.path, window, value, len(data))


def _image(place: files.Place, fd: int, size: int, media_type: str) -> Answer:
    if size > IMAGE_BYTES:
        raise ToolError(
            f"{place.name!r} is a picture of {size:,} bytes, over {IMAGE_BYTES:,}; make it smaller"
        )
    data = files.read_all(fd)
    text = f"{place.name}: {media_type}, {size:,} bytes"
    told = _answer(text, {"path": place.name, "content_type": media_type, "original_bytes": size})
    meta = {**told.meta, "sha256": hashlib.sha256(data).hexdigest()}
    return Answer((*told.content, Image.of(media_type, data)), meta)


def _binary(place: files.Place, size: int, head: bytes) -> Answer:
    kind = mimetypes.guess_type(place.name)[0] or "unknown kind"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        kind = "UTF-16 text; convert it to UTF-8 to read it"
    text = f"{place.name}: binary file, {kind}, {size:,} bytes; its content is not shown"
    return _answer(text, {"path": place.name, "original_bytes": size, "truncated": True})


def _notebook(place: files.Place, data: bytes, value: ReadInput) -> Answer:
    sheet = cells.sheet_of(data.decode("utf-8", "replace"), place.name)
    shown = [cells.shown(cell, at) for at, cell in enumerate(sheet.cells)]
    return _pages(shown, "cell", place.name, value, hashlib.sha256(data).hexdigest())


def _pages(pages: list[str], word: str, name: str, value: ReadInput, sha256: str) -> Answer:
    """Cells or pages from `offset` on, as many as fit."""
    most = PAGES if word == "page" else LINES
    total, left, taken = len(pages), BYTES, list[str]()
    for page in pages[value.offset - 1 :][: min(value.limit, most)]:
        left -= len(page.encode("utf-8", "replace")) + 2
        if left < 0 and taken:
            break
        taken.append(page if left >= 0 else page.encode()[:BYTES].decode("utf-8", "ignore"))
    if not taken:
        raise ToolError(f"{name!r} has {total} {word}s: none at {value.offset}")
    last = value.offset + len(taken) - 1
    text = "\n\n".join(taken)
    if last < total:
        text += f"\n[{word}s {value.offset}-{last} of {total}; offset={last + 1} goes on]"
    meta: Json = {"path": name, f"{word}s": [value.offset, last], "sha256": sha256}
    return _answer(text, {**meta, "truncated": last < total})


def _pdf(place: files.Place, fd: int, size: int, value: ReadInput) -> Answer:
    if size > files.EDITABLE:
        raise ToolError(f"{place.name!r} is a PDF of {size:,} bytes, over {files.EDITABLE:,}")
    try:
        pypdf: Any = importlib.import_module("pypdf")
    except ImportError:
        raise ToolError(
            f"{place.name!r} is a PDF of {size:,} bytes; pip install 'agent-kernel[pdf]' to read it"
        ) from None
    data = files.read_all(fd)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        total = len(reader.pages)
        wanted = range(value.offset - 1, min(total, value.offset - 1 + min(value.limit, PAGES)))
        made = {at: f"[page {at + 1}]\n{reader.pages[at].extract_text()}" for at in wanted}
    except pypdf.errors.PyPdfError as error:
        raise ToolError(f"{place.name!r} cannot be read as a PDF: {error}") from None
    pages = [made.get(at, "") for at in range(total)]
    return _pages(pages, "page", place.name, value, hashlib.sha256(data).hexdigest())


async def run(value: ReadInput, ctx: ToolContext) -> Answer:
    """Return what the file holds, bounded, and note what was seen."""
    told = await asyncio.to_thread(_run, value, ctx)
    if told.meta.get("sha256") and not BLOB.fullmatch(value.path):
        files.observe(ctx, told.meta["path"], told.meta["sha256"], "read")
    return told


READ = Tool(
    "read", DESCRIPTION, ReadInput, run, concurrent=True, read_only=True, timeout=60.0, spill=False
)
