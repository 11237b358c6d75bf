"""Engine: which program searches files here (ripgrep, else our own worker), and how it is run.

May not say how results look: both engines print the same bytes, the tools cut and name them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import agent_kernel.tools.globs as globs
import agent_kernel.tools.walker as walker
from agent_kernel.guard.process import child_env

Mode = Literal["list", "lines", "files", "count"]
_MODE_FLAGS = {"lines": "--line-number", "files": "--files-with-matches", "count": "--count"}


@dataclass(frozen=True)
class Query:
    """One search: `start` (absolute) is walked, paths are shown relative to `base` if below it."""

    mode: Mode
    start: Path
    base: Path
    pattern: str = ""
    glob: str | None = None
    context: int = 0
    ignore_case: bool = False

    @property
    def shown_start(self) -> str:
        """The start as the engine is told it: relative to `base` when below it."""
        if self.start.is_relative_to(self.base):
            inner = self.start.relative_to(self.base).as_posix()
            return "./" if inner == "." else f"./{inner}"
        return str(self.start)


@dataclass(frozen=True)
class Ran:
    """How a search ended: `code` None = stopped at the deadline; `error` is the engine's words."""

    engine: str
    code: int | None
    error: str


def ripgrep() -> str | None:
    """Return the path of `rg` on PATH, or None."""
    return shutil.which("rg", path=child_env()["PATH"])


def rg_argv(program: str, query: Query, prefilter: str | None) -> list[str]:
    """Return the ripgrep command of `query`: no config, no preprocessor, our order and skips."""
    argv = [program, "--no-config", "--hidden", "--no-require-git", "--no-messages", "--null"]
    argv += ["--no-ignore-global", "--no-ignore-exclude", "--color=never", "--sort=path"]
    for name in (*walker.SKIPPED, *walker.SESSION):
        argv.append(f"--glob=!{name}")
    if prefilter:
        argv.append(f"--ignore-file={prefilter}")
    if query.mode == "list":
        return [*argv, "--files", "--", query.shown_start]
    argv += [_MODE_FLAGS[query.mode], "--no-heading", "--with-filename", "--crlf"]
    argv += [f"--max-filesize={walker.MAX_BYTES}"]
    argv.append("--ignore-case" if query.ignore_case else "--case-sensitive")
    if query.mode == "lines" and query.context:
        argv.append(f"--context={query.context}")
    return [*argv, f"--regexp={query.pattern}", "--", query.shown_start]


def _own_argv() -> list[str]:
    return [sys.executable, "-I", "-S", walker.__file__]


def _own_query(query: Query) -> bytes:
    said = {**vars(query), "start": str(query.start), "base": str(query.base)}
    return json.dumps(said).encode()


def prefilter_text(glob: str) -> str:
    """Return an ignore file that hides what `glob` does not want; results are filtered again."""
    wanted = [f"!/{e.removeprefix('./')}" if "/" in e else f"!{e}" for e in globs.expand(glob)]
    return "\n".join(["*", "!*/", *wanted, ""])


async def run(
    query: Query, take: Callable[[bytes], None], timeout: float, program: str | None
) -> Ran:
    """Run `query` with ripgrep at `program`, or with our worker when None; `take` gets the output.

    At most `timeout` seconds; the engine never outlives the call.
    """
    if program is None:
        return await _drive(_own_argv(), _own_query(query), query.base, take, timeout)
    with contextlib.ExitStack() as stack:
        prefilter = None
        if query.glob and query.start.is_dir():
            file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".ignore"))
            file.write(prefilter_text(query.glob))
            file.flush()
            prefilter = file.name
        argv = rg_argv(program, query, prefilter)
        return await _drive(argv, b"", query.base, take, timeout)


async def _drive(
    argv: list[str], stdin: bytes, cwd: Path, take: Callable[[bytes], None], timeout: float
) -> Ran:
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=child_env(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.ensure_future(process.stderr.read())
    name = "python" if stdin else "rg"
    try:
        async with asyncio.timeout(timeout):
            process.stdin.write(stdin)
            process.stdin.close()
            while chunk := await process.stdout.read(1 << 18):
                take(chunk)
            code = await process.wait()
            return Ran(name, code, (await errors).decode("utf-8", "replace").strip())
    except TimeoutError:
        return Ran(name, None, "")
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        errors.cancel()
