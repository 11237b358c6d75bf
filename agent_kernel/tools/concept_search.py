"""Concept search: the last way to look, when neither path, text nor symbol is known.

May not be taken for understanding: it ranks words (BM25) unless an embedder joined.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import weakref
from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

import agent_kernel.tools.files as files
from agent_kernel.core.messages import Json
from agent_kernel.core.session import Session
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.concepts import Book, Library, Passage
from agent_kernel.tools.ranking import Index, words

GROUP = "agent_kernel.rankers"
SHOWN, WIDE = 3, 160  # lines of a passage, characters of a line
PER_FILE = 2  # passages of one file

DESCRIPTION = (
    "Find where an idea lives in the workspace, by ranked words (BM25). The last way to look: with "
    "a known path use read, with known text grep, with a known symbol lsp."
)


class Ranker(Protocol):
    """What orders passages for a question; a package joins by the group `agent_kernel.rankers`."""

    name: str

    def scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return one score a passage; 0 or less is no match."""
        ...


class Bm25:
    """The ranker that is always there."""

    name = "BM25"

    def scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return the BM25 score of each passage."""
        return Index([passage.counts for passage in passages]).scores(words(query))


class ConceptInput(Input):
    """Input of `concept_search`."""

    query: str = Field(min_length=1, max_length=1000)
    path: str = "."
    limit: int = Field(10, ge=1, le=50)


def ranker() -> Ranker:
    """Return the one ranker another package brings, else BM25. Raises ToolError when two do."""
    found = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: entry.name)
    if len(found) > 1:
        names = ", ".join(entry.name for entry in found)
        raise ToolError(f"several rankers are installed: {names}; keep one")
    made: Ranker = found[0].load()() if found else Bm25()
    return made


_LIBRARIES: weakref.WeakKeyDictionary[Session, Library] = weakref.WeakKeyDictionary()


def best(book: Book, scores: Sequence[float], limit: int) -> list[Passage]:
    """Return the best passages, at most two of a file; ties by path and line."""
    order = sorted(
        (at for at in range(len(scores)) if scores[at] > 0),
        key=lambda at: (-scores[at], book.passages[at].path, book.passages[at].first),
    )
    taken: dict[str, int] = {}
    found: list[Passage] = []
    for at in order:
        passage = book.passages[at]
        taken[passage.path] = taken.get(passage.path, 0) + 1
        if taken[passage.path] <= PER_FILE:
            found.append(passage)
        if len(found) == limit:
            break
    return found


def shown(passage: Passage, asked: set[str]) -> str:
    """Return a passage as path, lines and the lines that hold most of the words asked for."""
    scored = [(len(asked & set(words(line))), -at) for at, line in enumerate(passage.lines)]
    places = sorted(-at for _, at in sorted(scored, reverse=True)[:SHOWN])
    lines = [
        f"  {passage.first + at}: {passage.lines[at].strip()[:WIDE]}"
        for at in places
        if passage.lines[at].strip()
    ]
    last = passage.first + len(passage.lines) - 1
    return "\n".join((f"{passage.path}:{passage.first}-{last}", *lines))


def _run(value: ConceptInput, ctx: ToolContext) -> Answer:
    start, where = files.folder(ctx, value.path)
    library = _LIBRARIES.setdefault(ctx.session, Library())
    book = library.book(str(start), str(files.root(ctx)))
    how = ranker()
    found = best(book, how.scores(value.query, book.passages), value.limit)
    note = f"[ranked by {how.name} over {book.files:,} files"
    note += f"; {book.left_out}]" if book.left_out else "]"
    meta: Json = {"path": where, "ranker": how.name, "matched": len(found), "tier": "concept"}
    meta |= {"taint": "repo", "truncated": bool(book.left_out)}
    if not found:
        return text_answer(f"nothing shares a word with {value.query!r}\n{note}", **meta)
    asked = set(words(value.query))
    text = "\n".join(shown(passage, asked) for passage in found)
    return text_answer(f"{text}\n{note}", **meta)


async def run(value: ConceptInput, ctx: ToolContext) -> Answer:
    """Return the best passages, and which ranker found them."""
    return await asyncio.to_thread(_run, value, ctx)


CONCEPT_SEARCH = Tool(
    "concept_search",
    DESCRIPTION,
    ConceptInput,
    run,
    concurrent=True,
    read_only=True,
    timeout=60.0,
    early=True,
)
