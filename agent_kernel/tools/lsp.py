"""LSP: where a symbol is defined, used, called, and what is wrong in a file, by a language server.

May not change a file; what a server cannot do is said with its name and the ability that lacks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

import agent_kernel.tools.cells as cells
import agent_kernel.tools.files as files
from agent_kernel.core.messages import Json
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.lsp_client import RpcError, ServerEnded
from agent_kernel.tools.lsp_documents import CELL, language_of, path_of, units
from agent_kernel.tools.lsp_server import Server, server_of
from agent_kernel.tools.lsp_view import (
    View,
    call_lines,
    diagnostic_lines,
    hover_text,
    listed,
    locations,
    outline_lines,
    read_lines,
    symbol_lines,
)

TIMEOUT = 60.0
RETRIES = 5
OUTDATED = (-32801, -32802)  # ContentModified, ServerCancelled
SETTLE = 2.0  # seconds without a new publication before pushed diagnostics count
WORD = re.compile(r"[^\W\d]\w*")
ABILITIES = {
    "definition": "definitionProvider",
    "references": "referencesProvider",
    "implementation": "implementationProvider",
    "hover": "hoverProvider",
    "symbols": "workspaceSymbolProvider",
    "outline": "documentSymbolProvider",
    "callers": "callHierarchyProvider",
    "callees": "callHierarchyProvider",
}

DESCRIPTION = (
    "Ask a language server: the way to look when you know a symbol. definition, references, "
    "implementation, hover, callers, callees take `symbol` alone, or path and line (from 1) with "
    "symbol or column; symbols searches names; outline and diagnostics take a path (a notebook "
    "cell: a.ipynb#ID)."
)


class LspInput(Input):
    """Input of `lsp`."""

    action: Literal[
        "definition",
        "references",
        "implementation",
        "hover",
        "symbols",
        "outline",
        "diagnostics",
        "callers",
        "callees",
    ]
    path: str | None = None
    line: int | None = Field(None, ge=1)
    column: int | None = Field(None, ge=1)
    symbol: str | None = None


@dataclass(frozen=True)
class Ask:
    """One question to one server."""

    value: LspInput
    ctx: ToolContext
    server: Server

    @property
    def name(self) -> str:
        """The server's program, as people know it."""
        return Path(self.server.client.argv[0]).name

    @property
    def view(self) -> View:
        """How places are named."""
        client = self.server.client
        texts: dict[str, Sequence[str]] = {}

        def lines(uri: str) -> Sequence[str]:
            if uri not in texts:
                texts[uri] = self._lines(path_of(uri))
            return texts[uri]

        return View(self._name, lines, client.encoding)

    def _name(self, path: str) -> str:
        base, mark, cell = path.partition("#")
        return files.name_of(self.ctx, Path(base)) + mark + cell

    def _lines(self, path: str) -> list[str]:
        base, _, cell = path.partition("#")
        if not cell:
            return read_lines(base)
        sheet = cells.sheet_of("\n".join(read_lines(base)), base)
        return cells.source_of(sheet.cells[cells.find(sheet.cells, cell)]).split("\n")

    async def request(self, method: str, params: Json) -> Any:
        """Return the server's answer; one that a changed file has outdated is asked for again."""
        for _ in range(RETRIES):
            try:
                return await self.server.client.request(method, params, TIMEOUT)
            except RpcError as error:
                if error.code not in OUTDATED:
                    raise
                await asyncio.sleep(0.1)
        return await self.server.client.request(method, params, TIMEOUT)

    # ---- documents and positions -----------------------------------------------------------------

    def show(self) -> tuple[str, list[str]]:
        """Open the document that was asked about; its URI and lines."""
        wanted = self.value.path or ""
        base, _, cell = wanted.partition("#")
        place = files.locate(self.ctx, base)
        text = files.load(self.ctx, place).data.decode("utf-8", "replace")
        language = language_of(base) or "plaintext"
        if base.endswith(".ipynb"):
            return self._show_cell(place, text, cell)
        return self.server.documents.show(str(place.real), text, language), text.split("\n")

    def _show_cell(self, place: files.Place, text: str, cell: str) -> tuple[str, list[str]]:
        if "notebookDocumentSync" not in self.server.client.capabilities:
            raise ToolError(f"{self.name} lacks notebookDocumentSync: it takes no notebooks")
        found = cells.sheet_of(text, place.name).cells
        if not cell:
            raise ToolError(f"name the cell: {place.name}#{cells.name_of(found[0], 0)}")
        at = cells.find(found, cell)
        self.server.documents.show_notebook(str(place.real), found, "python")
        uri = f"{CELL}//{place.real.as_uri()[7:]}#{cells.name_of(found[at], at)}"
        return uri, cells.source_of(found[at]).split("\n")

    async def position(self) -> Json:
        """Return textDocument and position of the symbol that was asked about."""
        if self.value.path is None:
            return await self._by_name(self.value.symbol or "")
        uri, lines = self.show()
        line, column = self._line_and_column(lines)
        offset = units(lines[line], column, self.server.client.encoding)
        return {
            "textDocument": {"uri": uri},
            "position": {"line": line, "character": offset},
        }

    def _line_and_column(self, lines: list[str]) -> tuple[int, int]:
        value = self.value
        if value.line is None:
            if value.symbol is None:
                raise ToolError(f"{value.action} needs `symbol`, or `path` with `line`")
            shape = re.compile(rf"\b{re.escape(value.symbol)}\b")
            found = next(((n, m) for n, t in enumerate(lines) if (m := shape.search(t))), None)
            if found is None:
                raise ToolError(f"{value.symbol!r} is not in {value.path!r}")
            return found[0], found[1].start()
        if value.line > len(lines):
            raise ToolError(f"{value.path!r} has {len(lines)} lines: none is {value.line}")
        text = lines[value.line - 1]
        if value.symbol is not None:
            at = re.search(rf"\b{re.escape(value.symbol)}\b", text)
            if at is None:
                raise ToolError(f"{value.symbol!r} is not in line {value.line}: {text.strip()!r}")
            return value.line - 1, at.start()
        if value.column is not None:
            return value.line - 1, min(value.column - 1, len(text))
        first = WORD.search(text)
        return value.line - 1, first.start() if first else 0

    async def _by_name(self, symbol: str) -> Json:
        """Find a symbol's only definition by its name; `Class.method` names one of several."""
        last = symbol.rpartition(".")[2]
        found = await self.request("workspace/symbol", {"query": last}) or []
        exact = [each for each in found if each["name"] == last]
        places = {(e["location"]["uri"], e["location"]["range"]["start"]["line"]): e for e in exact}
        if not places:
            raise ToolError(f"no symbol {symbol!r} in this workspace; grep knows any text")
        if len(places) > 1:
            lines = "\n".join(symbol_lines(self.view, list(places.values())))
            raise ToolError(
                f"{symbol!r} is defined {len(places)} times; give path and line:\n{lines}"
            )
        where = next(iter(places.values()))["location"]
        uri, start = where["uri"], where["range"]["start"]
        text = read_lines(path_of(uri))
        for number in range(start["line"], min(start["line"] + 20, len(text))):
            if at := re.search(rf"\b{re.escape(last)}\b", text[number]):
                offset = units(text[number], at.start(), self.server.client.encoding)
                return {
                    "textDocument": {"uri": uri},
                    "position": {"line": number, "character": offset},
                }
        return {"textDocument": {"uri": uri}, "position": start}

    # ---- actions ---------------------------------------------------------------------------------

    async def places(self) -> list[str]:
        """Answer definition, references, implementation."""
        params = await self.position()
        if self.value.action == "references":
            params["context"] = {"includeDeclaration": True}
        found = await self.request(f"textDocument/{self.value.action}", params)
        view = self.view
        return [view.location(each) for each in locations(found)]

    async def hover(self) -> list[str]:
        """Answer hover."""
        text = hover_text(await self.request("textDocument/hover", await self.position()))
        return [text] if text else []

    async def symbols(self) -> list[str]:
        """Answer symbols."""
        if not self.value.symbol:
            raise ToolError("symbols needs `symbol`: a name or a part of one")
        found = await self.request("workspace/symbol", {"query": self.value.symbol})
        return symbol_lines(self.view, found or ())

    async def outline(self) -> list[str]:
        """Answer outline."""
        return outline_lines(await self._symbols(self._document()))

    async def calls(self) -> list[str]:
        """Answer callers and callees."""
        items = await self.request("textDocument/prepareCallHierarchy", await self.position())
        side = "from" if self.value.action == "callers" else "to"
        method = "incomingCalls" if side == "from" else "outgoingCalls"
        found: list[Json] = []
        for item in items or ():
            found += await self.request(f"callHierarchy/{method}", {"item": item}) or []
        return call_lines(self.view, found, side)

    async def diagnostics(self) -> list[str]:
        """Answer diagnostics: pulled where the server can, else waited for until they settle."""
        uri = self._document()
        symbols: Sequence[Json] = ()
        if self.server.client.capabilities.get("documentSymbolProvider"):
            symbols = await self._symbols(uri)
        if self.server.client.capabilities.get("diagnosticProvider"):
            said = await self.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
            found = said.get("items") or []
        else:
            found = await self._pushed(uri)
        return diagnostic_lines(self.view, uri, found, symbols)

    def _document(self) -> str:
        if self.value.path is None:
            raise ToolError(f"{self.value.action} needs `path`")
        return self.show()[0]

    async def _symbols(self, uri: str) -> list[Json]:
        said = await self.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
        return list(said or ())

    async def _pushed(self, uri: str) -> list[Json]:
        client, loop = self.server.client, asyncio.get_running_loop()
        seen, since, until = -1, loop.time(), loop.time() + TIMEOUT / 2
        while loop.time() < until:
            if client.publications[uri] != seen:
                seen, since = client.publications[uri], loop.time()
            patience = SETTLE if seen else until
            if loop.time() - since >= patience:
                break
            await asyncio.sleep(0.05)
        if not seen:
            raise ToolError(f"{self.name} published no diagnostics in {TIMEOUT / 2:.0f} s")
        return client.published[uri]


ACTIONS: dict[str, Callable[[Ask], Awaitable[list[str]]]] = {
    **dict.fromkeys(("definition", "references", "implementation"), Ask.places),
    "hover": Ask.hover,
    "symbols": Ask.symbols,
    "outline": Ask.outline,
    "diagnostics": Ask.diagnostics,
    **dict.fromkeys(("callers", "callees"), Ask.calls),
}


async def _answer(value: LspInput, ctx: ToolContext, language: str) -> tuple[list[str], Json]:
    """Ask the language's server; one that ended is started once more. `cold`: it had to start."""
    for last in (False, True):
        server = await server_of(ctx, language, TIMEOUT / 2)
        ask, cold = Ask(value, ctx, server), server.asked == 0
        server.asked += 1
        ability = ABILITIES.get(value.action)
        if ability is not None and not server.client.capabilities.get(ability):
            raise ToolError(f"{ask.name} lacks {ability}: it cannot answer {value.action}")
        try:
            await asyncio.to_thread(server.documents.watch, str(files.root(ctx)))
            return await ACTIONS[value.action](ask), {"server": ask.name, "cold": cold}
        except ServerEnded as error:
            server.close()
            if last:
                raise ToolError(f"{error}; it ended twice on this question") from None
        except RpcError as error:
            raise ToolError(f"{ask.name} refuses {value.action}: {error}") from None
    raise AssertionError("the second round returns or raises")


async def run(value: LspInput, ctx: ToolContext) -> Answer:
    """Return the server's answer as lines, at most 100."""
    if value.path is None and value.symbol is None:
        raise ToolError(f"{value.action} needs `symbol` or `path`")
    configured = list(ctx.services.get("lsp", ()))
    language = configured[0] if len(configured) == 1 else "python"
    if value.path is not None:
        language = language_of(value.path) or ""
    if not language:
        raise ToolError(f"no language is known for {value.path!r}; use grep or read")
    try:
        async with asyncio.timeout(TIMEOUT):
            lines, about = await _answer(value, ctx, language)
    except TimeoutError:
        raise ToolError(f"the language server gave no answer within {TIMEOUT:.0f} s") from None
    text, cut = listed(lines)
    meta: Json = {**about, "matched": len(lines), "truncated": cut, "tier": "symbol"}
    return text_answer(text or f"{about['server']} found nothing", taint="repo", **meta)


LSP = Tool(
    "lsp",
    DESCRIPTION,
    LspInput,
    run,
    concurrent=True,
    read_only=True,
    timeout=TIMEOUT + 10,
    early=True,
)
