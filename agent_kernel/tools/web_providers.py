"""Web providers: exa and perplexity by key, and a folder of documents that needs no network.

May not show a key, follow a redirect, or return more than a source's excerpt.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_kernel.core.messages import Json
from agent_kernel.core.tool import ToolError
from agent_kernel.guard import page
from agent_kernel.tools.ranking import Index, counted, words
from agent_kernel.tools.walker import text_of, walk
from agent_kernel.tools.web import (
    EXCERPT,
    SECONDS,
    SOURCES,
    SearchProvider,
    Source,
    WebConfig,
    key_of,
)

BYTES = 5 << 20  # of an answer
DOCUMENTS = 2000
_KINDS = (".md", ".markdown", ".txt", ".rst", ".html", ".htm", ".adoc")


def _post(url: str, headers: dict[str, str], body: Json) -> tuple[int, bytes]:
    """Send JSON and return status and at most 5 MiB of the answer; redirects are not followed."""
    parts = urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        connection.request("POST", parts.path or "/", json.dumps(body).encode(), sent)
        response = connection.getresponse()
        return response.status, response.read(BYTES + 1)[:BYTES]
    finally:
        connection.close()


async def ask(name: str, url: str, headers: dict[str, str], key: str, body: Json) -> Any:
    """Return a service's JSON answer. Raises ToolError naming the service, never the key."""
    try:
        status, raw = await asyncio.to_thread(_post, url, headers, body)
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"{name} did not answer: {type(error).__name__}: {error}") from None
    said = raw.decode("utf-8", "replace").replace(key, "[key]")
    if status != http.HTTPStatus.OK:
        raise ToolError(f"{name} answered {status}: {' '.join(said[:300].split())}")
    try:
        return json.loads(said)
    except ValueError:
        raise ToolError(f"{name} answered no JSON: {' '.join(said[:100].split())}") from None


def _sources(name: str, answer: Any, text: str, date: str) -> list[Source]:
    """The sources of an answer's `results`; fields that are missing are empty."""
    found = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise ToolError(f"{name} answered without a list of results")
    return [
        Source(
            str(each.get("url") or ""),
            str(each.get("title") or ""),
            str(each.get(text) or "")[:EXCERPT],
            str(each.get(date) or "")[:10],
        )
        for each in found[:SOURCES]
        if isinstance(each, dict)
    ]


@dataclass(frozen=True)
class Exa:
    """exa.ai by EXA_API_KEY: `POST /search`, as documented at exa.ai/docs/reference/search."""

    id: str = "exa"

    def usable(self, _config: WebConfig) -> str:
        """Return "" when the key is set."""
        return "" if key_of("EXA_API_KEY") else "EXA_API_KEY is not set"

    async def search(
        self, query: str, allow: Collection[str], block: Collection[str], config: WebConfig
    ) -> list[Source]:
        """Return at most 8 sources."""
        key = key_of("EXA_API_KEY") or ""
        body: Json = {"query": query, "numResults": SOURCES}
        body["contents"] = {"text": {"maxCharacters": EXCERPT}}
        body |= {"includeDomains": sorted(allow)} if allow else {}
        body |= {"excludeDomains": sorted(block)} if block else {}
        url = config.base_urls.get(self.id, "https://api.exa.ai").rstrip("/") + "/search"
        answer = await ask(self.id, url, {"x-api-key": key}, key, body)
        return _sources(self.id, answer, "text", "publishedDate")


@dataclass(frozen=True)
class Perplexity:
    """perplexity.ai by PERPLEXITY_API_KEY: `POST /search`, its Search API."""

    id: str = "perplexity"

    def usable(self, _config: WebConfig) -> str:
        """Return "" when the key is set."""
        return "" if key_of("PERPLEXITY_API_KEY") else "PERPLEXITY_API_KEY is not set"

    async def search(
        self, query: str, allow: Collection[str], block: Collection[str], config: WebConfig
    ) -> list[Source]:
        """Return at most 8 sources."""
        key = key_of("PERPLEXITY_API_KEY") or ""
        body: Json = {"query": query, "max_results": SOURCES}
        if allow or block:  # the service takes one list: names to keep, or names with a minus
            body["search_domain_filter"] = sorted(allow) or [f"-{name}" for name in sorted(block)]
        url = config.base_urls.get(self.id, "https://api.perplexity.ai").rstrip("/") + "/search"
        headers = {"Authorization": f"Bearer {key}"}
        answer = await ask(self.id, url, headers, key, body)
        return _sources(self.id, answer, "snippet", "date")


@dataclass(frozen=True)
class Folder:
    """A folder of documents (Markdown, text, HTML) ranked by BM25; its names are `folder:PATH`."""

    id: str = "folder"

    def usable(self, config: WebConfig) -> str:
        """Return "" when a folder is set and there."""
        if config.folder is None:
            return "no folder is set"
        return "" if config.folder.is_dir() else f"{str(config.folder)!r} is no folder"

    async def search(
        self, query: str, _allow: Collection[str], _block: Collection[str], config: WebConfig
    ) -> list[Source]:
        """Return at most 8 documents that share a word with the query; hosts play no part."""
        assert config.folder is not None
        return await asyncio.to_thread(self._search, query, config.folder.resolve())

    @staticmethod
    def _search(query: str, folder: Path) -> list[Source]:
        documents: list[tuple[str, str]] = []
        for path in walk(str(folder)):
            if path.lower().endswith(_KINDS) and len(documents) < DOCUMENTS:
                text = text_of(Path(path).read_bytes()[:BYTES])
                if text is not None:
                    plain = page.text_of(text)[0] if ".htm" in path.lower()[-5:] else text
                    documents.append((path[len(str(folder)) + 1 :], plain))
        index = Index([counted(((name, 3), (text, 1))) for name, text in documents])
        asked = words(query)
        scores = index.scores(asked)
        order = sorted(range(len(documents)), key=lambda at: (-scores[at], documents[at][0]))
        return [
            Source(
                f"folder:{documents[at][0]}",
                documents[at][0],
                excerpt(documents[at][1], set(asked)),
            )
            for at in order[:SOURCES]
            if scores[at] > 0
        ]


def excerpt(text: str, asked: set[str]) -> str:
    """Return the part of a text with most of the words asked for, 1,500 characters at most."""
    lines = text.split("\n")
    window, best, found = 20, -1, 0
    for at in range(0, max(1, len(lines)), window // 2):
        score = len(asked & set(words("\n".join(lines[at : at + window]))))
        if score > best:
            best, found = score, at
    return "\n".join(lines[found : found + window]).encode("utf-8", "replace").decode()[:EXCERPT]


SHIPPED: tuple[SearchProvider, ...] = (Exa(), Folder(), Perplexity())
