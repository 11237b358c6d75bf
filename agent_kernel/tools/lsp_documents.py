"""LSP documents: the files a server is shown, kept equal to the disk, and positions in them.

May not write a file; a position is a line and a character for people, and units for the server.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import agent_kernel.tools.cells as cells
from agent_kernel.core.messages import Json
from agent_kernel.tools.walker import walk

WATCHED = 10_000
LANGUAGES = {
    **dict.fromkeys((".py", ".pyi", ".ipynb"), "python"),
    **dict.fromkeys((".ts", ".tsx", ".mts", ".cts"), "typescript"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hpp", ".hh"), "cpp"),
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    ".rb": "ruby",
    ".lua": "lua",
    ".sh": "shellscript",
}
CELL = "cell:"


def language_of(path: str) -> str | None:
    """Return the language of a file by its suffix, None when we know none."""
    return LANGUAGES.get(Path(path.partition("#")[0]).suffix.lower())


def path_of(uri: str) -> str:
    """Return the path of a file URI; a cell's is its notebook's with `#ID`."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    return f"{path}#{parts.fragment}" if parts.scheme == "cell" else path


def units(line: str, characters: int, encoding: str) -> int:
    """Return the server's offset of a character (from 0) of a line."""
    head = line[:characters]
    if encoding == "utf-8":
        return len(head.encode("utf-8", "surrogatepass"))
    if encoding == "utf-32":
        return len(head)
    return len(head.encode("utf-16-le", "surrogatepass")) // 2


def characters(line: str, offset: int, encoding: str) -> int:
    """Return the character (from 0) of a line that a server's offset means."""
    if encoding == "utf-32":
        return min(offset, len(line))
    name, size = ("utf-8", 1) if encoding == "utf-8" else ("utf-16-le", 2)
    raw = line.encode(name, "surrogatepass")[: offset * size]
    return len(raw.decode(name, "ignore"))


@dataclass
class Documents:
    """What one server was told: open documents by URI, and the stamps of the files it watches."""

    notify: Callable[[str, Json], None]
    opened: dict[str, tuple[int, str]] = field(default_factory=dict)
    stamps: dict[str, tuple[int, int]] | None = None

    def watch(self, root: str) -> None:
        """Tell the server which files below `root` came, changed or went since the last call."""
        found: dict[str, tuple[int, int]] = {}
        for path in walk(root):
            if language_of(path) is not None:
                info = os.stat(path)  # noqa: PTH116 - ten thousand of them
                found[path] = (info.st_mtime_ns, info.st_size)
            if len(found) >= WATCHED:
                break
        if self.stamps is not None:
            kinds = [
                *((path, 1) for path in found.keys() - self.stamps.keys()),
                *((p, 2) for p in found.keys() & self.stamps.keys() if found[p] != self.stamps[p]),
                *((path, 3) for path in self.stamps.keys() - found.keys()),
            ]
            if kinds:
                events = [{"uri": Path(p).as_uri(), "type": kind} for p, kind in sorted(kinds)]
                self.notify("workspace/didChangeWatchedFiles", {"changes": events})
        self.stamps = found

    def show(self, path: str, text: str, language: str) -> str:
        """Open the document, or tell its new text; its URI."""
        uri = Path(path).as_uri()
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        version, known = self.opened.get(uri, (0, ""))
        if known == digest:
            return uri
        self.opened[uri] = (version + 1, digest)
        if version == 0:
            item = {"uri": uri, "languageId": language, "version": 1, "text": text}
            self.notify("textDocument/didOpen", {"textDocument": item})
        else:
            identity = {"uri": uri, "version": version + 1}
            change = {"textDocument": identity, "contentChanges": [{"text": text}]}
            self.notify("textDocument/didChange", change)
        return uri

    def show_notebook(self, path: str, found: list[Json], language: str) -> dict[str, str]:
        """Open a notebook anew with its code cells; the URI of each by its id."""
        uri = Path(path).as_uri()
        version, _ = self.opened.get(uri, (0, ""))
        uris = {
            cells.name_of(cell, at): f"{CELL}//{Path(path).as_uri()[7:]}#{cells.name_of(cell, at)}"
            for at, cell in enumerate(found)
            if cell.get("cell_type") == "code"
        }
        if version:
            closed = [{"uri": each} for each in uris.values()]
            self.notify(
                "notebookDocument/didClose",
                {"notebookDocument": {"uri": uri}, "cellTextDocuments": closed},
            )
        self.opened[uri] = (version + 1, "")
        texts = [
            {
                "uri": uris[name],
                "languageId": language,
                "version": 1,
                "text": cells.source_of(cell),
            }
            for at, cell in enumerate(found)
            if (name := cells.name_of(cell, at)) in uris
        ]
        notebook = {
            "uri": uri,
            "notebookType": "jupyter-notebook",
            "version": version + 1,
            "cells": [{"kind": 2, "document": each} for each in uris.values()],
        }
        self.notify(
            "notebookDocument/didOpen",
            {"notebookDocument": notebook, "cellTextDocuments": texts},
        )
        return uris
