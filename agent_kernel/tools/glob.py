"""Glob: the files whose path fits a pattern, in path order.

May not read a file; what ignore files hide it does not show.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

import agent_kernel.tools.engine as engine
import agent_kernel.tools.globs as globs
from agent_kernel.core.messages import Json
from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer
from agent_kernel.tools.files import folder

SHOWN = 100  # paths in one answer
TIMEOUT = 20.0  # seconds
HINTED = 50_000  # paths looked at for the hint when nothing fits

DESCRIPTION = (
    "Find files by path pattern: `*` within one part, `**` any folders, `{a,b}`, `[ab]`; "
    "`**/*.py` is every Python file. Ignored files are left out. At most 100 paths, in path order."
)


class GlobInput(Input):
    """Input of `glob`."""

    pattern: str = Field(min_length=1, max_length=1000)
    path: str = Field(".", description="folder to search")


async def find(
    pattern: str, start: Path, base: Path, program: str | None, timeout: float = TIMEOUT
) -> tuple[list[str], list[str], engine.Ran]:
    """Return (paths below `start` that fit, all paths below it, how the engine ended).

    Paths are relative to `start`, sorted part by part. Raises ValueError on a bad pattern.
    """
    fits = globs.matcher(pattern.removeprefix("./"))
    data = bytearray()
    query = engine.Query("list", start, start)
    ran = await engine.run(query, data.extend, timeout, program)
    paths = [raw.decode("utf-8", "surrogateescape") for raw in data.split(b"\0")[:-1]]
    paths = [path.removeprefix("./") for path in paths]
    paths.sort(key=lambda path: path.encode("utf-8", "surrogateescape").split(b"/"))
    return [path for path in paths if fits(path)], paths, ran


def _nothing(value: GlobInput, where: str, paths: list[str]) -> str:
    text = f"no file fits {value.pattern!r} in {where} ({len(paths):,} files there)"
    if "**" not in value.pattern:
        deeper = globs.matcher(f"**/{value.pattern.removeprefix('./')}")
        count = sum(map(deeper, paths[:HINTED]))
        if count:
            text += f"; {count:,} fit '**/{value.pattern}'"
    return text


async def run(value: GlobInput, ctx: ToolContext) -> Answer:
    """Return at most 100 paths relative to the workspace, and how many there are in all."""
    start, where = folder(ctx, value.path)
    try:
        found, paths, ran = await find(value.pattern, start, start, engine.ripgrep())
    except ValueError as error:
        raise ToolError(f"{error}; write another pattern") from None
    meta: Json = {"path": where, "engine": ran.engine, "matched": len(found), "tier": "path"}
    if ran.code is None:
        raise ToolError(
            f"{where!r} could not be listed within {TIMEOUT:.0f} s; give a smaller path"
        )
    if not found:
        return text_answer(_nothing(value, where, paths), **meta)
    prefix = "" if where == "." else where.rstrip("/") + "/"
    lines = [(prefix + path).encode("utf-8", "replace").decode() for path in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"[{SHOWN} of {len(found):,} files shown; narrow the pattern or the path]")
    return text_answer("\n".join(lines), truncated=len(found) > SHOWN, **meta)


GLOB = Tool(
    "glob",
    DESCRIPTION,
    GlobInput,
    run,
    concurrent=True,
    read_only=True,
    timeout=TIMEOUT + 10,
    early=True,
)
