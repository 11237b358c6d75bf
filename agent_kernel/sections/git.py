"""Git: repository, branch, changed files and last subjects, where there is a repository.

May not run a hook, a pager or a program the repository's own configuration names.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from agent_kernel.core.prompt import PromptContext, Section

WAIT = 10.0  # seconds git may take; a request waits less and takes its answer when it is there
KEEP = 20.0  # seconds an answer counts when the repository's own files did not change
_SAFE = {
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "diff.external": "",
    "core.hooksPath": os.devnull,
}
_known: dict[Path, tuple[float, tuple[float, float], str]] = {}


async def render(context: PromptContext) -> str | None:
    """Return root, branch, changed-file count and five subjects; None outside a repository."""
    root = _root(context.workspace)
    if root is None:
        return None
    stamp = (_changed(root / ".git" / "index"), _changed(root / ".git" / "logs" / "HEAD"))
    known = _known.get(root)
    if known is not None and known[1] == stamp and time.monotonic() - known[0] < KEEP:
        return known[2]
    try:
        async with asyncio.timeout(WAIT):
            text = await _look(root)
    except TimeoutError:
        return known[2] if known is not None else f"root: {root}"
    _known[root] = (time.monotonic(), stamp, text)
    return text


def _root(folder: Path) -> Path | None:
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


async def _look(root: Path) -> str:
    status, subjects = await asyncio.gather(
        _git(root, "status", "--porcelain=v2", "--branch", "--untracked-files=normal"),
        _git(root, "log", "-5", "--format=%h %s"),
    )
    lines = status.splitlines()
    branch = next((x.split(" ", 2)[2] for x in lines if x.startswith("# branch.head ")), "unknown")
    changed = sum(not line.startswith("#") for line in lines)
    out = [f"root: {root}", f"branch: {branch}", f"changed files: {changed}"]
    return "\n".join([*out, *(f"commit: {line[:120]}" for line in subjects.splitlines())])


async def _git(root: Path, *words: str) -> str:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_COUNT": str(len(_SAFE))}
    for at, (key, value) in enumerate(_SAFE.items()):
        env |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    try:
        child = await asyncio.create_subprocess_exec(
            "git", "-C", str(root), *words, env=env, start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        return ""
    try:
        out, _ = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    return out.decode("utf-8", "replace")


GIT = Section("git", False, render)
