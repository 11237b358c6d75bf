"""Python: code run in the live namespace: the kernel's, else that of a worker process.

May not run anything in this process itself: the roof hands in `run_cell`, or a worker is started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pydantic import Field

import agent_kernel.tools.files as files
from agent_kernel.core.messages import Block, Image, Json, Text
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext
from agent_kernel.tools.cell_result import CellResult
from agent_kernel.tools.worker import GRACE, worker_of

__all__ = ["PYTHON", "CellResult", "PythonInput", "answer_of", "run"]

TIMEOUT, LONGEST = 120, 3600  # seconds
IMAGES, IMAGE_BYTES = 4, 4 << 20

DESCRIPTION = (
    "Run Python in the person's live namespace: their variables are there by name, and names you "
    "set stay. Returns what was printed, the last expression's value, figures, errors, and which "
    "names changed. Use it to compute and to look at data."
)


class PythonInput(Input):
    """Input of `python`."""

    code: str = Field(min_length=1)
    timeout: int = Field(TIMEOUT, ge=1, le=LONGEST, description="seconds")


def _names(diff: Json) -> str:
    """One line of the names that came (+), changed (~) and went (-)."""
    parts = [f"+ {name} {words}" for name, words in (diff.get("added") or {}).items()]
    parts += [f"~ {name} {words}" for name, words in (diff.get("changed") or {}).items()]
    parts += [f"- {name}" for name in diff.get("removed") or ()]
    return "; ".join(parts[:50]) + (f"; {len(parts) - 50} more" if len(parts) > 50 else "")


def answer_of(result: CellResult, broken: list[str]) -> Answer:
    """Return what the model is told of a run; `broken` names protected variables it changed."""
    parts = [result.stdout.rstrip("\n")]
    if result.stderr.strip():
        parts.append("[stderr]\n" + result.stderr.rstrip("\n"))
    if result.value_text is not None:
        parts.append(result.value_text)
    if result.error is not None:
        parts.append(result.traceback.rstrip("\n") or result.error)
    if broken:
        parts.append(f"[error: this changed the protected {', '.join(broken)}; restore it]")
    if names := _names(result.namespace_diff):
        parts.append(f"[names: {names}]")
    text = "\n".join(part for part in parts if part) or "[no output]"
    pictures = [Image.of(kind, data) for kind, data in result.images if len(data) <= IMAGE_BYTES]
    left = len(result.images) - len(pictures[:IMAGES])
    if left:
        text += f"\n[{left} figures not shown]"
    content: tuple[Block, ...] = (Text(text), *pictures[:IMAGES])
    meta: Json = {"namespace": result.namespace_diff, "seconds": result.seconds}
    if result.error is not None:
        meta["error_kind"] = result.error.partition(":")[0]
    if broken:
        meta |= {"error_kind": "protected", "protected": broken}
    return Answer(content, meta, is_error=result.error is not None or bool(broken))


async def _in_worker(
    value: PythonInput, ctx: ToolContext, show: Callable[[str], None]
) -> tuple[CellResult, list[str]]:
    worker = await asyncio.to_thread(worker_of, ctx.session, files.root(ctx))
    protect = ctx.services.get("protect", ())
    loop = asyncio.get_running_loop()

    def live(text: str) -> None:
        loop.call_soon_threadsafe(show, text)

    running = loop.run_in_executor(None, worker.run, value.code, value.timeout, live, protect)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        worker.interrupt()
        await asyncio.wait({running}, timeout=GRACE + 1)
        raise


async def run(value: PythonInput, ctx: ToolContext) -> Answer:
    """Run the code and return what it gave."""
    run_cell = ctx.services.get("run_cell")
    if run_cell is None:
        result, broken = await _in_worker(value, ctx, ctx.progress)
    else:
        result = await run_cell(value.code, value.timeout, ctx.progress)
        changed = {
            *result.namespace_diff.get("changed", {}),
            *result.namespace_diff.get("removed", ()),
        }
        broken = sorted(changed.intersection(ctx.services.get("protect", ())))
    return answer_of(result, broken)


PYTHON = Tool("python", DESCRIPTION, PythonInput, run)
