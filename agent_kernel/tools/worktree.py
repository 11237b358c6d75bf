"""Worktree: a git worktree of its own for an agent, on the branch `agent/<id>`.

May not merge anything, and removes only what the agent left unchanged.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from agent_kernel.core.tasks import Ended
from agent_kernel.core.tool import ToolError
from agent_kernel.guard import process

SECONDS = 60.0
STAT = 2_000  # characters of a diff's stat


@dataclass(frozen=True)
class Worktree:
    """One worktree: its repository, folder, branch, and the commit it began at."""

    root: Path
    folder: Path
    branch: str
    commit: str
    inner: Path  # where the agent works: as deep in it as its parent is in the repository


async def git(root: Path, *words: str) -> str:
    """Return what git says. Raises ToolError with its words when it fails."""
    try:
        done = await process.run(
            ["git", "-c", f"core.hooksPath={os.devnull}", "-C", str(root), *words],
            cwd=root,
            timeout=SECONDS,
            env=process.child_env(),
        )
    except OSError as error:
        raise ToolError(f"a worktree needs git: {error}") from None
    text, _ = done.text()
    if done.exit_code != 0:
        raise ToolError(f"git {words[0]} failed: {text.strip()[-500:]}")
    return text.strip()


async def made(workspace: Path, place: Path | None, agent: str) -> Worktree:
    """Return a new worktree for `agent` at the present commit, under `place` or a temporary folder.

    Raises ToolError outside a repository or before its first commit.
    """
    root = Path(await git(workspace, "rev-parse", "--show-toplevel"))
    commit = await git(root, "rev-parse", "--verify", "HEAD")
    base = place if place is not None else Path(await asyncio.to_thread(tempfile.mkdtemp))
    folder, branch = (base / agent).absolute(), f"agent/{agent}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    await git(root, "worktree", "add", "--quiet", "-b", branch, str(folder), commit)
    within = Path(os.path.realpath(workspace)).relative_to(os.path.realpath(root))
    return Worktree(root, folder, branch, commit, folder / within)


async def ended(tree: Worktree, end: Ended) -> Ended:
    """Return how the agent ended, with where its changes are; an unchanged worktree is removed."""
    status = await git(tree.folder, "status", "--porcelain", "--untracked-files=all")
    ahead = await git(tree.folder, "rev-list", "--count", f"{tree.commit}..HEAD")
    if not status and ahead == "0":
        await git(tree.root, "worktree", "remove", "--force", str(tree.folder))
        await git(tree.root, "branch", "-D", tree.branch)
        shutil.rmtree(tree.folder, ignore_errors=True)
        return replace(end, result=f"{end.result}\n\n[its worktree was unchanged and is removed]")
    await git(tree.folder, "add", "--all", "--intent-to-add")
    stat = await git(tree.folder, "diff", "--stat", "--no-ext-diff", "--no-textconv", tree.commit)
    said = (
        f"[worktree {tree.folder}, branch {tree.branch}, not merged; "
        f"{ahead} commits and these changes since {tree.commit[:10]}]\n{stat[:STAT]}"
    )
    return replace(end, result=f"{end.result}\n\n{said}")
