"""LSP: a question to the language server of this project's own source, cold and warm, beside grep.

May not judge the answers: tests/tools/test_lsp_own_source.py does.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from bench.row import Row

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ("next_action", "attachments_due", "callable_tool", "place_marks", "validate_messages")


async def _seconds(repeat: int) -> tuple[list[float], list[float], list[float]]:
    """Return the seconds of first questions, of later ones, and of greps for the same names."""
    from agent_kernel.core.session import Session
    from agent_kernel.core.tool import Tool, ToolContext
    from agent_kernel.tools import lsp_server
    from agent_kernel.tools.grep import GREP
    from agent_kernel.tools.lsp import LSP

    context = ToolContext(Session(), "main", "bench", ROOT)

    async def timed(tool: Tool, **given: str) -> float:
        began = time.perf_counter()
        await tool.run(tool.parse(given), context)
        return time.perf_counter() - began

    cold, warm, grep = [], [], []
    for _ in range(repeat):
        lsp_server.close_all()
        found = [await timed(LSP, action="references", symbol=name) for name in QUESTIONS]
        cold.append(found[0])
        warm += found[1:]
        grep += [await timed(GREP, pattern=rf"\b{name}\b", glob="*.py") for name in QUESTIONS[1:]]
    lsp_server.close_all()
    return cold, warm, grep


def rows(repeat: int) -> list[Row]:
    """References of five functions of the core: the first starts the server, the rest find it."""
    cold, warm, grep = (statistics.median(each) for each in asyncio.run(_seconds(repeat)))
    return [
        Row("lsp references, cold | grep", cold, grep),
        Row("lsp references, warm | grep", warm, grep),
    ]
